"""What is remembered of a node that was started: one small file per port."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from owpc_ltr.engine.node.places import make_folder
from owpc_ltr.errors import BadInput
from owpc_ltr.files.atomic import write_atomically

if TYPE_CHECKING:
    import psutil

CLOCK_SLACK = 5.0


@dataclass(frozen=True)
class Record:
    """A started node. `token` stands in its command line, `created` is its process's start."""

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

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

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
        write_atomically(record_file(nodes, self.port), json.dumps(asdict(self), indent=1).encode())

    def forget(self, nodes: Path) -> None:
        """Remember it no longer."""
        record_file(nodes, self.port).unlink(missing_ok=True)


def record_file(nodes: Path, port: int) -> Path:
    """Where the record of a port is kept."""
    return make_folder(nodes) / f"{port}.json"


def read_record(path: Path) -> Record | None:
    """The record in a file; None if there is none. Raises BadInput if it cannot be understood."""
    try:
        values = json.loads(path.read_bytes())
        return Record(**{field.name: values[field.name] for field in fields(Record)})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{path} is not the record of a node ({error!r}): remove it") from error


def read_records(nodes: Path) -> list[Record]:
    """Every node that was started and not stopped, the latest start first."""
    found = (read_record(path) for path in nodes.glob("*.json"))
    return sorted((each for each in found if each), key=lambda each: each.started, reverse=True)


def live_process(record: Record) -> psutil.Process | None:
    """The node's process; None if it has ended, even where another process has its pid now."""
    import psutil

    try:
        process = psutil.Process(record.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        try:
            is_ours = any(record.token in word for word in process.cmdline())
        except psutil.AccessDenied:
            is_ours = abs(process.create_time() - record.created) < CLOCK_SLACK
    except psutil.NoSuchProcess:
        return None
    return process if is_ours else None


def created(pid: int) -> float:
    """When a process started, in seconds of the epoch; 0 if it has ended already."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return 0.0
