"""File locks of the local node: one process at a time, freed when it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.files.regular import open_in_shared
from owpc_ltr_node.places import make_folder
from owpc_ltr_node.report import Report


@contextmanager
def locked(path: Path, what: str, report: Report, patience: float = 900.0) -> Iterator[None]:
    """Hold the lock file; wait, and say so, while another process does.

    Raises EngineUnavailable when it is still held after `patience` seconds.
    """
    make_folder(path.parent)
    descriptor = open_in_shared(path, mode=0o644)
    try:
        _acquire(descriptor, what, report, patience)
        os.truncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)  # which also unlocks


def _acquire(descriptor: int, what: str, report: Report, patience: float) -> None:
    give_up = time.monotonic() + patience
    waiting = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace") or "?"
        else:
            return
        if time.monotonic() > give_up:
            raise EngineUnavailable(
                f"{what} is still under way in process {holder} after {patience:.0f} s: "
                "try again when it is done, or end it"
            )
        if not waiting:
            report.say(f"{what} is under way in process {holder}; waiting for it")
            waiting = True
        time.sleep(0.1)
