"""Datasets → a folder of parts, in bounded memory; the same queries give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.joining import check_alike, join_datasets, joined_manifest
from owpc_ltr.data.parquet.writing import write_dataset
from owpc_ltr.data.partitioned.buckets import BUCKETS, SALT, bucket_of, check_buckets
from owpc_ltr.data.partitioned.folder import COLUMN, own_folder
from owpc_ltr.data.partitioned.manifest import Manifest, Part, Share, Told
from owpc_ltr.data.splits import hashes_of, positions_of
from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import disk_faults
from owpc_ltr.files.text import shown

PART_BYTES = 16 << 20
"""About the size of a part's matrix; what waits for parts to fill has 20 times as much."""
_MOST_WAITING = 20 * PART_BYTES
_OPTIONAL = ("document_ids", "query_params", "query_weights", "document_weights", "comments")


def write_partitioned(
    datasets: Iterable[RankingDataset],
    folder: Path | str,
    *,
    buckets: int = BUCKETS,
    told: Told | None = None,
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
        manifest = writer.finish(told or Told(writer.source()))
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

    def finish(self, told: Told) -> Manifest:
        """Write what is left. Raises BadInput where there is nothing, or a query came back."""
        if self.first is None:
            raise BadInput(f"cannot write {self.folder}: there is no query in what was given")
        for bucket in sorted(self.waiting):
            left = self._together(bucket)
            if left is not None:
                self._write(bucket, left)
        columns = tuple(name for name in _OPTIONAL if getattr(self.first, name) is not None)
        parts = tuple(part for bucket in sorted(self.parts) for part in self.parts[bucket])
        return Manifest(
            self.first.feature_names,
            (*columns, *(["document_fields"] if self.first.document_fields is not None else [])),
            self.first.featureset_hash,
            self.buckets,
            parts,
            told.source,
            told.counts,
            self.share,
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
        written.append(Part(path, bucket, dataset.n_queries, dataset.n_documents, digest, ends))

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
