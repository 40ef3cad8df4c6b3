"""Which local nodes there are, and how they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.engine.node import probe
from owpc_ltr.engine.node.account import node_account
from owpc_ltr.engine.node.config import PORT
from owpc_ltr.engine.node.identity import live_process
from owpc_ltr.engine.node.places import Places, find_places
from owpc_ltr.engine.node.record import Record, read_record, read_records
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError


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

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.state == "running"


def status(port: int, places: Places | None = None) -> NodeStatus:
    """How the node on a port is; its `state` is running, stopped, or died."""
    record = read_record((places or find_places(node_account())).nodes / f"{port}.json")
    if record is None:
        return NodeStatus(port, f"http://127.0.0.1:{port}", "stopped")
    return status_of(record)


def statuses() -> list[NodeStatus]:
    """Every node that was started and not stopped, the latest start first."""
    return [status_of(record) for record in read_records(find_places(node_account()).nodes)]


def default_url() -> str:
    """Where a node on the usual port answers, or else the most recently started one."""
    try:
        records = read_records(find_places(node_account()).nodes)
    except (OwpcLtrError, OSError):
        records = []  # whoever asks only wants a default
    alive = [record for record in records if live_process(record)]
    usual = [record for record in alive if record.port == PORT]
    return (usual or alive or records)[0].url if records else f"http://127.0.0.1:{PORT}"


def log_file(port: int) -> Path:
    """The log of the node on a port, also of one that has ended. Raises EngineUnavailable."""
    nodes = find_places(node_account()).nodes
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
    return NodeStatus(
        port=record.port,
        url=record.url,
        state="running" if alive else "died",
        pid=record.pid if alive else None,
        version=record.version,
        health=probe.health(record.port) if alive else None,
        heap=record.heap,
        data_bytes=_size(record.data),
        ltr_plugin=probe.has_ltr_plugin(record.port) if alive else None,
        started=record.started,
        folder=record.folder,
        home=record.home,
        java=record.java,
        log=str(record.log),
        engine=record.engine,
    )


def _size(folder: Path) -> int | None:
    """The bytes under a folder; None where it is not ours to look into."""
    try:
        return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError:
        return None  # a file went while we counted, or the folder is closed to us
