"""A disk that fails at a counted operation on the files of a folder."""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

_NOWHERE = "/nowhere"
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate"}
_OF_OPEN_FILES = {"os.fsync", "os.write", "fcntl.flock"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
FULL = errno.ENOSPC


@dataclass
class FailingDisk:
    """Counts operations, and makes one of them, or all from then on, fail.

    Counted are changes of what is in the folder, or with `reading` the opening of files to read.
    """

    folder: str = _NOWHERE
    fail_at: int = 0
    lasting: bool = False
    reason: int = FULL
    reading: bool = False
    seen: int = 0

    def __call__(self, what: str, given: tuple[Any, ...]) -> None:
        if self.folder != _NOWHERE and self._concerns(what, given):
            self.seen += 1
            if self.seen == self.fail_at or (self.lasting and self.seen > self.fail_at > 0):
                raise OSError(self.reason, os.strerror(self.reason), str(given[0]))

    def _concerns(self, what: str, given: tuple[Any, ...]) -> bool:
        if what in _OF_OPEN_FILES:
            return not self.reading
        if (what != "open" and what not in _CHANGES) or not self._is_below(given[0]):
            return False
        if what != "open":
            return not self.reading
        writing = isinstance(given[2], int) and bool(given[2] & _WRITING)
        return writing != self.reading and not (self.reading and Path(given[0]).is_dir())

    def _is_below(self, path: object) -> bool:
        return isinstance(path, str | Path) and str(Path.cwd() / path).startswith(self.folder)


@cache
def the_disk() -> FailingDisk:
    """The one disk of this process: an audit hook cannot be taken out again."""
    disk = FailingDisk()
    sys.addaudithook(disk)
    return disk


@contextmanager
def failing_disk(
    folder: Path, fail_at: int, *, reason: int = FULL, lasting: bool = False, reading: bool = False
) -> Iterator[FailingDisk]:
    """The disk, failing at an operation on the files below a folder; with 0 it only counts."""
    disk = the_disk()
    disk.fail_at, disk.reason, disk.lasting, disk.reading = fail_at, reason, lasting, reading
    disk.seen, disk.folder = 0, str(folder)
    try:
        with _watched(disk, "fsync"), _watched(disk, "write"):
            yield disk
    finally:
        disk.folder = _NOWHERE


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """No file can grow beyond a size: what the system itself refuses, in the midst of a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _watched(disk: FailingDisk, name: str) -> Any:
    """A function of `os` that no audit event tells of."""
    true: Callable[..., Any] = getattr(os, name)

    def watched(*given: Any) -> Any:
        disk(f"os.{name}", given)
        return true(*given)

    return mock.patch.object(os, name, watched)
