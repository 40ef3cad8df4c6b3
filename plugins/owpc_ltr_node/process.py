"""The process of a node: its record, its start, its health, and its shutdown.

No process is signalled but the one that the record says.
"""

from __future__ import annotations

import json
import math
import os
import pwd
import re
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput, EngineUnavailable
from owpc_ltr.signatures import option_name
from owpc_ltr_node.folders import (
    PREFERRED,
    Places,
    Report,
    UnixUser,
    locked,
    make_folder,
    node_user,
    write_readable,
    writing_to,
)
from owpc_ltr_node.home import provide_home
from owpc_ltr_node.java import choose_java
from owpc_ltr_node.release import ELASTICSEARCH, OPENSEARCH, USUAL
from owpc_ltr_node.settings import (
    LocalNode,
    cluster_name,
    command,
    elasticsearch_environment,
    prepare_folder,
)

if TYPE_CHECKING:
    import psutil

_TOKEN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Record:
    """A started node.

    `token` stands in its command line, `created` is the start of its process.
    """

    port: int
    pid: int
    created: float
    token: str
    version: str
    heap: str
    started: str
    home: str
    folder: str
    java: str
    ltr_plugin: str | None
    engine: str = OPENSEARCH
    vectors: bool = False

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def mark(self) -> str:
        """The word of its command line that no other process has."""
        return f"-Dowpc_ltr.node={self.token}"

    @property
    def log(self) -> Path:
        """What it prints."""
        return Path(self.folder) / "logs" / "node.log"

    @property
    def data(self) -> Path:
        """Its indices."""
        return Path(self.folder) / "data"

    def write(self, nodes: Path) -> None:
        """Remember it."""
        content = json.dumps(asdict(self), indent=1).encode()
        write_readable(record_file(nodes, self.port), content)

    def forget(self, nodes: Path) -> None:
        """Remember it no longer."""
        record_file(nodes, self.port).unlink(missing_ok=True)


def record_file(nodes: Path, port: int) -> Path:
    """Where the record of a port is kept."""
    return make_folder(nodes) / f"{port}.json"


def read_record(path: Path) -> Record | None:
    """The record in a file; None if there is none. Raises BadInput if it cannot be understood."""
    try:
        # Records of earlier versions are all of the one engine that there was, without vectors.
        values = {"engine": OPENSEARCH, "vectors": False, **json.loads(path.read_bytes())}
        record = Record(**{field.name: values[field.name] for field in fields(Record)})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadInput(f"{path} is not the record of a node ({error!r}): remove it") from error
    fault = _fault(record)
    if fault or path.stem != str(record.port):
        raise BadInput(f"{path} is not the record of a node ({fault or 'port'}): remove it")
    return record


def read_records(nodes: Path) -> list[Record]:
    """Every record of a start without a stop, the latest start first."""
    records = (read_record(path) for path in nodes.glob("*.json"))
    return sorted((each for each in records if each), key=lambda each: each.started, reverse=True)


def _fault(record: Record) -> str:
    """The first field that no start has written so, or nothing: by it a process may be ended."""
    right: dict[str, bool] = {
        "port": _is_whole(record.port, 1024, 65535),
        "pid": _is_whole(record.pid, 2, 2**31 - 1),
        "created": _is_time(record.created),
        "engine": record.engine in USUAL,
        "token": isinstance(record.token, str) and _TOKEN.fullmatch(record.token) is not None,
        "vectors": type(record.vectors) is bool,
        "ltr_plugin": record.ltr_plugin is None or isinstance(record.ltr_plugin, str),
    }
    for name in ("version", "heap", "started", "home", "folder", "java"):
        value = getattr(record, name)
        right[name] = isinstance(value, str) and value != "" and "\0" not in value
    return next((name for name, is_right in right.items() if not is_right), "")


def _is_whole(value: Any, lowest: int, highest: int) -> bool:
    return type(value) is int and lowest <= value <= highest


def _is_time(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value < 1e11 and math.isfinite(value)


CLOCK_SLACK = 5.0
"""How far apart two readings of one process's start may be, in seconds."""


def live_process(record: Record) -> psutil.Process | None:
    """The node's process; None if it has ended, even where another process has its pid now.

    It must bear the node's token, run its Java, and have started when the node did.
    """
    process = _bearer(record)
    return process if process is not None and not _doubt(process, record) else None


def process_to_end(record: Record) -> psutil.Process | None:
    """The node's process, if it may be ended by us; None if it has ended.

    Raises EngineUnavailable where the record is not wholly right about it, or it is not ours.
    """
    process = _bearer(record)
    if process is None:
        return None
    fault = _doubt(process, record) or _foreign(process)
    if fault:
        raise EngineUnavailable(
            f"cannot end the node on port {record.port} (pid {record.pid}): {fault}"
        )
    return process


def created(pid: int) -> float:
    """When a process started, in seconds of the epoch; 0 if it has ended already."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return 0.0


def _bearer(record: Record) -> psutil.Process | None:
    """The process of the record's pid, if it lives and its command line has the node's token."""
    import psutil

    try:
        process = psutil.Process(record.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        # One whole word: a part of a word may stand in any command line.
        return process if record.mark in process.cmdline() else None
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def _doubt(process: psutil.Process, record: Record) -> str:
    """What of a process that bears the token is not as recorded, or nothing."""
    import psutil

    if process.pid in {1, os.getpid(), *(parent.pid for parent in _ancestors())}:
        return "that is this command itself, or what started it: remove the record"
    try:
        try:
            program = process.exe()
        except psutil.AccessDenied:
            program = os.path.realpath(process.cmdline()[0])
        if program != os.path.realpath(record.java):
            return f"its process runs {program}, and not the Java it was started with: end it"
        if abs(process.create_time() - record.created) >= CLOCK_SLACK:
            return "its process started at another time than it did: end it by its pid"
    except (psutil.NoSuchProcess, IndexError):
        return "it has just ended"
    return ""


def _foreign(process: psutil.Process) -> str:
    """Whose the process is, if it is neither ours nor of an account that we start nodes as."""
    uid = process.uids().real
    if uid in _own_accounts():
        return ""
    return f"it belongs to '{process.username()}'; stop it as that user"


def _own_accounts() -> set[int]:
    accounts = {os.geteuid()}
    if os.geteuid() == 0:
        account = node_user()
        accounts |= {account.uid} if account else set()
        for name in PREFERRED:
            with suppress(KeyError):
                accounts.add(pwd.getpwnam(name).pw_uid)
    return accounts


def _ancestors() -> list[psutil.Process]:
    import psutil

    try:
        return list(psutil.Process().parents())
    except psutil.Error:
        return []


LTR_PLUGINS = ("opensearch-ltr", "ltr")
VECTORS_PLUGIN = "opensearch-neural-search"


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
    printed = [line for line in lines if line]
    for pattern in TELLING:
        match = next((line for line in printed if re.search(pattern, line)), None)
        if match:
            return match[:300].rstrip(";,. ")
    return printed[-1][:300] if printed else "its log is empty"


def advice(line: str) -> str:
    """What to do about a decisive line, after a semicolon; nothing where nobody knows."""
    matching = (words for pattern, words in _ADVICE.items() if re.search(pattern, line))
    return next((f"; {words}" for words in matching), "")


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
