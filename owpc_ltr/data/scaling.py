"""Feature scales for linear models: what makes one C fit all features.

Only differences between documents of one query matter to a ranking loss, so scales are measured
within queries, and no shift is needed: a scale folds into the weights exactly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import UsageError

NORMALISATIONS = ("scale", "none")


def with_scales(data: RankingDataset, normalise: str) -> RankingDataset:
    """The dataset, with `feature_scales` for the optimizer; nothing is copied.

    `scale`: one over the standard deviation within queries (0 for a feature that never differs
    within a query). `none`: features as they are.
    """
    check_normalisation(normalise)
    if normalise == "none":
        return data
    return replace(data, feature_scales=scales_of(deviation_within_queries(data)))


def scales_of(deviation: Vector) -> Vector:
    """One over each deviation, 0 where it is 0."""
    return np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)


def check_normalisation(name: str) -> None:
    """Refuse a normalisation that does not exist."""
    if name not in NORMALISATIONS:
        raise UsageError(f"no normalisation is called '{name}'; known: {', '.join(NORMALISATIONS)}")


def deviation_within_queries(data: RankingDataset) -> Vector:
    """Standard deviation of each feature around its query's mean, (n_features,)."""
    return deviation_of(*squares_within_queries(data), data.n_documents)


def squares_within_queries(data: RankingDataset) -> tuple[Vector, Vector]:
    """Of each feature, the sum of squares around its query's mean, and the largest size."""
    squares = np.zeros(data.n_features)
    largest = np.zeros(data.n_features)
    # Blocks of queries keep the float64 copy small.
    for first in range(0, data.n_queries, 256):
        last = min(first + 256, data.n_queries)
        start, end = data.offsets[first], data.offsets[last]
        rows = np.nan_to_num(data.features[start:end].astype(np.float64), nan=0.0)
        cuts = data.offsets[first:last] - start
        sizes = np.diff(data.offsets[first : last + 1])
        means = np.add.reduceat(rows, cuts, axis=0) / sizes[:, None]
        np.maximum(largest, np.abs(rows).max(axis=0), out=largest)
        rows -= np.repeat(means, sizes, axis=0)
        squares += np.einsum("ij,ij->j", rows, rows)
    return squares, largest


def deviation_of(squares: Vector, largest: Vector, documents: int) -> Vector:
    """The deviations that these sums over so many documents say."""
    deviation: Vector = np.sqrt(squares / max(documents, 1))
    # What is left of a constant feature is rounding, not signal.
    deviation[deviation <= 1e-7 * largest] = 0.0
    return deviation
