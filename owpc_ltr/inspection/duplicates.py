"""Duplicate columns: two that are equal, or one a multiple of the other plus a constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.columns import ColumnFacts, listed
from owpc_ltr.inspection.finding import NOTE, WARNING, Finding

_SEED = 0
_NEAR = 1e-4
"""Projections of affine copies differ by rounding of float32: those within this are compared."""
_EXACT = 4e-6
"""Some roundings of float32, relative to the largest value."""
_FEWEST = 3
"""Different values below which any two columns that change together are affine."""
_ROWS = 10_000
"""Sampled rows by which affine copies are told."""


def duplicate_columns(
    digests: NDArray[np.uint64], facts: ColumnFacts, sampled: Matrix, names: Sequence[str]
) -> Iterator[Finding]:
    """A finding for each group of equal columns, and for each affine copy of another.

    Equal ones are told by the digests of all rows, copies by sampled rows. Columns that say
    nothing are left out: they are told as such.
    """
    telling = np.flatnonzero(~facts.empty & ~facts.constant)
    kept = []
    for group in _equal(digests, telling):
        kept.append(group[0])
        if len(group) > 1:
            yield _copies([names[column] for column in group])
    step = max(1, len(sampled) // _ROWS)
    for one, other in affine_pairs(sampled[::step][:, np.array(kept, np.int64)]):
        yield _affine(names[kept[one]], names[kept[other]])


def affine_pairs(columns: Matrix) -> list[tuple[int, int]]:
    """Pairs (one, another) where another is a·one + b, each column paired with one before it.

    Columns are standardised and projected on one random direction: copies have the same projection
    but for its sign, and lie side by side once these are sorted.
    """
    rows, count = columns.shape
    if rows < 2 or count < 2:
        return []
    direction = np.random.default_rng(_SEED).normal(size=(rows,))
    projections = np.array([_projection(columns[:, column], direction) for column in range(count)])
    order = np.argsort(projections, kind="stable")
    pairs = []
    for place, column in enumerate(order.tolist()):
        for other in order[place + 1 :].tolist():
            # NaN, where a column says too little, is near to nothing.
            if not projections[other] - projections[column] <= _NEAR * projections[column]:
                break
            if _is_affine(columns[:, column], columns[:, other]):
                pairs.append((min(column, other), max(column, other)))
                break
    return sorted(pairs)


def _equal(digests: NDArray[np.uint64], columns: NDArray[np.int64]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for column in columns.tolist():
        groups.setdefault(int(digests[column]), []).append(column)
    return list(groups.values())


def _projection(values: NDArray[np.float32], direction: NDArray[np.float64]) -> float:
    there = np.isfinite(values)
    own = values[there].astype(np.float64)
    if len(np.unique(own[:100])) < _FEWEST and len(np.unique(own)) < _FEWEST:
        return float("nan")
    own -= own.mean()
    deviation = own.std()
    if deviation <= _EXACT * np.abs(own).max(initial=0.0):
        return float("nan")
    return float(abs(own @ direction[there]) / deviation)


def _is_affine(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    if not np.array_equal(np.isnan(one), np.isnan(other)):
        return False
    there = np.isfinite(one) & np.isfinite(other)
    x, y = one[there].astype(np.float64), other[there].astype(np.float64)
    low, high = int(np.argmin(x)), int(np.argmax(x))
    slope = (y[high] - y[low]) / (x[high] - x[low])
    left = np.abs(y - y[low] - slope * (x - x[low])).max()
    # Each was rounded by itself.
    allowed = max(np.abs(y).max(), abs(slope) * np.abs(x).max())
    return bool(left <= _EXACT * allowed)


def _copies(names: list[str]) -> Finding:
    rest = listed(names[1:])
    return Finding(
        "duplicate-column",
        WARNING,
        listed(names),
        f"'{names[0]}' stands again as {rest}, the same value in every document",
        "leave the copies out, or mend the feature that was meant",
        tuple(names),
    )


def _affine(one: str, other: str) -> Finding:
    return Finding(
        "duplicate-column",
        NOTE,
        f"{one}, {other}",
        f"'{other}' is a multiple of '{one}' plus a constant",
        "leave one out: it costs a query and says nothing new",
        (one, other),
    )
