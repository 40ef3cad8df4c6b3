"""The COEC ratings of Search Relevance Workbench, as it computes them.

A rating is the clicks on a document over the clicks expected of its impressions, all of them taken
to be at the best rank that it was ever seen at. Its loop over ranks ends before the last one, as
positions count from 0: where they count from 1, that rank has no rate, and rates 0
(`CoecClickModel.java`, opensearch-project/search-relevance).
"""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts


def srw_ratings(counts: ClickCounts, max_rank: int = 20, first_position: int = 1) -> Vector:
    """A rating for each pair, to three digits; `max_rank` is its own setting.

    `counts` are those of every event as it is (`count_events(…, every_event=True)`), of the actions
    click and impression alone, down to rank `max_rank` + 1 − `first_position`.
    """
    position = counts.rank - 1 + first_position
    seen = (position <= max_rank) & ((counts.shown > 0) | (counts.clicked > 0))
    rates = _rates(counts, position, max_rank)
    best = np.full(counts.n_pairs, len(rates) - 1)
    np.minimum.at(best, counts.pair[seen], position[seen])
    expected = rates[best] * counts.by_pair(np.where(seen, counts.shown, 0))
    clicks = counts.by_pair(np.where(seen, counts.clicked, 0))
    found = np.divide(clicks, expected, out=np.zeros(counts.n_pairs), where=expected > 0)
    # Java's %.3f rounds halves away from zero, on the digits of the number.
    digits: Vector = np.floor(found * 1000 + 0.5 + 1e-9) / 1000
    return digits


def _rates(counts: ClickCounts, position: np.ndarray, max_rank: int) -> Vector:
    """The click-through rate of each position below `max_rank`, and 0 for all others."""
    size = int(max(position.max(initial=0), max_rank)) + 2
    shown = np.bincount(position, counts.shown, size)
    clicks = np.bincount(position, counts.clicked, size)
    rates = np.divide(clicks, shown, out=np.zeros(size), where=shown > 0)
    rates[max_rank:] = 0.0
    return rates
