"""The share of misordered pairs, for any number of distinct labels, without visiting pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from owpc_ltr.metrics.ragged import IntVector, counts_by_query, divide_defined

if TYPE_CHECKING:
    from owpc_ltr.arrays import Labels, Vector
    from owpc_ltr.metrics.metric import Metric
    from owpc_ltr.metrics.ranking import RankedQueries


def pairwise_error(queries: RankedQueries, metric: Metric) -> Vector:
    """Pairs of different labels in the wrong order, over all such pairs (Burges 2006).

    A tied pair is wrong in half of the orders: the mean of the worst and the best order.
    """
    if metric.ties != "expected":
        wrong, pairs = _misordered(queries.ranking(metric.ties).labels, queries)
        return divide_defined(wrong.astype(np.float64), pairs)
    worst, best = queries.ranking("pessimistic"), queries.ranking("optimistic")
    wrong, pairs = _misordered(worst.labels, queries)
    if worst is not best:
        wrong = wrong + _misordered(best.labels, queries)[0]
        pairs = 2 * pairs
    return divide_defined(wrong.astype(np.float64), pairs)


def _misordered(labels: Labels, queries: RankedQueries) -> tuple[IntVector, IntVector]:
    """Misordered pairs, and pairs of different labels, of each query ranked best first.

    Labels as binary numbers, highest digit first: two documents are compared at the first digit
    where they differ. At each digit the zeros above a one of the same segment are wrong; then
    the segments split, zeros before ones, each keeping its order.
    """
    levels = np.unique(labels)
    codes = np.searchsorted(levels, labels)
    start = np.repeat(queries.offsets[:-1], queries.lengths)
    stop = np.repeat(queries.offsets[1:], queries.lengths)
    wrong = np.zeros(queries.n_queries, dtype=np.int64)
    pairs = np.zeros(queries.n_queries, dtype=np.int64)
    for digit in reversed(range((len(levels) - 1).bit_length() if len(levels) else 0)):
        one = (codes >> digit) & 1
        zeros = np.concatenate([[0], np.cumsum(1 - one)])
        zeros_above = zeros[:-1] - zeros[start]
        zeros_in_all = zeros[stop] - zeros[start]
        wrong += counts_by_query(one * zeros_above, queries.offsets)
        pairs += counts_by_query(one * zeros_in_all, queries.offsets)
        border = start + zeros_in_all
        ones_above = np.arange(len(codes)) - start - zeros_above
        place = np.where(one, border + ones_above, start + zeros_above)
        start, stop = np.where(one, border, start), np.where(one, stop, border)
        codes, start, stop = _moved(place, codes), _moved(place, start), _moved(place, stop)
    return wrong, pairs


def _moved(place: IntVector, values: IntVector) -> IntVector:
    moved = np.empty_like(values)
    moved[place] = values
    return moved
