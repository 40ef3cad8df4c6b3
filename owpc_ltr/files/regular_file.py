"""Regular files, opened without waiting for a pipe or following another user's link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

from owpc_ltr.errors import BadInput, DiskFault, Refused

READ = "cannot read"


def open_regular(path: Path, cannot: str = READ) -> IO[bytes]:
    """The file, open for reading; `cannot` begins the messages, as in "cannot import".

    Raises BadInput where it is absent, unreadable or no plain file, DiskFault where the disk fails.
    """
    try:
        _refuse_others(f"{cannot} {path}", path.stat().st_mode)
        # Not to wait, should a pipe have taken the name meanwhile.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_others(f"{cannot} {path}", os.fstat(descriptor).st_mode)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, cannot, error) from error


def read_regular(path: Path, largest: int, cannot: str = READ, kind: str = "") -> bytes:
    """The bytes of a plain file, as they are. Raises BadInput where it is larger than `largest`."""
    with open_regular(path, cannot) as file:
        try:
            # One byte more, should the file grow meanwhile.
            content = file.read(min(largest, os.fstat(file.fileno()).st_size) + 1)
        except OSError as error:
            raise _unreadable(path, cannot, error) from error
    if len(content) > largest:
        raise BadInput(f"{path} is larger than {largest} bytes{f': not {kind}' if kind else ''}")
    return content


def _refuse_others(name: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise BadInput(f"{name}: it is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise BadInput(f"{name}: it is a pipe or a device; write it to a file first")


def _unreadable(path: Path, cannot: str, error: OSError | ValueError) -> BadInput | DiskFault:
    why = getattr(error, "strerror", None) or str(error)
    name = str(path) if isinstance(error, OSError) else repr(str(path))
    if getattr(error, "errno", None) == errno.EIO:
        return DiskFault(f"{cannot} {name}: {why}; fix the disk and run it again")
    if cannot != READ:
        return BadInput(f"{cannot} {name}: {why}")
    return BadInput(f"{cannot} {name}: {why.lower()}; check the name")


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
