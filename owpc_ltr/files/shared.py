"""Files of known names in folders that other users may write to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from owpc_ltr.errors import Refused


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
