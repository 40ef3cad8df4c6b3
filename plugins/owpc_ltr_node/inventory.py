"""Which local nodes there are, and how they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from owpc_ltr.errors import EngineUnavailable, OwpcLtrError
from owpc_ltr_node import probe
from owpc_ltr_node.account import node_account
from owpc_ltr_node.config import DEFAULT_PORT
from owpc_ltr_node.identity import live_process
from owpc_ltr_node.places import Places, find_places
from owpc_ltr_node.record import Record, read_record, read_records


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
    nodes: int = 1
    alive: int = 0
    """How many nodes were started, and how many of their processes live."""

    @property
    def running(self) -> bool:
        """Whether its process lives, and all of a cluster do."""
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
        size = "?" if self.data_bytes is None else f"{self.data_bytes / 1e6:.1f} MB"
        return (
            f"{self.url}  {self.health or 'not answering'}, {self.engine} {self.version} {plugin} "
            f"the LTR plugin, pid {self.pid}, heap {self.heap}, data {size}"
        )


def status(port: int, places: Places | None = None) -> NodeStatus:
    """How the node on a port is; its `state` is running, stopped, died, or of a cluster broken."""
    record = read_record((places or find_places(node_account())).nodes / f"{port}.json")
    if record is None:
        return NodeStatus(port, f"http://127.0.0.1:{port}", "stopped")
    return status_of(record)


def statuses() -> list[NodeStatus]:
    """Everything that was started and not stopped, the latest start first."""
    return [status_of(record) for record in read_records(find_places(node_account()).nodes)]


def default_url() -> str:
    """Where a node on the usual port answers, or else the most recently started one."""
    try:
        records = read_records(find_places(node_account()).nodes)
    except (OwpcLtrError, OSError):
        records = []  # whoever asks only wants a default
    # Any node of a cluster answers for it.
    usual_first = sorted(records, key=lambda record: record.port != DEFAULT_PORT)
    alive = [each for record in usual_first for each in record.members if live_process(each)]
    return (alive or records)[0].url if records else f"http://127.0.0.1:{DEFAULT_PORT}"


def log_file(port: int, number: int = 1) -> Path:
    """The log of the node on a port, also of one that has ended; of a cluster, that of a number.

    Raises EngineUnavailable where there is none.
    """
    nodes = find_places(node_account()).nodes
    record = read_record(nodes / f"{port}.json")
    log = _recorded_log(record, number) if record else _last_log(nodes, port, number)
    if log is None or not log.is_file():
        which = "no node" if number == 1 else f"no node {number} of a cluster"
        raise EngineUnavailable(
            f"{which} on port {port} has left a log: `owpc-ltr engine status` lists the nodes"
        )
    return log


def _recorded_log(record: Record, number: int) -> Path | None:
    return record.members[number - 1].log if 1 <= number <= len(record.members) else None


def _last_log(nodes: Path, port: int, number: int) -> Path | None:
    """The latest log on a port, of whichever engine."""
    logs = [*nodes.glob(f"{port}-*/node-{number}/logs/node.log")]
    if number == 1:
        logs += [*nodes.glob(f"{port}/logs/node.log"), *nodes.glob(f"{port}-*/logs/node.log")]
    return max(logs, key=lambda log: log.stat().st_mtime, default=None)


def status_of(record: Record) -> NodeStatus:
    """How a started node or cluster is, which any node that lives tells."""
    members = record.members
    living = [member for member in members if live_process(member)]
    told = living[0] if living else record
    broken = "broken" if living else "died"
    return NodeStatus(
        port=record.port,
        url=told.url,
        state="running" if len(living) == len(members) else broken,
        pid=told.pid if living else None,
        version=record.version,
        health=probe.health(told.port, record.port)[0] if living else None,
        heap=record.heap,
        data_bytes=_size([member.data for member in members]),
        ltr_plugin=probe.has_ltr_plugin(told.port) if living else None,
        started=record.started,
        folder=record.folder,
        home=record.home,
        java=record.java,
        log=str(next((m.log for m in members if m not in living), record.log)),
        engine=record.engine,
        nodes=len(members),
        alive=len(living),
    )


def _size(folders: list[Path]) -> int | None:
    """The bytes under folders; None where one is not ours to look into."""
    try:
        return sum(
            path.lstat().st_size
            for folder in folders
            for path in folder.rglob("*")
            if path.is_file()
        )
    except OSError:
        return None  # a file went while we counted, or the folder is closed to us
