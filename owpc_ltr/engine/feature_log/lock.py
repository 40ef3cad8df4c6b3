"""The lock of a run folder: one process at a time, and none left behind by a crash."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from owpc_ltr.errors import Refused
from owpc_ltr.files.regular import open_in_shared, refuse_foreign


def locked(path: Path, out: Path) -> int:
    """A descriptor that holds the lock of a run folder, which is made if need be.

    Closing it gives the lock back, and so does any end of the process. Raises Refused when
    another process holds it, and where another user has made the folder or can write to it.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            refuse_foreign(path)
        lock = open_in_shared(path / "lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(lock, path / "lock"):
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
                return lock
        except BlockingIOError:
            holder = os.pread(lock, 200, 0).decode(errors="replace") or "another process"
            os.close(lock)
            raise Refused(
                f"{holder} is writing {out} already: wait for it, or choose another --out"
            ) from None
        except BaseException:
            os.close(lock)
            raise
        # The holder finished and took the folder away between our two steps.
        os.close(lock)


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
