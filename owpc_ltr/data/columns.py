"""ColumnFacts: what one look at a feature matrix says of its columns, and which say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix

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
