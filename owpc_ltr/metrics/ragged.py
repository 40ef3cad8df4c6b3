"""Queries of many lengths as rectangles: rows of equal length, without padding.

There are at most √(2n) distinct lengths among rows that hold n entries together, so a loop over
lengths is short whatever the data are, and everything inside it is one NumPy call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.compiling import is_small
from owpc_ltr.metrics.sorted_queries import ordered_down

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector

IntVector = NDArray[np.int64]
"""Positions and counts, one-dimensional."""

_CELLS = 1 << 20
_CELLS_A_SCORE = 16
"""How many numbers NumPy is done with in the time in which it sorts one score."""


def rectangles(starts: IntVector, lengths: IntVector) -> Iterator[tuple[IntVector, IntVector]]:
    """Rows of equal length, as (which rows, positions of their entries: one line a row).

    Row i is the run of `lengths[i]` entries from `starts[i]` on. A rectangle has about a
    million entries at most, or one row; rows of no entries are left out.
    """
    by_length = np.argsort(lengths, kind="stable")
    cuts = np.flatnonzero(np.diff(lengths[by_length])) + 1
    for rows in np.split(by_length, cuts):
        length = int(lengths[rows[0]]) if len(rows) else 0
        if length == 0:
            continue
        within = np.arange(length)
        step = max(1, _CELLS // length)
        for first in range(0, len(rows), step):
            block = rows[first : first + step]
            yield block, starts[block, None] + within


def best_first(scores: NDArray[Any], offsets: IntVector) -> IntVector:
    """Positions of the documents, each query's by decreasing score, equal ones as they stand."""
    if not is_small(_CELLS_A_SCORE * len(scores)):
        return ordered_down(np.asarray(scores, dtype=np.float64), offsets)
    order = np.empty(len(scores), dtype=np.int64)
    for _, positions in rectangles(offsets[:-1], np.diff(offsets)):
        # Stable, so that the order of equal scores is the same on every machine.
        ranked = np.argsort(-scores[positions], axis=1, kind="stable")
        order[positions] = positions[:, :1] + ranked
    return order


def sorted_down(values: NDArray[Any], offsets: IntVector) -> NDArray[Any]:
    """The values themselves, each query's in decreasing order."""
    return values[best_first(values, offsets)]


def counts_by_query(counts: NDArray[Any], offsets: IntVector) -> IntVector:
    """The sum of the whole numbers, or marks, of each query's documents; exact."""
    running = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=running[1:])
    return running[offsets[1:]] - running[offsets[:-1]]


def sums_by_query(query: IntVector, values: Vector, n_queries: int) -> Vector:
    """The sum of the values of each query."""
    sums: Vector = np.bincount(query, weights=values, minlength=n_queries).astype(np.float64)
    return sums


def divide_defined(numerators: Vector, denominators: NDArray[Any]) -> Vector:
    """The quotients; NaN, the mark of an undefined value, where the denominator is 0."""
    quotients: Vector = np.full(len(denominators), np.nan)
    np.divide(numerators, denominators, out=quotients, where=denominators > 0)
    return quotients
