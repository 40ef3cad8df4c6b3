"""Datasets written as a folder of parts, from datasets, Parquet files or LETOR text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.joining import check_alike, join_datasets, joined_manifest
from owpc_ltr.data.options import DEFAULT_BUCKETS
from owpc_ltr.data.parquet.reading import stream_groups
from owpc_ltr.data.parquet.writing import write_dataset
from owpc_ltr.data.partitioned.manifest import (
    MANIFEST,
    SALT,
    UNFINISHED,
    DatasetFacts,
    Manifest,
    Part,
    Share,
    bucket_of,
    check_buckets,
)
from owpc_ltr.data.splits import hashes_of, positions_of
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.files.input import open_regular, shown
from owpc_ltr.files.output import LockHeld, disk_faults, lock_file, refuse_foreign

COLUMN = "bucket"
"""The hive partition: folders are called bucket=K."""


@contextmanager
def own_folder(folder: Path, share: Share) -> Iterator[None]:
    """The folder, held by this process alone, with nothing of an unfinished run in it."""
    check_folder(folder, share)
    with disk_faults(folder):
        if folder.exists():
            refuse_foreign(folder, linked=True)
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / f"{UNFINISHED}{share.suffix()}"
        try:
            lock = lock_file(mark, mode=0o644)
        except LockHeld:
            raise Refused(
                f"another process is writing {folder} already: wait for it, or name another folder"
            ) from None
    try:
        with disk_faults(folder):
            _clear(folder, share)
        try:
            yield
        except BaseException:
            _leave(folder, mark)
            raise
        mark.unlink()
    finally:
        os.close(lock)


def check_folder(folder: Path, share: Share | None = None) -> None:
    """Refuse a folder that holds a dataset, or what is none of ours. Raises UsageError."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"cannot write to {folder}: it is a file; name a folder")
    share = share or Share()
    finished = f"_manifest{share.suffix()}.json"
    if (folder / finished).exists() or (folder / MANIFEST).exists():
        raise UsageError(
            f"cannot write to {folder}: it holds this part of a dataset already: remove it, or "
            "name another folder"
            if share.of > 1
            else f"cannot write to {folder}: it holds a dataset already: remove it, or name "
            "another folder"
        )
    for other in folder.glob("_manifest-*-of-*.json"):
        if not other.name.endswith(f"-of-{share.of}.json"):
            raise UsageError(
                f"cannot write to {folder}: {other.name} in it is of other parts than these: name "
                "another folder"
            )
    unfinished = any(folder.glob(f"{UNFINISHED}*")) or any(folder.glob("_manifest-*-of-*.json"))
    if not unfinished and any(folder.iterdir()):
        raise UsageError(
            f"cannot write to {folder}: it has files that are no part of a dataset; name an empty "
            "folder, or a new one"
        )


def _clear(folder: Path, share: Share) -> None:
    """Take away the parts of an unfinished run."""
    for own in folder.glob(f"{COLUMN}=*"):
        number = own.name.removeprefix(f"{COLUMN}=")
        if number.isdecimal() and share.has(int(number)):
            refuse_foreign(own)
            for path in own.glob("*part-*.parquet*"):
                path.unlink()
            with suppress(OSError):
                own.rmdir()


def _leave(folder: Path, mark: Path) -> None:
    """After a failure: where nothing was written, nothing stays."""
    if not any(folder.glob(f"{COLUMN}=*")):
        with suppress(OSError):
            mark.unlink()
            folder.rmdir()


PART_BYTES = 16 << 20
"""About the size of a part's matrix; what waits for parts to fill has 20 times as much."""
_MOST_WAITING = 20 * PART_BYTES


def write_partitioned(
    datasets: Iterable[RankingDataset],
    folder: Path | str,
    *,
    buckets: int = DEFAULT_BUCKETS,
    told: DatasetFacts | None = None,
    share: Share | None = None,
) -> Manifest:
    """Write the queries of several datasets, one after the other, as a folder of parts.

    They have the same features and optional columns; feature scales are left out. `told`, looked
    at in the end, is the manifest of all; without it, that which they have, or what is joined. How
    the queries are cut into datasets does not matter. With a `share` only its buckets are written,
    and their own manifest.

    A stopped run leaves a folder that no reader takes; the next one starts it anew. Raises
    UsageError for a folder that holds something else, BadInput where datasets do not fit together
    or a query comes back, DiskFault where the disk fails.
    """
    check_buckets(buckets)
    share = share or Share()
    folder = Path(folder)
    with own_folder(folder, share):
        writer = _Writer(folder, buckets, share)
        for dataset in datasets:
            writer.add(dataset)
        manifest = writer.finish(told or DatasetFacts(writer.source()))
        manifest.save(folder)
        return manifest


class _Writer:
    """What waits for its part to be full, by bucket, and what was written."""

    def __init__(self, folder: Path, buckets: int, share: Share) -> None:
        self.folder, self.buckets, self.share = folder, buckets, share
        self.waiting: dict[int, list[RankingDataset]] = {}
        self.parts: dict[int, list[Part]] = {}
        self.seen: dict[int, NDArray[np.uint64]] = {}
        self.first: RankingDataset | None = None
        self.queries = 0
        self.manifests: list[RankingDataset] = []

    def add(self, dataset: RankingDataset) -> None:
        """Hand each query to its bucket."""
        whole = replace(dataset, feature_scales=None, manifest=None, origin=None, notes=())
        if self.first is None:
            self.first = whole.select(np.zeros(1, np.int64))
        _check_fits(self.first, whole, self.queries)
        if all(one.manifest != dataset.manifest for one in self.manifests):
            self.manifests.append(replace(self.first, manifest=dataset.manifest))
        self.queries += whole.n_queries
        positions = positions_of(whole.query_ids.to_pylist(), SALT)
        own = bucket_of(positions, self.buckets)
        for bucket in np.unique(own).tolist():
            if self.share.has(bucket):
                self.waiting.setdefault(bucket, []).append(
                    whole.select(np.flatnonzero(own == bucket))
                )
                self._write_full(bucket)

    def finish(self, told: DatasetFacts) -> Manifest:
        """Write what is left. Raises BadInput where there is nothing, or a query came back."""
        if self.first is None:
            raise BadInput(f"cannot write {self.folder}: there is no query in what was given")
        for bucket in sorted(self.waiting):
            left = self._together(bucket)
            if left is not None:
                self._write(bucket, left)
        parts = tuple(part for bucket in sorted(self.parts) for part in self.parts[bucket])
        return Manifest(
            self.first.feature_names,
            self.first.columns,
            featureset_hash=self.first.featureset_hash,
            buckets=self.buckets,
            parts=parts,
            source=told.source,
            counts=told.counts,
            share=self.share,
        )

    def source(self) -> dict[str, Any] | None:
        """The manifest that the datasets have, or what is joined in several."""
        one = len(self.manifests) == 1
        return self.manifests[0].manifest if one else joined_manifest(self.manifests)

    @property
    def _rows(self) -> int:
        """Documents after which a part is full."""
        assert self.first is not None  # noqa: S101 - told to the type checker
        size = min(PART_BYTES, _MOST_WAITING // self.buckets)
        return max(1, size // (4 * max(self.first.n_features, 8)))

    def _write_full(self, bucket: int) -> None:
        """Write the parts that are full: each ends with the query that fills it."""
        if sum(one.n_documents for one in self.waiting[bucket]) < self._rows:
            return
        left = self._together(bucket)
        while left is not None and left.n_documents >= self._rows:
            full = int(np.searchsorted(left.offsets, self._rows))
            self._write(bucket, left.select(np.arange(full)))
            rest = np.arange(full, left.n_queries)
            left = left.select(rest) if len(rest) else None
        self.waiting[bucket] = [] if left is None else [left]

    def _together(self, bucket: int) -> RankingDataset | None:
        several = self.waiting.pop(bucket)
        self._refuse_again(bucket, several)
        names = [str(self.folder)] * len(several)
        if not several:
            return None
        return replace(join_datasets(several, names), featureset_hash=several[0].featureset_hash)

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

    def _refuse_again(self, bucket: int, several: list[RankingDataset]) -> None:
        """Refuse a query that stands twice among these, or in an earlier part of the bucket."""
        queries = [query for one in several for query in one.query_ids.to_pylist()]
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


def stream_dataset(
    path: Path, n_features: int | None = None, max_features: int | None = None
) -> Iterator[RankingDataset]:
    """The queries of our Parquet, or of LETOR text, told by content, a part at a time."""
    with open_regular(path) as file:
        parquet = file.read(4) == b"PAR1"
    if parquet:
        return stream_parquet(path)
    from owpc_ltr.data.letor import stream_letor

    return stream_letor(path, n_features=n_features, max_features=max_features)


def stream_parquet(path: Path) -> Iterator[RankingDataset]:
    """The queries of a dataset file in its order; a query may lie across row groups."""
    begun: RankingDataset | None = None
    for group in stream_groups(path):
        whole = group if begun is None else _continued(path, begun, group)
        begun = whole.select(np.array([whole.n_queries - 1]))
        if whole.n_queries > 1:
            yield whole.select(np.arange(whole.n_queries - 1))
    if begun is None:
        raise BadInput(f"cannot read {path}: it has no rows")
    yield begun


def _continued(path: Path, begun: RankingDataset, group: RankingDataset) -> RankingDataset:
    """A query, and the row group after it, which may go on with it."""
    names = [str(path), str(path)]
    query = begun.query_ids[0].as_py()
    if group.query_ids[0].as_py() != query:
        both = join_datasets([begun, group], names)
        return replace(both, manifest=begun.manifest, featureset_hash=begun.featureset_hash)
    for name in ("query_params", "query_weights"):
        one, other = getattr(begun, name), getattr(group, name)
        if one is not None and one[0] != other[0]:
            raise BadInput(
                f"cannot read {path}: query {shown(query)} has two values of '{name[:-1]}'"
            )
    # Under two names while they are joined.
    apart = replace(begun, query_ids=pa.array([f"{query}\0"]))
    if apart.query_ids[0].as_py() in group.query_ids.to_pylist():
        raise BadInput(f"cannot read {path}: query {shown(query)} has a name that ends in 0")
    both = join_datasets([apart, group], names)
    return replace(
        both,
        offsets=np.delete(both.offsets, 1),
        query_ids=both.query_ids[1:],
        query_params=None if both.query_params is None else both.query_params[1:],
        query_weights=None if both.query_weights is None else both.query_weights[1:],
        manifest=begun.manifest,
        featureset_hash=begun.featureset_hash,
    )
