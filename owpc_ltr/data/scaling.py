"""Scales of features within queries, and the facts of a partitioned dataset that they need."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.columns import ColumnFacts, column_facts, facts_together
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
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


@dataclass(frozen=True, eq=False)
class Facts:
    """Of each column its values and its spread within queries; whether labels differ anywhere."""

    columns: ColumnFacts
    squares: Vector
    largest: Vector
    ordered: bool

    @property
    def deviation(self) -> Vector:
        """The standard deviation of each feature within queries."""
        return deviation_of(self.squares, self.largest, self.columns.rows)

    @property
    def ranges(self) -> list[list[float]]:
        """The smallest and the largest value of each feature, a missing one being 0."""
        gaps = self.columns.missing > 0
        low = np.where(gaps, np.fmin(self.columns.lowest, 0), self.columns.lowest)
        high = np.where(gaps, np.fmax(self.columns.highest, 0), self.columns.highest)
        return [low.tolist(), high.tolist()]

    def filled(self) -> ColumnFacts:
        """The columns where a missing value is 0."""
        low, high = (np.array(ends, np.float32) for ends in self.ranges)
        return ColumnFacts(low, high, np.zeros_like(self.columns.missing), self.columns.rows)


def facts_of(data: PartitionedDataset) -> Facts:
    """The facts of all parts, each of which is checked by its digest meanwhile."""
    found: Facts | None = None
    for own in data.each(_facts, whole=True):
        found = own if found is None else _together(found, own)
    assert found is not None  # noqa: S101 - a dataset has a part at least
    return found


def _facts(part: RankingDataset) -> Facts:
    highest = np.maximum.reduceat(part.labels, part.offsets[:-1])
    lowest = np.minimum.reduceat(part.labels, part.offsets[:-1])
    ordered = bool((highest > lowest).any())
    return Facts(column_facts(part.features), *squares_within_queries(part), ordered)


def _together(one: Facts, other: Facts) -> Facts:
    return Facts(
        facts_together(one.columns, other.columns),
        one.squares + other.squares,
        np.maximum(one.largest, other.largest),
        one.ordered or other.ordered,
    )
