"""Scales of features: one over their spread within queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.errors import UsageError

NORMALISATIONS = ("scale", "none")

Table = TypeVar("Table", bound=JudgedTable)


def with_scales(data: Table, normalise: str) -> Table:
    """The data, with `feature_scales` for the optimizer; nothing is copied.

    `scale`: one over the standard deviation within queries (0 for a feature that never differs
    within a query). `none`: features as they are.
    """
    check_normalisation(normalise)
    if normalise == "none":
        return data
    deviation = deviation_within_queries(data)
    scales = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return replace(data, feature_scales=scales)


def check_normalisation(name: str) -> None:
    """Refuse a normalisation that does not exist."""
    if name not in NORMALISATIONS:
        raise UsageError(f"no normalisation is called '{name}'; known: {', '.join(NORMALISATIONS)}")


def deviation_within_queries(data: JudgedTable) -> Vector:
    """Standard deviation of each feature around its query's mean, (n_features,)."""
    squares, largest = np.zeros(data.n_features), np.zeros(data.n_features)
    for part_squares, part_largest in data.each(_squares_within_queries):
        squares += part_squares
        np.maximum(largest, part_largest, out=largest)
    deviation: Vector = np.sqrt(squares / max(data.n_documents, 1))
    # What is left of a constant feature is rounding, not signal.
    deviation[deviation <= 1e-7 * largest] = 0.0
    return deviation


def _squares_within_queries(data: RankingDataset) -> tuple[Vector, Vector]:
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
