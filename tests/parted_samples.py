"""Small data sets with everything that one can have, and as folders of many parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.partitioned import writing as writing_module
from owpc_ltr.data.partitioned.dataset import PartitionedDataset, open_partitioned
from owpc_ltr.data.partitioned.writing import write_partitioned
from owpc_ltr.data.scaling import with_scales


def dataset(queries: int = 60, seed: int = 0, first: int = 0, width: int = 5) -> RankingDataset:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, queries)
    rows = int(sizes.sum())
    features = rng.normal(size=(rows, width)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    return make_dataset(
        features,
        rng.integers(0, 3, rows),
        np.repeat([f"query {first + i}" for i in range(queries)], sizes),
        document_ids=pa.array([f"d{first}-{i}" for i in range(rows)]),
        query_params=pa.array([json.dumps({"keywords": f"q{i}"}) for i in range(queries)]),
        query_weights=rng.choice([0.5, 1.0, 2.0], queries),
        featureset_hash="a" * 64,
        manifest={"judged": rows},
    )


def in_parts(data: RankingDataset, folder: Path, memory: int = 1 << 20) -> PartitionedDataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing_module, "PART_BYTES", 32 * 40)
        write_partitioned([replace(data, feature_scales=None)], folder)
    return replace(open_partitioned(folder, memory), feature_scales=data.feature_scales)


def learnable(queries: int = 60, seed: int = 0) -> RankingDataset:
    """Queries whose labels have to do with their features."""
    data = dataset(queries, seed)
    noise = np.random.default_rng(seed + 100).normal(size=data.n_documents)
    utility = np.nan_to_num(data.features) @ [1, -0.5, 0.5, 0, 0] + noise
    graded = np.clip(np.floor(utility + 1), 0, 2).astype(np.float32)
    return with_scales(replace(data, labels=graded), "scale")


def by_query(data: RankingDataset) -> dict[str, tuple[Any, ...]]:
    """What each query has, whatever the order of the queries."""
    assert data.document_ids is not None
    assert data.query_params is not None
    return {
        query.query_id: (
            query.features.tobytes(),
            query.labels.tobytes(),
            query.weights.tobytes(),
            float(data.query_importance[number]),
            data.query_params[number].as_py(),
            data.document_ids[
                int(data.offsets[number]) : int(data.offsets[number + 1])
            ].to_pylist(),
        )
        for number, (query, start, end) in enumerate(
            zip(data, data.offsets, data.offsets[1:], strict=False)
        )
    }


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
