"""The process of a node: its start, its health, and its shutdown."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.signatures import option_name
from owpc_ltr_node.folders import Places, UnixUser, locked, writing_to
from owpc_ltr_node.home import provide_home
from owpc_ltr_node.java import choose_java
from owpc_ltr_node.record import Record, created, live_process, process_to_end
from owpc_ltr_node.release import ELASTICSEARCH
from owpc_ltr_node.report import Report
from owpc_ltr_node.settings import (
    LocalNode,
    cluster_name,
    command,
    elasticsearch_environment,
    prepare_folder,
)

LTR_PLUGINS = ("opensearch-ltr", "ltr")
VECTORS_PLUGIN = "opensearch-neural-search"


def check_free(port: int, parameter: str) -> None:
    """Raise EngineUnavailable where another program listens on the port, and name it."""
    if not _is_free(port):
        raise EngineUnavailable(
            f"port {port} is taken by {_holder(port)}: end it, or choose another with "
            f"{option_name(parameter)}"
        )


def ask(port: int, path: str, timeout: float = 5.0) -> Any:
    """What the node answers to a GET, as JSON; None if it does not answer, or not with that."""
    # No proxy must come between us and our own machine.
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
        return json.loads(content) if answer.status == 200 else None
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()


def health(port: int) -> str | None:
    """The health of the node that we started there: green, yellow, red; None without an answer."""
    answer = ask(port, "/_cluster/health")
    if not isinstance(answer, dict) or answer.get("cluster_name") != cluster_name(port):
        return None
    return str(answer.get("status"))


def plugins(port: int) -> set[str] | None:
    """The names of the plugins that the node runs; None without an answer."""
    answer = ask(port, "/_cat/plugins?format=json")
    if not isinstance(answer, list):
        return None
    return {plugin["component"] for plugin in answer}


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _holder(port: int) -> str:
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                if connection.pid is None:
                    break
                process = psutil.Process(connection.pid)
                return f"'{process.name()}' (pid {connection.pid})"
    except psutil.Error:
        pass  # another user's process is not ours to look at
    return "another program"


GRACE = 20.0
# Most telling first: each names the cause where a later one names only what failed of it.
TELLING = (
    r"No space left on device",
    r"OutOfMemoryError|insufficient memory|Could not reserve enough space",
    r"Address already in use",
    r"failed to obtain node lock",
    r"cannot downgrade|IndexFormatTooNew|incompatible with",
    r"AccessDenied|Permission denied|Read-only file system",
    r"FindException",
    r"^Likely root cause",
    r"^Error: |^Unrecognized |^Error occurred|^Exception in thread",
    r"^Caused by",
    r"ERROR|Exception",
)


def end(record: Record) -> bool:
    """End the process of a record, politely and then not; False if it had ended.

    Where it may not be ended by us, EngineUnavailable is raised before.
    """
    import psutil

    process = process_to_end(record)
    if process is None:
        return False
    try:
        process.terminate()
        if psutil.wait_procs([process], GRACE)[1]:
            process.kill()
            psutil.wait_procs([process], GRACE)
    except psutil.NoSuchProcess:
        pass  # it has just ended
    except psutil.AccessDenied as error:
        raise EngineUnavailable(
            f"cannot end the node on port {record.port} (pid {process.pid}): it belongs to "
            f"'{process.username()}'; stop it as that user"
        ) from error
    return True


@contextmanager
def launched(
    node: LocalNode, folder: Path, places: Places, account: UnixUser | None, report: Report
) -> Iterator[Record]:
    """The started process, on record; ended again where the body fails.

    What is not there yet is fetched and assembled before.
    """
    with (
        writing_to(places.cache),
        locked(places.cache / "assembly.lock", "another assembly", report),
    ):
        java = choose_java(node.java, account, places.runtimes, report, release=node.release)
        home, manifest = provide_home(node, places, account, report)
    token = uuid.uuid4().hex
    with writing_to(folder, option_name("data") if node.folder else "OWPC_LTR_HOME"):
        prepare_folder(node, folder, account)
        # Elasticsearch looks for its modules where it starts.
        is_elastic = node.engine == ELASTICSEARCH
        pid = launch(
            command(node, java, home, folder, token),
            folder,
            account,
            start_in=home if is_elastic else None,
            more=elasticsearch_environment(java, home, folder) if is_elastic else None,
        )
    record = Record(
        port=node.port,
        pid=pid,
        created=created(pid),
        token=token,
        version=node.release.version,
        heap=node.heap,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        home=str(home),
        folder=str(folder),
        java=str(java.program),
        ltr_plugin=manifest.ltr_plugin,
        engine=node.engine,
        vectors=manifest.vectors,
    )
    try:
        record.write(places.nodes)
        yield record
    except BaseException:
        end(record)
        record.forget(places.nodes)
        raise


def launch(
    line: Sequence[str],
    folder: Path,
    account: UnixUser | None,
    start_in: Path | None = None,
    more: Mapping[str, str] | None = None,
) -> int:
    """Start the process, detached from this one; its pid. Its output goes to the log.

    `more` is what its environment has besides.
    """
    identity = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    # Nothing is inherited: secrets of this shell, or JAVA_TOOL_OPTIONS, have no business there.
    environment = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    environment |= {"ES_TMPDIR": str(folder / "tmp"), "LIBFFI_TMPDIR": str(folder / "tmp")}
    environment |= more or {}
    # Never through a link: the folder belongs to the node's account, and we may be root.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(folder / "logs" / "node.log", flags, 0o640), "wb") as log:
        try:
            process = subprocess.Popen(  # type: ignore[call-overload]  # noqa: S603
                line,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=start_in or folder / "tmp",
                env=environment,
                start_new_session=True,
                umask=0o077,
                **identity,
            )
        except (subprocess.SubprocessError, OSError) as error:
            name = account.name if account else "you"
            raise EngineUnavailable(
                f"cannot start {line[0]} as '{name}': {error}; run owpc-ltr as another user"
            ) from error
    # Reaped when it ends, for as long as this process lives; init takes over after that.
    threading.Thread(target=process.wait, daemon=True).start()
    return int(process.pid)


def decisive_line(log: Path) -> str:
    """The line of the log that tells why the node ended, shortened."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    except OSError:
        return "it left no log"
    told = [line for line in lines if line]
    for pattern in TELLING:
        found = next((line for line in told if re.search(pattern, line)), None)
        if found:
            return found[:300].rstrip(";,. ")
    return told[-1][:300] if told else "its log is empty"


def advice(line: str) -> str:
    """What to do about a decisive line, after a semicolon; nothing where nobody knows."""
    found = (words for pattern, words in _ADVICE.items() if re.search(pattern, line))
    return next((f"; {words}" for words in found), "")


_ADVICE = {
    r"FindException: Module": "this Java is stripped of a module: name a whole JDK with --java",
    r"cannot downgrade|IndexFormatTooNew|incompatible with": "a later version has upgraded the "
    "data: name another folder with --data, or start that version",
    r"Address already in use": "name another --port or --transport-port",
}


def await_health(record: Record, patience: float, report: Report) -> None:
    """Wait for yellow. Raises EngineUnavailable when the node ends, or `patience` seconds do."""
    begin = time.monotonic()
    while True:
        answer = health(record.port)
        if answer in ("yellow", "green"):
            return
        if live_process(record) is None:
            line = decisive_line(record.log)
            raise EngineUnavailable(
                f"the node on port {record.port} ended while it started: {line}{advice(line)}; the "
                f"whole log: {record.log}"
            )
        waited = time.monotonic() - begin
        if waited > patience:
            raise EngineUnavailable(
                f"the node on port {record.port} is {answer or 'without an answer'} after "
                f"{waited:.0f} s: {decisive_line(record.log)}; the whole log: {record.log}"
            )
        report.advance("waiting for the node", waited, patience)
        time.sleep(0.1)
