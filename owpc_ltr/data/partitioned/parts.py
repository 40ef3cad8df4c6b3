"""Parts of a folder as they are read, and what stays at hand: in memory, or on disk."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.parquet.reading import (
    load_dataset,
    load_learnable,
    load_queries,
    load_query_params,
)
from owpc_ltr.data.partitioned.manifest import Part

ColumnSet = Literal["whole", "learnable", "filled"]
"""How a part is read: everything; what is learned from; the same with 0 for missing values."""


@dataclass(frozen=True, eq=False)
class PartSelection:
    """A part, or the `chosen` queries of it, by number."""

    part: Part
    chosen: NDArray[np.int64] | None
    queries: int
    documents: int


class PartReader:
    """The files of a folder: what was read of them and stays in memory."""

    def __init__(self, folder: Path, memory: int) -> None:
        self.folder, self.kept = folder, PartCache(memory)
        self._queries: dict[str, tuple[pa.StringArray, NDArray[np.int64]]] = {}

    def queries(self, part: Part) -> tuple[pa.StringArray, NDArray[np.int64]]:
        """The query ids of a part, and how many documents each has."""
        if part.path not in self._queries:
            self._queries[part.path] = load_queries(self.folder / part.path, part.digest)
        return self._queries[part.path]

    def query_params(self, part: Part) -> pa.StringArray | None:
        """The parameters of each query of a part, as JSON; None where it has none."""
        return load_query_params(self.folder / part.path, part.digest)

    def read(self, piece: PartSelection, form: ColumnSet) -> RankingDataset:
        """A piece in one of its forms, checked by its digest; what is learned from may be kept."""
        path, digest = self.folder / piece.part.path, piece.part.digest
        if form == "whole":
            return _chosen(load_dataset(path, digest), piece)

        def load() -> RankingDataset:
            data = _chosen(load_learnable(path, digest), piece)
            return data.without_missing() if form == "filled" else data

        chosen = None if piece.chosen is None else piece.chosen.tobytes()
        return self.kept.get((piece.part.path, chosen, form), load)

    def __reduce__(self) -> tuple[Any, ...]:
        # What was read stays in the process that has read it.
        return PartReader, (self.folder, self.kept.memory)


def _chosen(data: RankingDataset, piece: PartSelection) -> RankingDataset:
    return data if piece.chosen is None else data.select(piece.chosen)


_LEFT_FREE = 1 << 30
"""Bytes of the disk that are never taken."""
_ARRAYS = ("features", "labels", "document_weights", "query_weights")
_NUMBER = 64  # what begins at a multiple of this is where numbers of every size may be
_SMALL = ("offsets", "query_ids", "feature_names")


class _Place(NamedTuple):
    """Where a part is, what it is but for its numbers, and what they are like."""

    file: _File
    start: int
    rest: dict[str, Any]
    arrays: dict[str, tuple[int, tuple[int, ...], Any]]


class _File:
    """A file without a name, which goes when nobody needs it any more."""

    def __init__(self, folder: Path) -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)
        self.end = 0

    def write(self, array: NDArray[Any], start: int) -> None:
        """Write an array, its first byte at `start`."""
        rest = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        while rest:
            written = os.pwrite(self.descriptor, rest, start)
            rest, start = rest[written:], start + written


class DiskCache:
    """Parts in a temporary file, as far as the disk has room: in TMPDIR, or /var/tmp."""

    def __init__(self) -> None:
        self._file: _File | None = None
        self._places: dict[Hashable, _Place] = {}
        self._full, self._lock = False, Lock()

    def keep(self, key: Hashable, part: RankingDataset) -> None:
        """Write a part, if there is room; no fault of the disk stops what it is for."""
        present = {name: getattr(part, name) for name in _ARRAYS}
        arrays = {name: array for name, array in present.items() if array is not None}
        size = sum(_aligned(array.nbytes, _NUMBER) for array in arrays.values())
        with self._lock:
            if self._full or key in self._places:
                return
            file = self._with_room(size)
            if file is None:
                self._full = True
                return
            start = _aligned(file.end, mmap.ALLOCATIONGRANULARITY)
            file.end = start + size
        shapes, inside = {}, 0
        try:
            for name, array in arrays.items():
                file.write(array, start + inside)
                shapes[name] = inside, array.shape, array.dtype
                inside += _aligned(array.nbytes, _NUMBER)
        except OSError:
            self._full = True
            return
        rest = {name: getattr(part, name) for name in _SMALL}
        self._places[key] = _Place(file, start, rest, shapes)

    def get(self, key: Hashable) -> RankingDataset | None:
        """A part that is kept; its arrays are the file's own pages, and nothing is copied."""
        place = self._places.get(key)
        if place is None:
            return None
        # Of the last array the padding was never written.
        length = max(
            inside + int(np.prod(shape)) * kind.itemsize
            for inside, shape, kind in place.arrays.values()
        )
        pages = mmap.mmap(
            place.file.descriptor,
            length,
            flags=mmap.MAP_PRIVATE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
            offset=place.start,
        )
        arrays: dict[str, Any] = {
            name: np.frombuffer(pages, kind, int(np.prod(shape)), inside).reshape(shape)
            for name, (inside, shape, kind) in place.arrays.items()
        }
        return RankingDataset(**arrays, **place.rest)

    def release(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._places.clear()
            self._file, self._full = None, False

    def _with_room(self, size: int) -> _File | None:
        """The file, where its disk has room for so much more."""
        try:
            folder = scratch_folder()
            self._file = self._file or _File(folder)
            room = shutil.disk_usage(folder).free > size + _LEFT_FREE
        except OSError:
            return None
        return self._file if room else None


def scratch_folder() -> Path:
    """Where large temporary files go: not where memory passes for a disk, unless it is asked."""
    named, usual = os.environ.get("TMPDIR"), Path("/var/tmp")  # noqa: S108 - a file without a name
    if named:
        return Path(named)
    return usual if usual.is_dir() and os.access(usual, os.W_OK) else Path(tempfile.gettempdir())


def _aligned(place: int, step: int) -> int:
    """The first multiple of a step from here on."""
    return -(-place // step) * step


class PartCache:
    """The first parts that were read, up to so many bytes in memory; of the others the numbers.

    None is ever thrown out for another: passes go round, and what was used last is needed last.
    """

    def __init__(self, memory: int) -> None:
        self.memory, self.bytes, self.spool = memory, 0, DiskCache()
        self._parts: dict[Hashable, RankingDataset] = {}
        self._lock = Lock()

    def get(self, key: Hashable, load: Callable[[], RankingDataset]) -> RankingDataset:
        """A part, from memory, from the spool, or loaded and then kept."""
        found = self._parts.get(key) or self.spool.get(key)
        if found is None:
            found = load()
            if not self._keep(key, found):
                self.spool.keep(key, found)
        return found

    def _keep(self, key: Hashable, part: RankingDataset) -> bool:
        """Whether a part is in memory now."""
        with self._lock:
            if key in self._parts:
                return True
            size = part.features.nbytes
            if self.bytes + size > self.memory:
                return False
            self._parts[key] = part
            self.bytes += size
            return True

    def release(self) -> None:
        """Keep nothing."""
        self.spool.release()
        with self._lock:
            self._parts.clear()
            self.bytes = 0
