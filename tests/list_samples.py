"""Lists in which relevance is a matter of the whole list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.models.linear import LinearModel


def crowded(queries: int = 30, seed: int = 3) -> RankingDataset:
    """Queries whose relevant documents are those unlike the others: no pointwise score tells."""
    rng = np.random.default_rng(seed)
    features = []
    for _ in range(queries):
        crowd = rng.normal(size=3) + 0.3 * rng.normal(size=(12, 3))
        features.append(np.vstack((crowd, rng.normal(scale=3, size=(4, 3)))))
    labels = np.tile(np.repeat([0, 1], [12, 4]), queries)
    order = np.concatenate([16 * q + rng.permutation(16) for q in range(queries)])
    data = make_dataset(
        np.vstack(features)[order],
        labels[order],
        np.repeat([f"q{q}" for q in range(queries)], 16),
        document_ids=pa.array([f"d{i}" for i in range(16 * queries)]),
    )
    assert data.n_queries == queries
    return data


def weights(*values: float) -> LinearModel:
    return LinearModel(("1", "2", "3"), np.array(values))
