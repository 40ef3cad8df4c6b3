"""`owpc-ltr engine`: start and stop nodes on this machine, tell how they are, print their logs."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, UsageError
from owpc_ltr.signatures import Help, Progress, job, option_name, silent
from owpc_ltr.text import printable
from owpc_ltr_node.folders import (
    Places,
    Report,
    UnixUser,
    closed_folder,
    find_places,
    locked,
    node_user,
    writing_to,
)
from owpc_ltr_node.process import (
    LTR_PLUGINS,
    VECTORS_PLUGIN,
    Record,
    await_health,
    end,
    health,
    launched,
    live_process,
    plugins,
    read_record,
    read_records,
    record_file,
)
from owpc_ltr_node.release import ELASTICSEARCH, OPENSEARCH, USUAL, VECTORS
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
    home: Annotated[
        Path | str | None,
        Help("Folder of the installed engine; made if it does not exist.", metavar="FOLDER"),
    ] = None,
    java: Annotated[
        Path | str | None,
        Help("The Java to use; default: that of JAVA_HOME or PATH, or the bundled one."),
    ] = None,
    engine: Annotated[
        Literal["opensearch", "elasticsearch"],
        Help("Which engine; Elasticsearch comes under Elastic's own licences."),
    ] = "opensearch",
    version: Annotated[
        str | None,
        Help(
            "OpenSearch 2.13 to 3, Elasticsearch 8.8 to 9; default: "
            f"{USUAL[OPENSEARCH]}, or {USUAL[ELASTICSEARCH]}.",
            metavar="VERSION",
        ),
    ] = None,
    with_vectors: Annotated[
        bool,
        Help(
            f"With k-NN (its engine lucene) and neural search; OpenSearch {VECTORS} if no "
            "version is named."
        ),
    ] = False,
    verify: Annotated[bool, Help("Check every file of the engine against its SHA-256.")] = False,
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
        home=None if home is None else Path(home),
        java=None if java is None else Path(java),
        engine=engine,
        version=version,
        verify=verify,
        with_vectors=with_vectors,
    )
    return start_node(node, _printed(progress))


@job
def stop(*, port: Port = None, progress: Progress = silent) -> NodeStatus:
    """Stop a node.

    Its indices stay for the next start.
    """
    return stop_node(port, _printed(progress))


@job
def status(*, port: Port = None) -> NodeList:
    """Show the state of a node; without a port, of every node.

    With a port, the exit code is 4 if the node does not run.
    """
    if port is None:
        # The latest start first.
        return NodeList(tuple(map(status_of, read_records(find_places(node_user()).nodes))))
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
            f"no node runs on port {self.port}: start it with owpc-ltr engine start --port "
            f"{self.port}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The node on the port, or all nodes."""
        if self.port is not None:
            return self.nodes[0].as_dict()
        return {"nodes": [asdict(node) for node in self.nodes]}

    def __str__(self) -> str:
        """One line per node."""
        if not self.nodes:
            return "no local node; start one: owpc-ltr engine start"
        return "\n".join(map(str, self.nodes))


def _printed(progress: Progress) -> Report:
    """News of a start: lines on standard error, and how far it is."""
    return Report(lambda line: print(printable(line), file=sys.stderr), progress)


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
    record = read_record((places or find_places(node_user())).nodes / f"{port}.json")
    return status_of(record) if record else _stopped(port)


def _stopped(port: int) -> NodeStatus:
    return NodeStatus(port, f"http://127.0.0.1:{port}", "stopped")


def default_url() -> str:
    """Where a node on the usual port answers, or else the most recently started one."""
    try:
        records = read_records(find_places(node_user()).nodes)
    except (OwpcLtrError, OSError):
        records = []  # whoever asks only wants a default
    usual_first = sorted(records, key=lambda record: record.port != DEFAULT_PORT)
    alive = [record for record in usual_first if live_process(record)]
    return (alive or records)[0].url if records else f"http://127.0.0.1:{DEFAULT_PORT}"


def log_file(port: int) -> Path:
    """The log of the node on a port, also of one that has ended.

    Raises EngineUnavailable where there is none.
    """
    nodes = find_places(node_user()).nodes
    record = read_record(nodes / f"{port}.json")
    log = record.log if record else _last_log(nodes, port)
    if log is None or not log.is_file():
        raise EngineUnavailable(
            f"no node on port {port} has left a log: `owpc-ltr engine status` lists the nodes"
        )
    return log


def _last_log(nodes: Path, port: int) -> Path | None:
    """The latest log on a port, of whichever engine."""
    logs = [*nodes.glob(f"{port}/logs/node.log"), *nodes.glob(f"{port}-*/logs/node.log")]
    return max(logs, key=lambda log: log.stat().st_mtime, default=None)


def status_of(record: Record) -> NodeStatus:
    """How a started node is."""
    alive = live_process(record) is not None
    loaded = plugins(record.port) if alive else None
    return NodeStatus(
        port=record.port,
        url=record.url,
        state="running" if alive else "died",
        pid=record.pid if alive else None,
        version=record.version,
        health=health(record.port) if alive else None,
        heap=record.heap,
        data_bytes=_size(record.data),
        ltr_plugin=None if loaded is None else not loaded.isdisjoint(LTR_PLUGINS),
        started=record.started,
        folder=record.folder,
        home=record.home,
        java=record.java,
        log=str(record.log),
        engine=record.engine,
        vectors=None if loaded is None else VECTORS_PLUGIN in loaded,
    )


def _size(folder: Path) -> int | None:
    """The bytes under a folder; None where it is not ours to look into."""
    try:
        return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError:
        return None  # a file went while we counted, or the folder is closed to us


def start_node(
    node: LocalNode, report: Report | None = None, places: Places | None = None
) -> NodeStatus:
    """Start a node, and wait for its health; nothing to do where it runs.

    What it needs is downloaded at the first start; later ones touch no network. Raises
    EngineUnavailable, saying what is in the way, and leaves no process behind then.
    """
    report = report or Report()
    account = node_user()
    places = places or find_places(account)
    with _port_lock(places, node.port, report):
        record = _running(places, node, report)
        if record is not None:
            await_health(record, node.patience, report)
            return status_of(record)
        folder = _choose_folder(node, places, account)
        check_free(node.port, "port")
        if node.transport_port is not None:
            check_free(node.transport_port, "transport_port")
        with launched(node, folder, places, account, report) as record:
            await_health(record, node.patience, report)
    return status_of(record)


def stop_node(
    port: int | None = None, report: Report | None = None, places: Places | None = None
) -> NodeStatus:
    """End what was started on a port, and no other process; without a port, the only one."""
    report = report or Report()
    places = places or find_places(node_user())
    chosen = _only_port(places) if port is None else port
    with _port_lock(places, chosen, report):
        record = read_record(record_file(places.nodes, chosen))
        if record is None:
            report.say(f"no node was running on port {chosen}")
        else:
            if not end(record):
                report.say(f"the node on port {chosen} (pid {record.pid}) had already ended")
            record.forget(places.nodes)
    return _stopped(chosen)


@contextmanager
def _port_lock(places: Places, port: int, report: Report) -> Iterator[None]:
    with (
        writing_to(places.state),
        locked(places.nodes / f"{port}.lock", f"another start or stop on port {port}", report),
    ):
        yield


def _running(places: Places, node: LocalNode, report: Report) -> Record | None:
    """The record of what already runs on this port, whole; what has ended is cleaned up."""
    record = read_record(record_file(places.nodes, node.port))
    if record is None:
        return None
    if live_process(record) is None:
        report.say(f"the node on port {record.port} (pid {record.pid}) had ended without a stop")
        record.forget(places.nodes)
        return None
    report.say(f"the node on port {node.port} already runs (pid {record.pid}, heap {record.heap})")
    running = (record.heap, record.engine, record.version, record.vectors)
    if running != (node.heap, node.engine, node.release.version, node.with_vectors):
        engine = "version" if record.engine == node.engine else record.engine
        vectors = "with" if record.vectors else "without"
        report.say(
            f"it keeps heap {record.heap} and {engine} {record.version} {vectors} vectors: "
            f"`owpc-ltr engine stop --port {node.port}` first to change them"
        )
    return record


def _choose_folder(node: LocalNode, places: Places, account: UnixUser | None) -> Path:
    folder = (node.folder or _usual_folder(node, places)).expanduser().absolute()
    for other in read_records(places.nodes):
        if folder == Path(other.folder) and live_process(other):
            raise UsageError(
                f"{option_name('data')} {folder} is in use by the node on port {other.port}: "
                "name another folder"
            )
    check_folder(folder)
    closed = closed_folder(folder / "data", account)
    if account and closed:
        raise UsageError(
            f"{option_name('data')} {folder} cannot be used: the node runs as '{account.name}', "
            f"since {node.engine} refuses root, and cannot enter {closed}; leave it out, or name a "
            "folder outside it"
        )
    return folder


def _usual_folder(node: LocalNode, places: Places) -> Path:
    """One for each port, engine, version and set of plugins: they cannot read each other's indices.

    An engine upgrades what it finds, and an older one then cannot open it any more. The usual
    version has the folder without a version, whose indices a later usual one upgrades.
    """
    suffix = "" if node.engine == OPENSEARCH else f"-{node.engine}"
    suffix += "" if node.release.version == USUAL[node.engine] else f"-{node.release.version}"
    suffix += "-vectors" * node.with_vectors
    return places.nodes / f"{node.port}{suffix}"


def _only_port(places: Places) -> int:
    ports = [record.port for record in read_records(places.nodes)]
    if len(ports) > 1:
        listed = ", ".join(str(port) for port in sorted(ports))
        raise UsageError(f"several nodes run (ports {listed}): name one with {option_name('port')}")
    return ports[0] if ports else DEFAULT_PORT


def check_free(port: int, parameter: str) -> None:
    """Raise EngineUnavailable where another program listens on the port, and name it."""
    if not _is_free(port):
        raise EngineUnavailable(
            f"port {port} is taken by {_holder(port)}: end it, or choose another with "
            f"{option_name(parameter)}"
        )


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
