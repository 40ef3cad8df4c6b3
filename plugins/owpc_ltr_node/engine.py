"""`owpc-ltr engine`: start and stop nodes on this machine, tell how they are, print their logs."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, UsageError
from owpc_ltr.files.output import disk_faults
from owpc_ltr.signatures import Help, Progress, job, silent
from owpc_ltr_node.process import (
    Record,
    await_health,
    end_process,
    has_ltr_plugin,
    health,
    launch,
    read_record,
    read_records,
    record_file,
)
from owpc_ltr_node.release import (
    ELASTICSEARCH,
    OPENSEARCH,
    USUAL,
    VECTORS,
    Places,
    find_places,
    known_versions,
    locked_file,
    print_notice,
)
from owpc_ltr_node.settings import DEFAULT_HEAP, DEFAULT_PORT, LocalNode, check_folder

Port = Annotated[
    "int | None", Help("The port that names the node; may be left out for the only one.")
]


@job
def start(
    *,
    port: Annotated[int, Help("The port of the node, which also names it.")] = DEFAULT_PORT,
    transport_port: Annotated[
        int | None, Help("Its transport port; default: a free one from 9300 on.")
    ] = None,
    heap: Annotated[
        str, Help("Memory for the node, as 512m or 2g.", metavar="SIZE")
    ] = DEFAULT_HEAP,
    data: Annotated[
        Path | str | None,
        Help("Folder for its indices, logs and temporary files.", metavar="FOLDER"),
    ] = None,
    java: Annotated[
        Path | str | None,
        Help("The Java to use; default: that of JAVA_HOME if it will do, or the bundled one."),
    ] = None,
    engine: Annotated[
        Literal["opensearch", "elasticsearch"],
        Help("Which engine; Elasticsearch comes under Elastic's own licences."),
    ] = "opensearch",
    version: Annotated[
        str | None,
        Help(
            f"OpenSearch {', '.join(known_versions(OPENSEARCH))}, or Elasticsearch "
            f"{', '.join(known_versions(ELASTICSEARCH))}; default: {USUAL[OPENSEARCH]}, or "
            f"{USUAL[ELASTICSEARCH]}.",
            metavar="VERSION",
        ),
    ] = None,
    with_vectors: Annotated[
        bool, Help(f"OpenSearch {VECTORS} with k-NN (its engine lucene) and neural search.")
    ] = False,
    progress: Progress = silent,
) -> NodeStatus:
    """Start a node, and wait until it is ready.

    The first start downloads about 60 MB (Elasticsearch: 100 MB); later ones need no network and
    take seconds.

    Raises EngineUnavailable where it does not start, and leaves no process behind then.
    """
    node = LocalNode(
        port=port,
        transport_port=transport_port,
        heap=heap,
        folder=None if data is None else Path(data),
        java=None if java is None else Path(java),
        engine=engine,
        version=version,
        with_vectors=with_vectors,
    )
    return start_node(node, progress)


@job
def stop(*, port: Port = None) -> NodeStatus:
    """Stop a node.

    Its indices stay for the next start.
    """
    return stop_node(port)


@job
def status(*, port: Port = None) -> NodeList:
    """Show the state of a node; without a port, of every node.

    With a port, the exit code is 4 if the node does not run.
    """
    if port is None:
        return NodeList(tuple(map(status_of, read_records(find_places().nodes))))
    return NodeList((node_status(port),), port)


@job
def logs(
    *,
    port: Annotated[int, Help("The port that names the node.")] = DEFAULT_PORT,
    lines: Annotated[int, Help("How many lines; 0: all.", short="-n", min=0)] = 50,
    follow: Annotated[
        bool, Help("Print new lines as they come, until Ctrl-C.", short="-f")
    ] = False,
) -> None:
    """Print the end of a node's log, also of one that has ended."""
    from owpc_ltr.cli.terminal import nobody_reads

    with log_file(port).open(errors="replace") as log:
        for line in log.readlines()[-lines or sys.maxsize :]:
            sys.stdout.write(line)
        while follow and not nobody_reads():
            sys.stdout.write(log.read())
            sys.stdout.flush()
            time.sleep(0.3)


@dataclass(frozen=True)
class NodeList:
    """The nodes of this machine; of a `port` that was named, its node alone."""

    nodes: tuple[NodeStatus, ...]
    port: int | None = None

    @property
    def refusal(self) -> EngineUnavailable | None:
        """The error of the command where the node on the port does not run."""
        if self.port is None or self.nodes[0].running:
            return None
        return EngineUnavailable(
            f"no node runs on port {self.port}: start it with `engine_start(port={self.port})`"
        )

    def as_dict(self) -> dict[str, Any]:
        """The node on the port, or all nodes."""
        if self.port is not None:
            return self.nodes[0].as_dict()
        return {"nodes": [asdict(node) for node in self.nodes]}

    def __str__(self) -> str:
        """One line per node."""
        return "\n".join(map(str, self.nodes)) or "no local node; start one: owpc-ltr engine start"


@dataclass(frozen=True)
class NodeStatus:
    """A node as it is now. Sizes are in bytes; `health` is None while it does not answer."""

    port: int
    url: str
    state: str
    pid: int | None = None
    version: str | None = None
    health: str | None = None
    heap: str | None = None
    data_bytes: int | None = None
    ltr_plugin: bool | None = None
    started: str | None = None
    folder: str | None = None
    home: str | None = None
    java: str | None = None
    log: str | None = None
    engine: str | None = None
    vectors: bool | None = None

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.state == "running"

    def as_dict(self) -> dict[str, Any]:
        """The node as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """One line."""
        if self.state == "stopped":
            return f"{self.url}  stopped"
        if self.state == "died":
            return f"{self.url}  ended without a stop; log: {self.log}"
        plugin = "with" if self.ltr_plugin else "without"
        vectors = "with k-NN and neural search, " if self.vectors else ""
        size = "?" if self.data_bytes is None else f"{self.data_bytes / 1e6:.1f} MB"
        return (
            f"{self.url}  {self.health or 'not answering'}, {self.engine} {self.version} "
            f"{vectors}{plugin} the LTR plugin, pid {self.pid}, heap {self.heap}, data {size}"
        )


def node_status(port: int, places: Places | None = None) -> NodeStatus:
    """How the node on a port is; its `state` is running, stopped or died."""
    record = read_record(record_file((places or find_places()).nodes, port))
    return status_of(record) if record else _stopped(port)


def _stopped(port: int) -> NodeStatus:
    return NodeStatus(port, f"http://127.0.0.1:{port}", "stopped")


def status_of(record: Record) -> NodeStatus:
    """How a started node is."""
    alive = record.process() is not None
    return NodeStatus(
        port=record.port,
        url=record.url,
        state="running" if alive else "died",
        pid=record.pid if alive else None,
        version=record.version,
        health=health(record.port) if alive else None,
        heap=record.heap,
        data_bytes=_size(Path(record.folder) / "data"),
        ltr_plugin=has_ltr_plugin(record.port) if alive else None,
        started=record.started,
        folder=record.folder,
        home=record.home,
        java=record.java,
        log=str(record.log),
        engine=record.engine,
        vectors=record.vectors,
    )


def _size(folder: Path) -> int | None:
    """The bytes under a folder; None where a file went while they were counted."""
    try:
        return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError:
        return None


def default_url() -> str:
    """Where a node on the usual port answers, or else the most recently started one."""
    try:
        records = read_records(find_places().nodes)
    except (OwpcLtrError, OSError):
        records = []  # whoever asks only wants a default
    usual_first = sorted(records, key=lambda record: record.port != DEFAULT_PORT)
    alive = [record for record in usual_first if record.process()]
    return (alive or records)[0].url if records else f"http://127.0.0.1:{DEFAULT_PORT}"


def log_file(port: int) -> Path:
    """The log of the node on a port, also of one that has ended.

    Raises EngineUnavailable where there is none.
    """
    nodes = find_places().nodes
    record = read_record(record_file(nodes, port))
    logs = [*nodes.glob(f"{port}/logs/node.log"), *nodes.glob(f"{port}-*/logs/node.log")]
    latest = max(logs, key=lambda log: log.stat().st_mtime, default=None)
    log = record.log if record else latest
    if log is None or not log.is_file():
        raise EngineUnavailable(
            f"no node on port {port} has left a log: `owpc-ltr engine status` lists the nodes"
        )
    return log


def start_node(
    node: LocalNode, progress: Progress = silent, places: Places | None = None
) -> NodeStatus:
    """Start a node, and wait for its health; nothing to do where it runs.

    What it needs is downloaded at the first start; later ones touch no network. Raises
    EngineUnavailable, saying what is in the way, and leaves no process behind then.
    """
    places = places or find_places()
    with _port_lock(places, node.port):
        record = _running(places, node)
        if record is not None:
            await_health(record, node.patience, progress)
            return status_of(record)
        check_account(node.engine)
        folder = _choose_folder(node, places)
        check_free(node.port, "port")
        if node.transport_port is not None:
            check_free(node.transport_port, "transport_port")
        record = launch(node, folder, places, progress)
        try:
            await_health(record, node.patience, progress)
        except BaseException:
            end_process(record)
            record_file(places.nodes, node.port).unlink(missing_ok=True)
            raise
    return status_of(record)


def stop_node(port: int | None = None, places: Places | None = None) -> NodeStatus:
    """End what was started on a port, and no other process; without a port, the only one."""
    places = places or find_places()
    chosen = _only_port(places) if port is None else port
    with _port_lock(places, chosen):
        record = read_record(record_file(places.nodes, chosen))
        if record is None:
            print_notice(f"no node was running on port {chosen}")
        else:
            if not end_process(record):
                print_notice(f"the node on port {chosen} (pid {record.pid}) had already ended")
            record_file(places.nodes, chosen).unlink(missing_ok=True)
    return _stopped(chosen)


@contextmanager
def _port_lock(places: Places, port: int) -> Iterator[None]:
    lock = places.nodes / f"{port}.lock"
    with disk_faults(places.nodes), locked_file(lock, f"another start or stop on port {port}"):
        yield


def _running(places: Places, node: LocalNode) -> Record | None:
    """The record of what already runs on this port; what has ended is cleaned up.

    Raises UsageError where that is another engine, version or set of plugins than is asked for.
    """
    record = read_record(record_file(places.nodes, node.port))
    if record is None:
        return None
    if record.process() is None:
        print_notice(f"the node on port {record.port} (pid {record.pid}) had ended without a stop")
        record_file(places.nodes, node.port).unlink(missing_ok=True)
        return None
    is_named = node.version is not None or node.with_vectors
    if record.engine != node.engine or (is_named and record.release != str(node.release)):
        raise UsageError(
            f"the node on port {node.port} is {record.release}, and not {node.release}: "
            f"`engine_stop(port={node.port})` first, or name another `port`"
        )
    print_notice(
        f"the node on port {node.port} already runs (pid {record.pid}, heap {record.heap})"
    )
    if (record.heap, record.release) != (node.heap, str(node.release)):
        print_notice(
            f"it keeps heap {record.heap} and {record.release}: `engine_stop(port={node.port})` "
            "first to change them"
        )
    return record


def check_account(engine: str) -> None:
    """Raise UsageError for an engine that does not run as root, and say how the other one does."""
    if os.geteuid() != 0:
        return
    if engine == ELASTICSEARCH:
        raise UsageError(f"{engine} does not run as root: run owpc-ltr as another user")
    print_notice(f"{engine} runs as root, where it asks for -Djna.nounpack=true")


def _choose_folder(node: LocalNode, places: Places) -> Path:
    folder = (node.folder or places.nodes / node.folder_name).expanduser().absolute()
    for other in read_records(places.nodes):
        if folder == Path(other.folder) and other.process():
            raise UsageError(
                f"`data` {folder} is in use by the node on port {other.port}: name another folder"
            )
    check_folder(folder)
    return folder


def _only_port(places: Places) -> int:
    ports = sorted(record.port for record in read_records(places.nodes))
    if len(ports) > 1:
        listed = ", ".join(map(str, ports))
        raise UsageError(f"several nodes run (ports {listed}): name one with `port`")
    return ports[0] if ports else DEFAULT_PORT


def check_free(port: int, parameter: str) -> None:
    """Raise EngineUnavailable where another program listens on the port, and name it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise EngineUnavailable(
                f"port {port} is taken by {_holder(port)}: end it, or choose another with "
                f"`{parameter}`"
            ) from error


def _holder(port: int) -> str:
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
            if listens and connection.pid is not None:
                return f"'{psutil.Process(connection.pid).name()}' (pid {connection.pid})"
    except psutil.Error:
        pass  # another user's process is not ours to look at
    return "another program"
