"""Columns: the lowest and the highest value of each, what is missing, and which are constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.inspection.result import NOTE, WARNING, Finding, listed, of_columns

_CACHED = 1 << 15
"""Values that are looked at together: they stay in the processor's cache."""
CHECK_TEMPLATES = "check the templates and fields"
_GUESS = f"{CHECK_TEMPLATES}: one that is misspelt matches nothing"


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

    @property
    def never_changes(self) -> NDArray[np.bool_]:
        """The same of several rows: one document differs from no other in anything."""
        return self.constant & (self.rows > 1)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Which columns are neither empty nor constant."""
        return ~self.empty & ~self.constant


def column_facts(features: Matrix) -> ColumnFacts:
    """Look at every value once; nothing is copied but a block of rows at a time."""
    rows, columns = features.shape
    lowest = np.full(columns, np.nan, np.float32)
    highest, missing = lowest.copy(), np.zeros(columns, np.int64)
    size = max(1, _CACHED // max(columns, 1))
    for start in range(0, rows, size):
        block = features[start : start + size]
        np.fmin(lowest, np.fmin.reduce(block, axis=0), out=lowest)
        np.fmax(highest, np.fmax.reduce(block, axis=0), out=highest)
        missing += np.isnan(block).sum(axis=0)
    return ColumnFacts(lowest, highest, missing, rows)


def facts_together(first: ColumnFacts, other: ColumnFacts) -> ColumnFacts:
    """The facts of the rows of both."""
    return ColumnFacts(
        np.fmin(first.lowest, other.lowest),
        np.fmax(first.highest, other.highest),
        first.missing + other.missing,
        first.rows + other.rows,
    )


def constant_columns(facts: ColumnFacts, names: Sequence[str]) -> Iterator[Finding]:
    """A finding on the columns without any value, and one on those whose value never changes."""
    empty = [names[column] for column in np.flatnonzero(facts.empty).tolist()]
    if empty:
        message = f"no document has a value for {listed(empty)}"
        yield of_columns("constant-column", empty, message, _GUESS)
    values = {
        names[column]: float(facts.lowest[column])
        for column in np.flatnonzero(facts.never_changes).tolist()
    }
    # A numbered feature of a published form has no field, and 0 is how it is left out.
    unused = [name for name, value in values.items() if value == 0 and name.isdecimal()]
    used = [name for name in values if name not in unused]
    for columns, advice, severity in (
        (unused, "the features of these numbers are not used", NOTE),
        (used, _GUESS, WARNING),
    ):
        if columns:
            each = listed([f"{name} ({values[name]:g})" for name in columns])
            message = f"every document has the same value for {each}"
            yield of_columns("constant-column", columns, message, advice, severity)


def constant_features(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The columns that tell no document from another, for want of values or of differences."""
    columns = np.flatnonzero(facts.empty | facts.never_changes).tolist()
    return [names[column] for column in columns]


def constant_in_training(constant: Sequence[str]) -> list[str]:
    """A line on the features that nothing could be learned from, if there are any."""
    if not constant:
        return []
    return [
        f"no value, or one and the same, in all documents: {listed(constant)}: nothing was learned "
        f"from them; {CHECK_TEMPLATES}"
    ]
