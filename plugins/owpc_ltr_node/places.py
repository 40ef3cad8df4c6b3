"""The folders of local nodes, the locks in them, and news for the user."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.files.folders import state_folder
from owpc_ltr.files.output import LockHeld, lock_file
from owpc_ltr.text import printable


class Places(NamedTuple):
    """`cache` can be thrown away, and comes back by downloading; `nodes` has records and data."""

    cache: Path
    nodes: Path


def find_places() -> Places:
    """OWPC_LTR_HOME if set, else the platform's folders."""
    import platformdirs

    cache = platformdirs.user_cache_path("owpc-ltr", appauthor=False)
    if home := os.environ.get("OWPC_LTR_HOME"):
        cache = Path(home).expanduser().absolute() / "cache"
    return Places(cache, state_folder() / "nodes")


@contextmanager
def locked(path: Path, what: str, patience: float = 900.0) -> Iterator[None]:
    """Hold the lock file; wait, and say so, while another process does.

    Raises EngineUnavailable when it is still held after `patience` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(path, what, patience)
    try:
        yield
    finally:
        os.close(descriptor)  # which also unlocks


def _acquire(path: Path, what: str, patience: float) -> int:
    give_up = time.monotonic() + patience
    waiting = False
    while True:
        try:
            return lock_file(path)
        except LockHeld as held:
            if time.monotonic() > give_up:
                raise EngineUnavailable(
                    f"{what} is still under way in {held.holder} after {patience:.0f} s: try again "
                    "when it is done, or end it"
                ) from held
            if not waiting:
                say(f"{what} is under way in {held.holder}; waiting for it")
            waiting = True
        time.sleep(0.1)


def say(line: str) -> None:
    """Print what the user should know, on standard error."""
    print(printable(line), file=sys.stderr)
