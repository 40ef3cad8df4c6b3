"""Columns of a feature matrix: what one look says of them, and their scales within queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset

if TYPE_CHECKING:
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.errors import UsageError

_TOLD = 8
_BLOCK = 1 << 15
"""Values that are looked at together: they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Of each column the lowest and the highest value, NaN where it has none; and its gaps."""

    lowest: NDArray[np.float32]
    highest: NDArray[np.float32]
    missing: NDArray[np.int64]
    rows: int

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which columns have no value at all."""
        return np.equal(self.missing, self.rows)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns have one and the same value in every row."""
        return np.equal(self.missing, 0) & np.equal(self.lowest, self.highest)


def column_facts(features: Matrix) -> ColumnFacts:
    """Look at every value once; nothing is copied but a block of rows at a time."""
    rows, columns = features.shape
    lowest = np.full(columns, np.nan, np.float32)
    highest, missing = lowest.copy(), np.zeros(columns, np.int64)
    size = max(1, _BLOCK // max(columns, 1))
    for start in range(0, rows, size):
        block = features[start : start + size]
        np.fmin(lowest, np.fmin.reduce(block, axis=0), out=lowest)
        np.fmax(highest, np.fmax.reduce(block, axis=0), out=highest)
        missing += np.isnan(block).sum(axis=0)
    return ColumnFacts(lowest, highest, missing, rows)


def facts_together(one: ColumnFacts, other: ColumnFacts) -> ColumnFacts:
    """The facts of the rows of both."""
    return ColumnFacts(
        np.fmin(one.lowest, other.lowest),
        np.fmax(one.highest, other.highest),
        one.missing + other.missing,
        one.rows + other.rows,
    )


def silent_features(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The columns that tell no document from another, for want of values or of differences."""
    silent = {*empty_columns(facts, names), *constant_values(facts, names)}
    return [name for name in names if name in silent]


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are.

    >>> listed([*"abcdefghij"])
    'a, b, c, d, e, f, g, h and 2 more'
    """
    told = ", ".join(names[:_TOLD])
    return f"{told} and {len(names) - _TOLD} more" if len(names) > _TOLD else told


def empty_columns(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The columns without any value."""
    return [names[column] for column in np.flatnonzero(facts.empty).tolist()]


def constant_values(facts: ColumnFacts, names: Sequence[str]) -> dict[str, float]:
    """The columns with one value in all rows, and which it is."""
    # One document differs from no other in anything.
    columns: list[int] = np.flatnonzero(facts.constant).tolist() if facts.rows > 1 else []
    return {names[column]: float(facts.lowest[column]) for column in columns}


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
