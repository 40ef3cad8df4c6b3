"""The share of misordered pairs, for any number of distinct labels, without visiting pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.metrics import Metric, RankedQueries
from owpc_ltr.metrics.conventions import Empty
from owpc_ltr.metrics.ragged import IntVector, counts_by_query, divide_defined


@dataclass(frozen=True)
class PairwiseError(Metric):
    """pairs of different labels in the wrong order, over all such pairs (Burges 2006).

    A query without pairs would lower a mean of errors: it is left out unless asked for.
    """

    name: ClassVar[str] = "pairwise-error"
    cutoff_use: ClassVar[Literal["needed", "optional", "none"]] = "none"
    higher_is_better: ClassVar[bool] = False
    defined_on: ClassVar[str] = "pairs to compare"

    empty: Empty = field(default="skip", kw_only=True)

    def values(self, queries: RankedQueries) -> Vector:
        """Misordered pairs over pairs.

        A tied pair is wrong in half of the orders: the mean of the worst and the best order.
        """
        if self.ties != "expected":
            wrong, pairs = _misordered(queries.ranking(self.ties).labels, queries)
            return divide_defined(wrong.astype(np.float64), pairs)
        worst, best = queries.ranking("pessimistic"), queries.ranking("optimistic")
        wrong, pairs = _misordered(worst.labels, queries)
        if worst is not best:
            wrong = wrong + _misordered(best.labels, queries)[0]
            pairs = 2 * pairs
        return divide_defined(wrong.astype(np.float64), pairs)

    @property
    def meaning(self) -> str:
        """Which pairs."""
        return "pairs of different labels in the wrong order, over all such pairs"


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


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric pairwise-error`."""
    return [PairwiseError]
