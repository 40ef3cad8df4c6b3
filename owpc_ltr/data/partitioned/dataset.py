"""PartitionedDataset: a folder of parts, read a part at a time, in bounded memory."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
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
"""What is read of a part: everything; what training needs; the same with 0 for missing values."""


@dataclass(frozen=True, eq=False)
class PartSelection:
    """A part, or the `chosen` queries of it, by number."""

    part: Part
    chosen: NDArray[np.int64] | None
    queries: int
    documents: int


class PartReader:
    """Reads the files of a folder, and caches parts."""

    def __init__(self, folder: Path, memory: int) -> None:
        self.folder, self.cache = folder, PartCache(memory)
        self._queries: dict[str, tuple[pa.StringArray, NDArray[np.int64]]] = {}

    def queries(self, part: Part) -> tuple[pa.StringArray, NDArray[np.int64]]:
        """The query ids of a part, and how many documents each has."""
        if part.path not in self._queries:
            self._queries[part.path] = load_queries(self.folder / part.path, part.digest)
        return self._queries[part.path]

    def read(self, piece: PartSelection, form: ColumnSet) -> RankingDataset:
        """The columns of a piece, checked by the file's digest; those for training are cached."""
        path, digest = self.folder / piece.part.path, piece.part.digest
        if form == "whole":
            return _chosen(load_dataset(path, digest), piece)

        def load() -> RankingDataset:
            data = _chosen(load_learnable(path, digest), piece)
            return data.without_missing() if form == "filled" else data

        chosen = None if piece.chosen is None else piece.chosen.tobytes()
        return self.cache.get((piece.part.path, chosen, form), load)

    def __reduce__(self) -> tuple[Any, ...]:
        # The cache stays in this process.
        return PartReader, (self.folder, self.cache.memory)


def _chosen(data: RankingDataset, piece: PartSelection) -> RankingDataset:
    return data if piece.chosen is None else data.select(piece.chosen)


class PartCache:
    """The first parts that were read, up to `memory` bytes of their features.

    No part is evicted for another: passes go round, and the part used last is the one needed last.
    """

    def __init__(self, memory: int) -> None:
        self.memory, self._lock = memory, Lock()
        self.release()

    def release(self) -> None:
        """Drop all parts."""
        with self._lock:
            self.bytes, self._parts = 0, dict[Hashable, RankingDataset]()

    def get(self, key: Hashable, load: Callable[[], RankingDataset]) -> RankingDataset:
        """A part, from memory, or loaded and then kept, if there is room."""
        part = self._parts.get(key)
        if part is None:
            part = load()
            with self._lock:
                size = part.features.nbytes
                if key not in self._parts and self.bytes + size <= self.memory:
                    self._parts[key] = part
                    self.bytes += size
        return part


def scratch_folder() -> Path:
    """The folder of large temporary files: no memory file system, unless TMPDIR names one."""
    named, usual = os.environ.get("TMPDIR"), Path("/var/tmp")  # noqa: S108 - a file without a name
    if named:
        return Path(named)
    return usual if usual.is_dir() and os.access(usual, os.W_OK) else Path(tempfile.gettempdir())


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
    """Workers that compute with the parts in place of this process."""

    def each(
        self, call: Callable[[RankingDataset], R], pieces: Sequence[PartSelection], form: ColumnSet
    ) -> Iterator[R]:
        """The result of `call` for each part, in order."""

    def together(
        self,
        meet: Callable[[int], Mapping[str, Any]],
        call: Callable[[Member, list[WorkerParts]], R],
        *data: PartitionedDataset,
    ) -> R:
        """A call made by all workers at once, each with its share of the datasets.

        It is begun again with those that are left where a worker ends. `meet(number of workers)` is
        called on the first and gives what all need to find each other; the result is that of the
        first. All datasets have workers of one place.
        """


class Member(NamedTuple):
    """One of several workers: which, of how many, its threads, and how it finds the others."""

    number: int
    threads: int
    meeting: Mapping[str, Any]


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
        return self.files.cache.memory

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
        params = []
        for piece in self.pieces:
            file = self.files.folder / piece.part.path
            column = load_query_params(file, piece.part.digest)
            if column is None:
                return None
            params.append(column if piece.chosen is None else column.take(arrow_of(piece.chosen)))
        return pa.chunked_array(params, pa.string()).combine_chunks()

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
        """The result of `call` for each part, in order: features, labels, weights and query ids.

        With one thread the next part is read meanwhile; with more, parts are processed in
        parallel. Parts that fit stay in memory for the next time. `whole`: everything in a part,
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
        """All of it in memory. Raises Refused if there is not enough memory."""
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
        whole = replace(
            join_datasets(parts, names, features),
            manifest=self.manifest,
            origin=self.origin,
            feature_scales=self.feature_scales,
        )
        if self.filled:
            return whole.without_missing()
        # The same data under one name, whether in memory or not: models remember it.
        vars(whole)["fingerprint"] = self.fingerprint
        return whole

    def select(self, queries: NDArray[np.int64]) -> PartitionedDataset:
        """These queries, by number; in the order of the files."""
        selected = np.zeros(self.n_queries, dtype=bool)
        selected[queries] = True
        cuts = np.cumsum([piece.queries for piece in self.pieces])[:-1]
        masks = np.split(selected, cuts)
        return self._of_pieces(map(self._narrowed, self.pieces, masks))

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

        The manifest decides for most parts; only parts on the border of two sides are read.
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
        return self._of_pieces(pieces)

    def with_origin(self, origin: Origin | None) -> PartitionedDataset:
        """The same queries, marked as a side of a split."""
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
        return ids.take(arrow_of(piece.chosen)), sizes[piece.chosen]

    def _narrowed(self, piece: PartSelection, mask: NDArray[np.bool_]) -> PartSelection:
        """The queries of a piece that the mask selects."""
        if mask.all():
            return piece
        if not mask.any():
            return PartSelection(piece.part, np.empty(0, np.int64), 0, 0)
        numbers = np.arange(piece.part.queries) if piece.chosen is None else piece.chosen
        sizes = self._queries(piece)[1][mask]
        return PartSelection(piece.part, numbers[mask], int(mask.sum()), int(sizes.sum()))

    def _of_pieces(self, pieces: Iterable[PartSelection]) -> PartitionedDataset:
        """The dataset of those pieces that have queries; it is no side of a split."""
        return replace(self, pieces=tuple(piece for piece in pieces if piece.queries), origin=None)


JudgedTable = RankingDataset | PartitionedDataset
"""Judged queries by parts; in memory they are one part."""


@dataclass(frozen=True)
class WorkerParts:
    """A worker's own parts of a dataset: `numbers` tells which they are of `whole`."""

    whole: PartitionedDataset
    numbers: tuple[int, ...]

    @property
    def own(self) -> PartitionedDataset:
        """The parts of this worker alone, in order."""
        return replace(self.whole, pieces=tuple(self.whole.pieces[n] for n in self.numbers))


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
        manifest=manifest.source,
        pieces=pieces,
    )


def in_memory(data: JudgedTable, why: str) -> RankingDataset:
    """The data in memory; `why` says what needs that. Raises UsageError where they do not fit."""
    if isinstance(data, RankingDataset):
        return data
    if data.nbytes > data.memory:
        raise UsageError(
            f"{why} needs its data in memory, and these take {data.nbytes / 2**20:,.1f} MiB, more "
            f"than the {data.memory / 2**20:,.1f} MiB of --memory: give it more, or fewer queries"
        )
    return data.load()
