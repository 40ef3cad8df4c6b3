"""File locks: one process at a time, and no lock left behind by a crash."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from owpc_ltr.errors import Refused
from owpc_ltr.files.regular_file import open_in_shared, refuse_foreign


class LockHeld(Refused):
    """Another process, the `holder`, has the lock."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{holder} holds {path}: wait for it to end")
        self.holder = holder


def lock_file(path: Path, mode: int = 0o600) -> int:
    """A descriptor that holds the lock of a file, which is made if need be.

    Closing it releases the lock, and so does any end of the process. Raises LockHeld where another
    process has it.
    """
    while True:
        descriptor = open_in_shared(path, mode=mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.pwrite(
                    descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0
                )
                return descriptor
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise LockHeld(path, holder) from None
        except BaseException:
            os.close(descriptor)
            raise
        # The holder removed the file between our two steps.
        os.close(descriptor)


def lock_folder(folder: Path, purpose: Path) -> int:
    """As `lock_file` for FOLDER/lock; the folder is made, for its owner alone, if need be.

    Raises Refused, naming the `purpose`, where another process has it, and where another user has
    made the folder or can write to it.
    """
    while True:
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            refuse_foreign(folder)
        try:
            return lock_file(folder / "lock")
        except LockHeld as held:
            raise Refused(
                f"{held.holder} is writing {purpose} already: wait for it, or choose another --out"
            ) from None
        except FileNotFoundError:
            # The holder finished and removed the folder meanwhile.
            continue


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
