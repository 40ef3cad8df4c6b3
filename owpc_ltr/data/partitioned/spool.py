"""A spool: parts as plain numbers in a file without a name, which the system forgets at the end.

Unpacking Parquet takes many times as long as reading the same numbers again: of a pass over parts
that do not fit in memory it would be nearly all.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset

_LEFT_FREE = 1 << 30
"""Bytes of the disk that are never taken."""
_ARRAYS = ("features", "labels", "document_weights", "query_weights")
_SMALL = ("offsets", "query_ids", "feature_names")


class _Place(NamedTuple):
    """Where a part begins, what it is but for its numbers, and what they are like."""

    start: int
    rest: dict[str, Any]
    arrays: dict[str, tuple[tuple[int, ...], Any]]


class Spool:
    """Parts in a temporary file, as far as the disk has room: in TMPDIR, or /var/tmp."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._places: dict[Hashable, _Place] = {}
        self._end, self._full, self._lock = 0, False, Lock()

    def keep(self, key: Hashable, part: RankingDataset) -> None:
        """Write a part, if there is room; no fault of the disk stops what it is for."""
        present = {name: getattr(part, name) for name in _ARRAYS}
        arrays = {name: array for name, array in present.items() if array is not None}
        size = sum(array.nbytes for array in arrays.values())
        with self._lock:
            if self._full or key in self._places or not self._has_room(size):
                self._full |= key not in self._places
                return
            start, self._end = self._end, self._end + size
        try:
            self._write(start, list(arrays.values()))
        except OSError:
            self._full = True
            return
        shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        rest = {name: getattr(part, name) for name in _SMALL}
        self._places[key] = _Place(start, rest, shapes)

    def get(self, key: Hashable) -> RankingDataset | None:
        """A part that is kept."""
        place = self._places.get(key)
        if place is None or self._file is None:
            return None
        start = place.start
        arrays: dict[str, Any] = {}
        for name, (shape, kind) in place.arrays.items():
            arrays[name] = np.empty(shape, kind)
            if not _read(self._file, arrays[name], start):
                return None
            start += arrays[name].nbytes
        return RankingDataset(**arrays, **place.rest)

    def release(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._places.clear()
            self._end, self._full = 0, False
            if self._file is not None:
                with suppress(OSError):
                    os.ftruncate(self._file, 0)

    def _has_room(self, size: int) -> bool:
        try:
            folder = _folder()
            if self._file is None:
                with tempfile.TemporaryFile(dir=folder) as file:
                    self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
            return shutil.disk_usage(folder).free > size + _LEFT_FREE
        except OSError:
            return False

    def _write(self, start: int, arrays: Sequence[NDArray[Any]]) -> None:
        assert self._file is not None  # noqa: S101 - told to the type checker
        for array in arrays:
            rest = _bytes(np.ascontiguousarray(array))
            while rest:
                written = os.pwrite(self._file, rest, start)
                rest, start = rest[written:], start + written


def _folder() -> Path:
    """Where large temporary files go: not where memory passes for a disk, unless it is asked."""
    named, usual = os.environ.get("TMPDIR"), Path("/var/tmp")  # noqa: S108 - a file without a name
    if named:
        return Path(named)
    return usual if usual.is_dir() and os.access(usual, os.W_OK) else Path(tempfile.gettempdir())


def _read(descriptor: int, array: NDArray[Any], start: int) -> bool:
    """Fill an array; whether all of it was there."""
    rest = _bytes(array)
    while rest:
        got = os.preadv(descriptor, [rest], start)
        if got == 0:
            return False
        rest, start = rest[got:], start + got
    return True


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
