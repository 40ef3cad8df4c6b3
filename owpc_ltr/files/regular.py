"""Plain files opened for reading: all else that has a name is refused, and never waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

from owpc_ltr.errors import BadInput, DiskFault

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
        return DiskFault(f"{cannot} {name}: {why}; mend the disk and run it again")
    if cannot != READ:
        return BadInput(f"{cannot} {name}: {why}")
    return BadInput(f"{cannot} {name}: {why.lower()}; check the name")
