"""PartitionedDataset: a folder of parts, read a part at a time, in bounded memory.

A part that was read stays at hand, in memory or on disk.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset, arrow_of
from owpc_ltr.data.joining import join_datasets
from owpc_ltr.data.options import DEFAULT_MEMORY, TEST_SHARE, VALIDATION_SHARE
from owpc_ltr.data.parquet.reading import (
    load_dataset,
    load_learnable,
    load_queries,
    load_query_params,
)
from owpc_ltr.data.partitioned.writing import Manifest, Part, read_manifest, whole_side
from owpc_ltr.data.splits import DatasetSplits, HashSplit, Origin, query_positions, split_queries
from owpc_ltr.errors import Refused, UsageError

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


T = TypeVar("T")
R = TypeVar("R")


def ahead(call: Callable[[T], R], items: Sequence[T], threads: int = 1) -> Iterator[R]:
    """`map(call, items)`, where so many threads are always at the next items.

    At most one result a thread waits to be taken, so that little is held at a time.
    """
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(call, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class Workers(Protocol):
    """Who reckons with parts in the place of this process."""

    def each(
        self, call: Callable[[RankingDataset], R], pieces: Sequence[PartSelection], form: ColumnSet
    ) -> Iterator[R]:
        """What `call` makes of each part, in order."""
        ...


@dataclass(frozen=True, eq=False)
class PartitionedDataset:
    """Judged queries in a folder, or some of them: what a RankingDataset is, a part at a time.

    Iterating gives RankingDatasets of whole queries, one part after another. `manifest` is that of
    the log that the data are from. `feature_scales` multiplies the columns, and missing values are
    0 where it is `filled`, for optimizers of linear models. `workers` go through the parts where
    there are any.
    """

    files: PartReader
    feature_names: tuple[str, ...]
    columns: tuple[str, ...]
    featureset_hash: str | None
    manifest: dict[str, Any] | None
    pieces: tuple[PartSelection, ...]
    origin: Origin | None = None
    filled: bool = False
    feature_scales: Vector | None = None
    workers: Workers | None = None

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return sum(piece.queries for piece in self.pieces)

    @property
    def n_documents(self) -> int:
        """Number of judged documents."""
        return sum(piece.documents for piece in self.pieces)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix, were it in memory."""
        return 4 * self.n_documents * self.n_features

    @property
    def memory(self) -> int:
        """Bytes of parts that may stay in memory."""
        return self.files.kept.memory

    @cached_property
    def scales(self) -> Vector:
        """Feature scales; ones where none are given."""
        return np.ones(self.n_features) if self.feature_scales is None else self.feature_scales

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything that decides what is learned: of the digests of the parts."""
        pieces = [
            [piece.part.digest, None if piece.chosen is None else piece.chosen.tolist()]
            for piece in self.pieces
        ]
        return hashlib.sha256(json.dumps([self.feature_names, pieces]).encode()).hexdigest()

    @cached_property
    def query_ids(self) -> pa.StringArray:
        """One id a query; of the files this column alone is read."""
        return pa.concat_arrays([self._queries(piece)[0] for piece in self.pieces])

    @property
    def query_params(self) -> pa.StringArray | None:
        """The parameters of each query, as JSON; None where a file has none."""
        read = [self.files.query_params(piece.part) for piece in self.pieces]
        known = [
            one if piece.chosen is None else one.take(arrow_of(piece.chosen))
            for one, piece in zip(read, self.pieces, strict=True)
            if one is not None
        ]
        if len(known) < len(read):
            return None
        return pa.chunked_array(known, pa.string()).combine_chunks()

    @cached_property
    def head(self) -> RankingDataset:
        """The first part: a sample, for queries are in it by the hash of their ids."""
        return self.files.read(self.pieces[0], "whole")

    def __iter__(self) -> Iterator[RankingDataset]:
        """Each part in turn, the next one being read meanwhile; checked by its digest."""
        return ahead(partial(self.files.read, form="whole"), self.pieces)

    def each(
        self, call: Callable[[RankingDataset], R], threads: int = 1, *, whole: bool = False
    ) -> Iterator[R]:
        """What `call` makes of each part, in order: features, labels, weights and query ids.

        With one thread the next part is read meanwhile; with more, parts are worked on side by
        side. Parts that fit stay in memory for the next time. `whole`: everything in a part,
        checked by its digest, as iterating gives it.
        """
        form: ColumnSet = "whole" if whole else "filled" if self.filled else "learnable"
        if self.workers is not None:
            return self.workers.each(call, self.pieces, form)
        load = partial(self.files.read, form=form)
        if threads == 1:
            return map(call, ahead(load, self.pieces))
        return ahead(lambda piece: call(load(piece)), self.pieces, threads)

    def load(self) -> RankingDataset:
        """All of it in memory. Raises Refused where there is no room."""
        import psutil

        if self.nbytes > psutil.virtual_memory().available:
            raise Refused(
                f"{self.files.folder} takes {self.nbytes / 1e9:.1f} GB, more than the memory that "
                "is free: go through it in parts (owpc_ltr.open_dataset), or take a side of it"
            )
        features = np.empty((self.n_documents, self.n_features), np.float32)
        parts, row = [], 0
        for part in self:
            rows = features[row : row + part.n_documents]
            rows[:] = part.features
            parts.append(replace(part, features=rows))
            row += part.n_documents
        names = [piece.part.path for piece in self.pieces]
        whole = join_datasets(parts, names, features)
        whole = replace(whole, manifest=self.manifest, origin=self.origin)
        whole = replace(whole, feature_scales=self.feature_scales)
        if self.filled:
            return whole.without_missing()
        # The same data under one name, whether in memory or not: models remember it.
        vars(whole)["fingerprint"] = self.fingerprint
        return whole

    def select(self, queries: NDArray[np.int64]) -> PartitionedDataset:
        """These queries, by number; in the order of the files."""
        wanted = np.zeros(self.n_queries, dtype=bool)
        wanted[queries] = True
        pieces, first = [], 0
        for piece in self.pieces:
            pieces.append(self._narrowed(piece, wanted[first : first + piece.queries]))
            first += piece.queries
        return replace(self, pieces=tuple(one for one in pieces if one.queries), origin=None)

    def sample(self, documents: int) -> PartitionedDataset:
        """Whole queries with about so many documents, chosen by the hash of their ids."""
        if self.n_documents <= documents:
            return self
        sizes = np.concatenate([self._queries(piece)[1] for piece in self.pieces])
        order = np.argsort(query_positions(self, "sample"), kind="stable")
        fits = np.cumsum(sizes[order]) <= documents
        fits[0] = True
        return self.select(order[fits])

    def split(
        self,
        validation: float = VALIDATION_SHARE,
        test: float = TEST_SHARE,
        salt: str = HashSplit.salt,
    ) -> DatasetSplits[PartitionedDataset]:
        """Training, validation and test queries, by the hash of their ids, as of a RankingDataset.

        Whole parts are told by the manifest; only those that a border goes through are looked at.
        """
        return split_queries(self, HashSplit(validation, test, salt))

    def on_side(self, split: HashSplit, side: str) -> PartitionedDataset:
        """The queries on one side of a split; there may be none."""
        pieces = []
        for piece in self.pieces:
            whole = whole_side(split, piece.part.positions)
            if whole is None:
                ids = self._queries(piece)[0].to_pylist()
                pieces.append(self._narrowed(piece, split.sides_of(ids) == side))
            elif whole == side:
                pieces.append(piece)
        return replace(self, pieces=tuple(one for one in pieces if one.queries), origin=None)

    def with_origin(self, origin: Origin | None) -> PartitionedDataset:
        """The same queries, said to be a side of a split."""
        return replace(self, origin=origin)

    def without_missing(self) -> PartitionedDataset:
        """The dataset with 0 for every missing value, as an engine gives to a linear model."""
        return replace(self, filled=True)

    def __repr__(self) -> str:
        return (
            f"PartitionedDataset: {self.n_queries:,} queries, {self.n_documents:,} documents, "
            f"{self.n_features:,} features, {len(self.pieces):,} parts in {self.files.folder}"
        )

    def _queries(self, piece: PartSelection) -> tuple[pa.StringArray, NDArray[np.int64]]:
        ids, sizes = self.files.queries(piece.part)
        if piece.chosen is None:
            return ids, sizes
        return ids.take(pa.array(piece.chosen.tolist(), pa.int64())), sizes[piece.chosen]

    def _narrowed(self, piece: PartSelection, wanted: NDArray[np.bool_]) -> PartSelection:
        """The wanted queries of a piece."""
        if wanted.all():
            return piece
        if not wanted.any():
            return PartSelection(piece.part, np.empty(0, np.int64), 0, 0)
        own = np.arange(piece.part.queries) if piece.chosen is None else piece.chosen
        sizes = self._queries(piece)[1][wanted]
        return PartSelection(piece.part, own[wanted], int(wanted.sum()), int(sizes.sum()))


JudgedTable = RankingDataset | PartitionedDataset
"""Judged queries by parts; in memory they are one part."""


def open_partitioned(folder: Path | str, memory: int | None = None) -> PartitionedDataset:
    """The dataset in a folder; nothing but its manifest is read.

    Parts of `memory` bytes (512 MiB unless said) stay in memory between passes. Raises BadInput
    where the folder is no dataset, was not finished, or lacks a part.
    """
    folder = Path(folder)
    manifest: Manifest = read_manifest(folder)
    pieces = tuple(
        PartSelection(part, None, part.queries, part.documents) for part in manifest.parts
    )
    return PartitionedDataset(
        PartReader(folder, DEFAULT_MEMORY if memory is None else memory),
        manifest.features,
        manifest.columns,
        manifest.featureset_hash,
        manifest=manifest.whole_source,
        pieces=pieces,
    )


def in_memory(data: JudgedTable, why: str) -> RankingDataset:
    """The data as one; `why` says what needs them so. UsageError where they do not fit."""
    if isinstance(data, RankingDataset):
        return data
    if data.nbytes > data.memory:
        raise UsageError(
            f"{why} needs its data in memory, and these take {data.nbytes / 2**20:,.1f} MiB, more "
            f"than the {data.memory / 2**20:,.1f} MiB of --memory: give it more, or fewer queries"
        )
    return data.load()
