"""What is recorded of a started node, and which process it is: no other is ever signalled."""

from __future__ import annotations

import json
import math
import os
import pwd
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput, EngineUnavailable
from owpc_ltr_node.folders import PREFERRED, make_folder, node_user, write_readable
from owpc_ltr_node.release import OPENSEARCH, USUAL

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
    doubt = _doubt(process, record) or _foreign(process)
    if doubt:
        raise EngineUnavailable(
            f"cannot end the node on port {record.port} (pid {record.pid}): {doubt}"
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
    own = {os.geteuid()}
    if os.geteuid() == 0:
        account = node_user()
        own |= {account.uid} if account else set()
        for name in PREFERRED:
            with suppress(KeyError):
                own.add(pwd.getpwnam(name).pw_uid)
    return own


def _ancestors() -> list[psutil.Process]:
    import psutil

    try:
        return list(psutil.Process().parents())
    except psutil.Error:
        return []
