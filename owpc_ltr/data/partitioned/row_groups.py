"""Parquet → datasets of whole queries, one after another, a row group in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.joining import join_datasets
from owpc_ltr.data.parquet.parts import stream_groups
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown


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
