"""What is remembered of a node or cluster that was started: one small file per port."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import write_atomically
from owpc_ltr_node.places import make_folder
from owpc_ltr_node.release import OPENSEARCH, USUAL

_TOKEN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Member:
    """A further node of a started cluster, with a port, process and folder of its own."""

    port: int
    pid: int
    created: float
    folder: str


@dataclass(frozen=True)
class Record:
    """A started node, or a cluster: its first node, and the `others`.

    `token` stands in the command line of each, `created` is the start of its process.
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
    others: tuple[Member, ...] = ()

    @property
    def members(self) -> list[Record]:
        """Every node, each as a record of its own."""
        own = [replace(self, others=(), **vars(member)) for member in self.others]
        return [replace(self, others=()), *own]

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
        told = asdict(self)
        if not self.others:
            del told["others"]
        write_atomically(record_file(nodes, self.port), json.dumps(told, indent=1).encode())

    def forget(self, nodes: Path) -> None:
        """Remember it no longer."""
        record_file(nodes, self.port).unlink(missing_ok=True)


def record_file(nodes: Path, port: int) -> Path:
    """Where the record of a port is kept."""
    return make_folder(nodes) / f"{port}.json"


def read_record(path: Path) -> Record | None:
    """The record in a file; None if there is none. Raises BadInput if it cannot be understood."""
    try:
        # Records of earlier versions are all of the one engine that there was.
        values = {"engine": OPENSEARCH, "others": (), **json.loads(path.read_bytes())}
        values["others"] = tuple(Member(**other) for other in values["others"])
        record = Record(**{field.name: values[field.name] for field in fields(Record)})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadInput(f"{path} is not the record of a node ({error!r}): remove it") from error
    fault = next(filter(None, map(_fault, record.members)), "")
    if fault or path.stem != str(record.port):
        raise BadInput(f"{path} is not the record of a node ({fault or 'port'}): remove it")
    return record


def read_records(nodes: Path) -> list[Record]:
    """Every record of a start without a stop, the latest start first."""
    found = (read_record(path) for path in nodes.glob("*.json"))
    return sorted((each for each in found if each), key=lambda each: each.started, reverse=True)


def _fault(record: Record) -> str:
    """The first field that no start has written so, or nothing: by it a process may be ended."""
    right: dict[str, bool] = {
        "port": _is_whole(record.port, 1024, 65535),
        "pid": _is_whole(record.pid, 2, 2**31 - 1),
        "created": _is_time(record.created),
        "engine": record.engine in USUAL,
        "token": isinstance(record.token, str) and _TOKEN.fullmatch(record.token) is not None,
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
