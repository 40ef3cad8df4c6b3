"""Datasets written as a folder of parts, from datasets, Parquet files or LETOR text.

The manifest lists the parts, each by the bucket that decides its side.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.joining import check_alike, join_datasets, joined_manifest
from owpc_ltr.data.options import DEFAULT_BUCKETS
from owpc_ltr.data.parquet.writing import write_dataset
from owpc_ltr.data.splits import HashSplit, hashes_of, query_positions
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
            f"cannot write to {folder}: it has files that are no part of a dataset; name an empty "
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
            raise BadInput(f"cannot write {self.folder}: there is no query in what was given")
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
