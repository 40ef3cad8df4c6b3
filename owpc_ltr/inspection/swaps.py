"""Swapped columns: two that have each other's values in a stretch of queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.finding import WARNING, Finding
from owpc_ltr.inspection.moved import Stretch, ks_distance, rows_in
from owpc_ltr.inspection.sample import Sample

_MOST = 32
"""Columns that are compared in pairs: those farthest off."""
_ROWS = 4_000
"""Documents of each side that are compared, at even steps."""


def swapped_columns(sample: Sample, moved: Mapping[int, Stretch]) -> Iterator[Finding]:
    """A finding for each pair, with its place."""
    farthest = sorted(moved, key=lambda column: -moved[column].distance)[:_MOST]
    for one, other in combinations(sorted(farthest), 2):
        for stretch in dict.fromkeys((moved[one], moved[other])):
            if _exchanged(sample, one, other, stretch):
                yield _finding(sample, one, other, stretch)
                break


def _exchanged(sample: Sample, one: int, other: int, stretch: Stretch) -> bool:
    """Whether each is far from itself, and like the other, inside as against outside."""
    rows = rows_in(sample, stretch)
    inside, outside = _some(np.flatnonzero(rows)), _some(np.flatnonzero(~rows))
    pair = sample.data.features[:, [one, other]]
    (a, b), (c, d) = pair[inside].T, pair[outside].T
    own = min(ks_distance(a, c), ks_distance(b, d))
    if own < thresholds.MOVED:
        return False
    return max(ks_distance(a, d), ks_distance(b, c)) < thresholds.SAME_SHAPE * own


def _some(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows[:: max(1, len(rows) // _ROWS)]


def _finding(sample: Sample, one: int, other: int, stretch: Stretch) -> Finding:
    names = sample.data.feature_names[one], sample.data.feature_names[other]
    first, last = sample.blocks[stretch.first], sample.blocks[stretch.last - 1]
    return Finding(
        "swapped-columns",
        WARNING,
        f"{names[0]}, {names[1]}",
        f"'{names[0]}' and '{names[1]}' have each other's values "
        f"{sample.place(stretch.first, stretch.last)}",
        "look at how these rows were made: columns in another order, or names exchanged",
        names,
        (first.first, last.last),
    )
