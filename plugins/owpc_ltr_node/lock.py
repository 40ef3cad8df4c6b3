"""File locks of the local node: a process waits for the one before it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.files.lock import LockHeld, lock_file
from owpc_ltr_node.places import make_folder
from owpc_ltr_node.report import Report


@contextmanager
def locked(path: Path, what: str, report: Report, patience: float = 900.0) -> Iterator[None]:
    """Hold the lock file; wait, and say so, while another process does.

    Raises EngineUnavailable when it is still held after `patience` seconds.
    """
    make_folder(path.parent)
    descriptor = _acquire(path, what, report, patience)
    try:
        yield
    finally:
        os.close(descriptor)  # which also unlocks


def _acquire(path: Path, what: str, report: Report, patience: float) -> int:
    give_up = time.monotonic() + patience
    waiting = False
    while True:
        try:
            return lock_file(path, mode=0o644)
        except LockHeld as held:
            holder = held.holder
        if time.monotonic() > give_up:
            raise EngineUnavailable(
                f"{what} is still under way in {holder} after {patience:.0f} s: try again when it "
                "is done, or end it"
            )
        if not waiting:
            report.say(f"{what} is under way in {holder}; waiting for it")
            waiting = True
        time.sleep(0.1)
