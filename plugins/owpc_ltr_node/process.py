"""The process of a node: its record, its start, its health, and its end.

The command line of a node has a random mark that its record has, too: a process with this mark is
the node, and no other process is ever signalled.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput, EngineUnavailable
from owpc_ltr.files.output import write_atomically
from owpc_ltr.signatures import Progress
from owpc_ltr_node.home import provide_home
from owpc_ltr_node.java import choose_java
from owpc_ltr_node.release import ELASTICSEARCH, Places
from owpc_ltr_node.settings import LocalNode, cluster_name, command, environment, prepare_folder

if TYPE_CHECKING:
    import psutil

_MARK = "-Dowpc_ltr.node="
_LTR_PLUGINS = {"opensearch-ltr", "ltr"}
_GRACE = 20.0
_EXECUTED = 10.0
"""Seconds for a new process to have its command line."""
# Most telling first: each names the cause where a later one names only what failed of it.
_TELLING = (
    r"No space left on device",
    r"(?<!ExitOn)OutOfMemoryError|insufficient memory|Could not reserve enough space",
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
_ADVICE = {
    r"FindException: Module": "this Java is stripped of a module: name a whole JDK with `java`",
    r"cannot downgrade|IndexFormatTooNew|incompatible with": "a later version has upgraded the "
    "data: name another folder with `data`, or start that version",
    r"Address already in use": "name another `port` or `transport_port`",
}


@dataclass(frozen=True)
class Record:
    """A started node; `mark` is the word of its command line that no other process has."""

    port: int
    pid: int
    mark: str
    engine: str
    version: str
    vectors: bool
    heap: str
    started: str
    home: str
    folder: str
    java: str

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it prints."""
        return Path(self.folder) / "logs" / "node.log"

    @property
    def release(self) -> str:
        """What it is, as a release is written."""
        return f"{self.engine} {self.version}{' with vectors' * self.vectors}"

    def process(self) -> psutil.Process | None:
        """Its process; None if it has ended, even where another process has its pid now."""
        import psutil

        try:
            process = psutil.Process(self.pid)
            alive = process.status() != psutil.STATUS_ZOMBIE and self.mark in process.cmdline()
        except (psutil.Error, TypeError, ValueError, OverflowError):
            return None
        return process if alive else None


def record_file(nodes: Path, port: int) -> Path:
    """Where the record of a port is kept."""
    return nodes / f"{port}.json"


def read_record(path: Path) -> Record | None:
    """The record in a file; None if there is none. Raises BadInput if it cannot be understood."""
    try:
        record = Record(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"{path} is not the record of a node ({error!r}): remove it") from error
    if not str(record.mark).startswith(_MARK) or path.stem != str(record.port):
        raise BadInput(f"{path} is not the record of a node: remove it")
    return record


def read_records(nodes: Path) -> list[Record]:
    """Every record of a start without a stop, the latest start first."""
    records = (read_record(path) for path in nodes.glob("*.json"))
    return sorted((each for each in records if each), key=lambda each: each.started, reverse=True)


def get_json(port: int, path: str, timeout: float = 5.0) -> Any:
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
    answer = get_json(port, "/_cluster/health")
    if not isinstance(answer, dict) or answer.get("cluster_name") != cluster_name(port):
        return None
    return str(answer.get("status"))


def has_ltr_plugin(port: int) -> bool | None:
    """Whether the node runs the LTR plugin; None without an answer."""
    plugins = get_json(port, "/_cat/plugins?format=json")
    if not isinstance(plugins, list):
        return None
    return any(plugin["component"] in _LTR_PLUGINS for plugin in plugins)


def end_process(record: Record) -> bool:
    """End the process of a record, politely and then not; False if it had ended."""
    import psutil

    process = record.process()
    if process is None:
        return False
    try:
        process.terminate()
        if psutil.wait_procs([process], _GRACE)[1]:
            process.kill()
            psutil.wait_procs([process], _GRACE)
    except psutil.NoSuchProcess:
        pass  # it has just ended
    except psutil.AccessDenied as error:
        raise EngineUnavailable(
            f"cannot end the node on port {record.port} (pid {process.pid}): stop it as the user "
            f"'{process.username()}'"
        ) from error
    return True


def launch(node: LocalNode, folder: Path, places: Places, progress: Progress) -> Record:
    """Start the process, detached from this one, and write its record.

    What it needs is downloaded and assembled before, if it is not there.
    """
    java = choose_java(node.java, node.release, places.cache)
    home = provide_home(node.release, places.cache, progress)
    prepare_folder(node, folder)
    mark = f"{_MARK}{uuid.uuid4().hex}"
    with (folder / "logs" / "node.log").open("xb") as log:
        try:
            process = subprocess.Popen(  # noqa: S603
                command(node, java, home, folder, mark),
                # Elasticsearch looks for its modules where it starts.
                cwd=home if node.engine == ELASTICSEARCH else folder / "tmp",
                env=environment(node, java, home, folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )
        except OSError as error:
            raise EngineUnavailable(
                f"cannot start {java}: {error}; name another Java with `java`"
            ) from error
    # Reaped when it ends, for as long as this process lives; init takes over after that.
    threading.Thread(target=process.wait, daemon=True).start()
    record = Record(
        port=node.port,
        pid=process.pid,
        mark=mark,
        engine=node.engine,
        version=node.release.version,
        vectors=node.with_vectors,
        heap=node.heap,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        home=str(home),
        folder=str(folder),
        java=str(java),
    )
    # The command line of a new process is empty until it is executed, which a busy machine delays.
    until = time.monotonic() + _EXECUTED
    while record.process() is None and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    try:
        content = json.dumps(asdict(record), indent=1).encode()
        write_atomically(record_file(places.nodes, node.port), content)
    except BaseException:
        end_process(record)
        raise
    return record


def await_health(record: Record, patience: float, progress: Progress) -> None:
    """Wait for yellow. Raises EngineUnavailable when the node ends, or `patience` seconds do."""
    begin = time.monotonic()
    while (answer := health(record.port)) not in ("yellow", "green"):
        if record.process() is None:
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
        progress("waiting for the node", waited / patience)
        time.sleep(0.1)


def decisive_line(log: Path) -> str:
    """The line of the log that tells why the node ended, shortened."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    except OSError:
        return "it left no log"
    printed = [line for line in lines if line]
    for pattern in _TELLING:
        match = next((line for line in printed if re.search(pattern, line)), None)
        if match:
            return match[:300].rstrip(";,. ")
    return printed[-1][:300] if printed else "its log is empty"


def advice(line: str) -> str:
    """What to do about a decisive line, after a semicolon; nothing where nobody knows."""
    matching = (words for pattern, words in _ADVICE.items() if re.search(pattern, line))
    return next((f"; {words}" for words in matching), "")
