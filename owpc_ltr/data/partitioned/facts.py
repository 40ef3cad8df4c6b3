"""Facts: what one pass over a folder of parts says of its features and labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.columns import ColumnFacts, column_facts, facts_together
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.scaling import deviation_of, squares_within_queries


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
