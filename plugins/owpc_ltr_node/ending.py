"""Ending the processes of a node or of a cluster: politely, and then not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr_node.identity import process_to_end
from owpc_ltr_node.record import Record

if TYPE_CHECKING:
    import psutil

GRACE = 20.0


def end(record: Record) -> bool:
    """End every process of a record, all at the same time; False if none was left.

    Where one may not be ended by us, EngineUnavailable is raised before any is.
    """
    found = [process_to_end(member) for member in record.members]
    alive = [process for process in found if process is not None]
    for process in alive:
        _signal(process, record, kill=False)
    until = time.monotonic() + GRACE
    for process in alive:
        if not _waited(process, max(until - time.monotonic(), 0.001)):
            _signal(process, record, kill=True)
            _waited(process, GRACE)
    return bool(alive)


def _signal(process: psutil.Process, record: Record, *, kill: bool) -> None:
    import psutil

    try:
        process.kill() if kill else process.terminate()
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise EngineUnavailable(
            f"cannot end the node on port {record.port} (pid {process.pid}): it belongs to "
            f"'{process.username()}'; stop it as that user"
        ) from error


def _waited(process: psutil.Process, seconds: float) -> bool:
    """Whether the process has ended within so many seconds."""
    import psutil

    try:
        process.wait(seconds)
    except psutil.TimeoutExpired:
        return False
    except psutil.NoSuchProcess:
        return True
    return True
