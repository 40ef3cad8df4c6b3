"""Files and folders in shared places: never another user's, and locked by one process at a time.

No lock is left behind by a crash.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from pathlib import Path

from owpc_ltr.errors import Refused


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


def open_in_shared(path: Path, flags: int = 0, mode: int = 0o600) -> int:
    """A descriptor to read and write the file, which is made if need be, and not truncated.

    Raises Refused for a link, and for anything else that is no plain file of one name: what is
    written there would go into a file that somebody else chose.
    """
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        if path.is_symlink():
            raise _planted(path) from error
        raise
    about = os.fstat(descriptor)
    # A file that was removed meanwhile has no name at all.
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        os.close(descriptor)
        raise _planted(path)
    return descriptor


def refuse_foreign(folder: Path, *, linked: bool = False) -> None:
    """Refuse a folder that another user has made, or can write to; `linked`: it may be a link.

    Raises Refused, and the error of the disk where nothing is there.
    """
    about = folder.stat() if linked else folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise Refused(f"{folder} is a link or a file, not a folder of this job: remove it")
    if about.st_uid != os.geteuid():
        raise Refused(
            f"{folder} belongs to another user (number {about.st_uid}), who could change what is "
            "read from it: remove it, or name another place with --out"
        )
    if about.st_mode & stat.S_IWOTH:
        raise Refused(
            f"every user can write to {folder}, and change what is read from it: run chmod o-w "
            f"{folder}, or name another place with --out"
        )


def _planted(path: Path) -> Refused:
    return Refused(
        f"{path} is a link, or no plain file: what is written there would go elsewhere: remove it"
    )
