"""How sure it is how far users look: the spread between fits to groups of queries.

The variance of a figure is that of the figures of random groups, each weighed by its share of the
impressions (Wolter 2007, ch. 2). All fits together cost as much as one to everything.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.data.splits import hashes_of
from owpc_ltr.host.click_fits import checked_fit
from owpc_ltr.protocols import ClickModel

GROUPS = 10
_CLICKS = 100
"""A group needs so many clicks to have a say."""


def look_interval(
    model: ClickModel, counts: ClickCounts, examination: Vector
) -> tuple[Vector, Vector] | None:
    """The 95 % interval of the examination of each rank; None where there are too few clicks."""
    from scipy.special import stdtrit

    group = hashes_of(counts.queries.to_pylist(), "groups of queries").argsort().argsort() % GROUPS
    parts = [_part(counts, group == number) for number in range(GROUPS)]
    if min(int(part.clicked.sum()) for part in parts) < _CLICKS:
        return None
    weights = np.array([float(part.shown.sum()) for part in parts])
    weights /= weights.sum()
    away = np.array([_at_all(checked_fit(model, part).examination, examination) for part in parts])
    variance = GROUPS / (GROUPS - 1) * weights**2 @ (away - examination) ** 2
    reach = float(stdtrit(GROUPS - 1, 0.975)) * np.sqrt(variance)
    low: Vector = np.maximum(examination - reach, 0.0)
    high: Vector = np.minimum(examination + reach, 1.0)
    return low, high


def _part(counts: ClickCounts, chosen: NDArray[np.bool_]) -> ClickCounts:
    """The pairs and rows of some queries."""
    kept = chosen[counts.pair_query]
    found = counts.take(np.flatnonzero(kept[counts.pair]))
    return replace(
        found,
        pair_query=counts.pair_query[kept],
        pair_document=counts.pair_document[kept],
        pair=(np.cumsum(kept) - 1)[found.pair],
    )


def _at_all(found: Vector, whole: Vector) -> Vector:
    """The examination of as many ranks as the whole, which stands where a group saw nothing."""
    filled = whole.copy()
    seen = min(len(found), len(whole))
    filled[:seen] = found[:seen]
    return filled
