"""Datasets larger than memory: folders of Parquet parts.

`bucket=K/part-NNNNN.parquet`: each part is a dataset file with whole queries, in whole row groups;
`_manifest.json`, written last, says which parts there are and what they hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import check_alike, join_datasets, joined_manifest
from owpc_ltr.data.dataset import RankingDataset, arrow_of
from owpc_ltr.data.options import DEFAULT_BUCKETS, TEST_SHARE, VALIDATION_SHARE, memory_from
from owpc_ltr.data.parquet import (
    load_dataset,
    load_learnable,
    load_queries,
    load_query_params,
    write_dataset,
)
from owpc_ltr.data.splits import (
    DatasetSplits,
    HashSplit,
    Origin,
    hashes_of,
    query_positions,
    split_queries,
)
from owpc_ltr.errors import BadInput, DiskFault, Refused, UsageError
from owpc_ltr.files.input import read_regular, shown
from owpc_ltr.files.output import LockHeld, disk_faults, lock_file, refuse_foreign, write_atomically

MOST_BUCKETS = 1000
SALT = HashSplit.salt


def check_buckets(buckets: int) -> None:
    """Refuse an invalid number of buckets."""
    if not 1 <= buckets <= MOST_BUCKETS:
        raise UsageError(f"a dataset has 1 to {MOST_BUCKETS} buckets, not {buckets}")


def bucket_of(positions: NDArray[np.float64], buckets: int) -> NDArray[np.int64]:
    """The bucket of each query, from its number in [0, 1): equal shares of that, in order.

    >>> bucket_of(np.array([0.0, 0.19, 0.2, 0.999]), 20).tolist()
    [0, 3, 4, 19]
    """
    # A number next to 1 is rounded to it.
    return np.minimum((positions * buckets).astype(np.int64), buckets - 1)


def whole_side(split: HashSplit, positions: tuple[float, float]) -> str | None:
    """The side of all numbers between two; None if a border lies between them.

    Sides are intervals of those numbers, so that both ends decide.
    """
    if split.salt != SALT:
        return None
    first, last = split.sides_at(np.array(positions)).tolist()
    return str(first) if first == last else None


FORMAT = 1
MANIFEST = "_manifest.json"
UNFINISHED = "_unfinished"
FOLDER_PATTERNS = (MANIFEST, UNFINISHED, "bucket=*")
"""Patterns of the files in a folder of parts, finished or not."""
_LARGEST = 1 << 28


@dataclass(frozen=True)
class Part:
    """One file of a folder; `positions` are the first and last number of its queries' hashes."""

    path: str
    bucket: int
    queries: int
    documents: int
    digest: str
    positions: tuple[float, float]


@dataclass(frozen=True)
class Manifest:
    """The content of a folder.

    `columns` are the optional ones of all parts: `doc_ids`, `query_params` … `source` is the
    manifest that a dataset of one file has.
    """

    features: tuple[str, ...]
    columns: tuple[str, ...]
    featureset_hash: str | None
    buckets: int
    parts: tuple[Part, ...]
    source: dict[str, Any] | None = None

    def save(self, folder: Path) -> None:
        """Write it, as the last file of the folder."""
        about = {**asdict(self), "format": FORMAT, "salt": SALT}
        text = json.dumps({**about, "sha256": _digest(about)}, indent=1, sort_keys=True)
        path = folder / MANIFEST
        with disk_faults(path):
            write_atomically(path, text.encode() + b"\n")


def read_manifest(folder: Path) -> Manifest:
    """The content of a folder.

    Raises BadInput if it was not finished, is no such folder, or lacks a part.
    """
    if (folder / MANIFEST).exists():
        manifest = _read(folder / MANIFEST)
    elif (folder / UNFINISHED).exists():
        raise BadInput(
            f"cannot read {folder}: it is half-written; run the command that writes it again"
        )
    else:
        raise BadInput(
            f"cannot read {folder}: it is a folder without {MANIFEST}; name a dataset file, or "
            "make such a folder with owpc-ltr partition"
        )
    for part in manifest.parts:
        try:
            (folder / part.path).stat()
        except FileNotFoundError as error:
            raise BadInput(
                f"cannot read {folder}: {shown(part.path)}, which its manifest names, is missing: "
                "fetch or write it again"
            ) from error
        except OSError as error:
            raise DiskFault(f"cannot read {folder / part.path}: {error.strerror}") from error
    return manifest


def _read(path: Path) -> Manifest:
    try:
        about = json.loads(read_regular(path, _LARGEST, kind="a manifest"))
        version, digest = about["format"], about.pop("sha256")
        if version == FORMAT and digest == _digest(about):
            return _parsed(about)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error
    if version == FORMAT:
        raise _damaged(path)
    raise BadInput(
        f"cannot read {path}: its format is {version!r}, and this version reads {FORMAT}: use "
        "the version that wrote it"
    )


def _parsed(about: dict[str, Any]) -> Manifest:
    parts = []
    for entry in about["parts"]:
        low, high = entry.pop("positions")
        part = Part(**entry, positions=(float(low), float(high)))
        inside = Path(part.path)
        if inside.is_absolute() or ".." in inside.parts or part.queries < 1:
            raise ValueError(part.path)
        parts.append(part)
    if about["salt"] != SALT or not 1 <= about["buckets"] <= MOST_BUCKETS:
        raise ValueError(about["salt"])
    return Manifest(
        tuple(about["features"]),
        tuple(about["columns"]),
        parts=tuple(parts),
        **{name: about[name] for name in ("featureset_hash", "buckets", "source")},
    )


def _digest(about: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path) -> BadInput:
    return BadInput(f"cannot read {path}: it is damaged: fetch or write the folder again")


COLUMN = "bucket"
"""The hive partition: folders are called bucket=K."""


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """The folder, locked by this process, without the files of an unfinished run."""
    check_folder(folder)
    with disk_faults(folder):
        if folder.exists():
            refuse_foreign(folder, linked=True)
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / UNFINISHED
        try:
            lock = lock_file(mark, mode=0o644)
        except LockHeld:
            raise Refused(
                f"another process is writing {folder} already: wait for it, or name another folder"
            ) from None
    try:
        with disk_faults(folder):
            _clear(folder)
        try:
            yield
        except BaseException:
            _leave(folder, mark)
            raise
        mark.unlink()
    finally:
        os.close(lock)


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds a dataset, or files of other kinds. Raises UsageError."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"cannot write to {folder}: it is a file; name a folder")
    if (folder / MANIFEST).exists():
        raise UsageError(
            f"cannot write to {folder}: it holds a dataset already: remove it, or name another "
            "folder"
        )
    if not (folder / UNFINISHED).exists() and any(folder.iterdir()):
        raise UsageError(
            f"cannot write to {folder}: it has files that are not part of a dataset; name an empty "
            "folder, or a new one"
        )


def _clear(folder: Path) -> None:
    """Delete the parts of an unfinished run."""
    for bucket in folder.glob(f"{COLUMN}=*"):
        number = bucket.name.removeprefix(f"{COLUMN}=")
        if number.isdecimal():
            refuse_foreign(bucket)
            for path in bucket.glob("*part-*.parquet*"):
                path.unlink()
            with suppress(OSError):
                bucket.rmdir()


def _leave(folder: Path, mark: Path) -> None:
    """After a failure: delete the folder if it has no part."""
    if not any(folder.glob(f"{COLUMN}=*")):
        with suppress(OSError):
            mark.unlink()
            folder.rmdir()


PART_BYTES = 16 << 20
"""About the size of a part's matrix; the queries that wait for their part have 20 times as much."""
_MOST_WAITING = 20 * PART_BYTES


def write_partitioned(
    datasets: Iterable[RankingDataset],
    folder: Path | str,
    *,
    buckets: int = DEFAULT_BUCKETS,
    source: Callable[[], dict[str, Any]] | None = None,
) -> Manifest:
    """Write the queries of several datasets, one after the other, as a folder of parts.

    They have the same features and optional columns; feature scales are left out. `source`, called
    at the end, gives the manifest of all; without it, it is joined from those of the datasets. How
    the queries are cut into datasets does not matter.

    A stopped run leaves a folder that no reader takes; the next one starts it anew. Raises
    UsageError for a folder that holds something else, BadInput where datasets do not fit together
    or a query comes back, DiskFault where the disk fails.
    """
    check_buckets(buckets)
    folder = Path(folder)
    with own_folder(folder):
        writer = _Writer(folder, buckets)
        for dataset in datasets:
            writer.add(dataset)
        manifest = writer.finish(source or writer.source)
        manifest.save(folder)
        return manifest


class _Writer:
    """Queries that wait until their part is full, by bucket, and the parts that were written."""

    def __init__(self, folder: Path, buckets: int) -> None:
        self.folder, self.buckets = folder, buckets
        self.waiting: dict[int, list[RankingDataset]] = {}
        self.parts: dict[int, list[Part]] = {}
        self.seen: dict[int, NDArray[np.uint64]] = {}
        self.first: RankingDataset | None = None
        self.queries = 0
        self.manifests: list[dict[str, Any] | None] = []

    def add(self, dataset: RankingDataset) -> None:
        """Hand each query to its bucket."""
        whole = replace(dataset, feature_scales=None, manifest=None, origin=None, notes=())
        if self.first is None:
            self.first = whole.select(np.zeros(1, np.int64))
        _check_fits(self.first, whole, self.queries)
        if dataset.manifest not in self.manifests:
            self.manifests.append(dataset.manifest)
        self.queries += whole.n_queries
        buckets = bucket_of(query_positions(whole, SALT), self.buckets)
        for bucket in np.unique(buckets).tolist():
            queries = whole.select(np.flatnonzero(buckets == bucket))
            self.waiting.setdefault(bucket, []).append(queries)
            self._write_full(bucket)

    def finish(self, source: Callable[[], dict[str, Any] | None]) -> Manifest:
        """Write the waiting queries. Raises BadInput if there is none, or if a query came back."""
        if self.first is None:
            raise BadInput(f"cannot write {self.folder}: the data have no query")
        for bucket in sorted(self.waiting):
            if (waiting := self._joined(bucket)) is not None:
                self._write(bucket, waiting)
        parts = tuple(part for bucket in sorted(self.parts) for part in self.parts[bucket])
        return Manifest(
            self.first.feature_names,
            self.first.columns,
            featureset_hash=self.first.featureset_hash,
            buckets=self.buckets,
            parts=parts,
            source=source(),
        )

    def source(self) -> dict[str, Any] | None:
        """The manifest that the datasets have, or what is joined in several."""
        if len(self.manifests) == 1:
            return self.manifests[0]
        return joined_manifest(self.manifests)

    @property
    def _rows(self) -> int:
        """Documents after which a part is full."""
        assert self.first is not None  # noqa: S101 - told to the type checker
        size = min(PART_BYTES, _MOST_WAITING // self.buckets)
        return max(1, size // (4 * max(self.first.n_features, 8)))

    def _write_full(self, bucket: int) -> None:
        """Write the parts that are full: each ends with the query that fills it."""
        if sum(dataset.n_documents for dataset in self.waiting[bucket]) < self._rows:
            return
        waiting = self._joined(bucket)
        while waiting is not None and waiting.n_documents >= self._rows:
            full = int(np.searchsorted(waiting.offsets, self._rows))
            self._write(bucket, waiting.select(np.arange(full)))
            later = np.arange(full, waiting.n_queries)
            waiting = waiting.select(later) if len(later) else None
        self.waiting[bucket] = [] if waiting is None else [waiting]

    def _joined(self, bucket: int) -> RankingDataset | None:
        datasets = self.waiting.pop(bucket)
        self._refuse_again(bucket, datasets)
        if not datasets:
            return None
        joined = join_datasets(datasets, [str(self.folder)] * len(datasets))
        return replace(joined, featureset_hash=datasets[0].featureset_hash)

    def _write(self, bucket: int, dataset: RankingDataset) -> None:
        written = self.parts.setdefault(bucket, [])
        path = f"{COLUMN}={bucket}/part-{len(written):05d}.parquet"
        with disk_faults(self.folder / path):
            (self.folder / path).parent.mkdir(exist_ok=True)
        digest = write_dataset(dataset, self.folder / path, whole_queries=True, reserved=(COLUMN,))
        hashes = hashes_of(dataset.query_ids.to_pylist(), SALT)
        self.seen[bucket] = np.union1d(self.seen.get(bucket, np.empty(0, np.uint64)), hashes)
        positions = hashes / 2**64
        ends = float(positions.min()), float(positions.max())
        queries, documents = dataset.n_queries, dataset.n_documents
        written.append(Part(path, bucket, queries, documents, digest=digest, positions=ends))

    def _refuse_again(self, bucket: int, datasets: list[RankingDataset]) -> None:
        """Refuse a query that is in two of these datasets, or in an earlier part of the bucket."""
        queries = [query for dataset in datasets for query in dataset.query_ids.to_pylist()]
        hashes = hashes_of(queries, SALT)
        again = np.isin(hashes, self.seen.get(bucket, np.empty(0, np.uint64)))
        _, first = np.unique(hashes, return_index=True)
        again |= ~np.isin(np.arange(len(hashes)), first)
        if again.any():
            query = shown(queries[int(np.flatnonzero(again)[0])])
            raise BadInput(
                f"query {query} comes back: put all its documents next to each other, in one file"
            )


def _check_fits(first: RankingDataset, other: RankingDataset, queries: int) -> None:
    names = "the first queries", f"those after {queries}"
    check_alike(first, names[0], other, names[1])
    if first.featureset_hash != other.featureset_hash:
        raise BadInput(
            "only some of the queries say which feature set they were logged with: log all of them"
        )
    for name in ("query_weights", "document_weights", "comments"):
        if (getattr(first, name) is None) != (getattr(other, name) is None):
            raise BadInput(
                f"only some of the queries have {name.replace('_', ' ')}: give them to all"
            )


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


def map_ahead(call: Callable[[T], R], items: Sequence[T], threads: int = 1) -> Iterator[R]:
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
        return map_ahead(partial(self.files.read, form="whole"), self.pieces)

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
            return map(call, map_ahead(load, self.pieces))
        return map_ahead(lambda piece: call(load(piece)), self.pieces, threads)

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


def open_partitioned(folder: Path | str, memory: int | str | None = None) -> PartitionedDataset:
    """The dataset in a folder; nothing but its manifest is read.

    Parts of `memory` bytes (512 MiB unless said), or as 4G, stay in memory between passes. Raises
    BadInput where the folder is no dataset, was not finished, or lacks a part.
    """
    folder = Path(folder)
    manifest: Manifest = read_manifest(folder)
    pieces = tuple(
        PartSelection(part, None, part.queries, part.documents) for part in manifest.parts
    )
    return PartitionedDataset(
        PartReader(folder, memory_from(memory)),
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
            f"than the {data.memory / 2**20:,.1f} MiB of `memory`: give it more, or fewer queries"
        )
    return data.load()
