"""A metric along a line of scores, s + step · x: many steps in one compiled pass over the queries.

The measures and their conventions are those of `owpc_ltr.metrics`, which evaluates all queries of
one ranking; here it is all rankings of one query. ERR and the pairwise error are not among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.kernels.linear import query_blocks, run_blocks
from owpc_ltr.kernels.sorting import sort_ascending
from owpc_ltr.metrics import Metric, RankedQueries
from owpc_ltr.metrics.compiled import (
    cut_into_runs,
    discounted_gain,
    order_ties,
    reciprocal_of_first,
    relevant_found,
    sum_of_precisions,
)
from owpc_ltr.metrics.measures import discounts, gains
from owpc_ltr.metrics.ragged import sums_by_query

_DCG, _FOUND, _PRECISIONS, _FIRST = range(4)
_KINDS = {
    "ndcg": _DCG,
    "precision": _FOUND,
    "recall": _FOUND,
    "winner-takes-all": _FOUND,
    "map": _PRECISIONS,
    "mrr": _FIRST,
}
_EXPECTED, _FILE_ORDER, _PESSIMISTIC, _OPTIMISTIC = range(4)
_TIES = {
    "expected": _EXPECTED,
    "file-order": _FILE_ORDER,
    "pessimistic": _PESSIMISTIC,
    "optimistic": _OPTIMISTIC,
}
_BLOCKS = 16
_SORTED_FOR_THREADS = 100_000


def is_compiled(metric: Metric) -> bool:
    """Whether `SteppedMetric` has the measure."""
    return metric.name in _KINDS


class SteppedMetric:
    """A metric of the queries of a dataset, to be evaluated at many steps.

    `at_rest` are its values at any scores: a query keeps its own where no ranking changes it.
    """

    def __init__(self, metric: Metric, data: RankingDataset, at_rest: Vector) -> None:
        self.offsets, self.at_rest = data.offsets, at_rest
        lengths = np.diff(data.offsets)
        longest = int(lengths.max(initial=0))
        cutoff = 1 if metric.name == "winner-takes-all" else metric.cutoff
        within = longest if cutoff is None else min(cutoff, longest)
        self.conventions = (_KINDS[metric.name], _TIES[metric.ties], within)
        queries = RankedQueries(np.zeros(data.n_documents), data.labels, data.offsets)
        if metric.name == "ndcg":
            self.worth, self.places = gains(data.labels, metric), discounts(longest, metric)
            self.whole = self._ideal(queries, metric)
        else:
            self.worth = (data.labels > metric.relevant_above).astype(np.float64)
            self.places = np.divide(1.0, np.arange(1.0, longest + 1.0))
            self.whole = self._most(queries, metric)
        self.running = np.concatenate([[0.0], np.cumsum(self.places)])
        if metric.short == "zero" and metric.cutoff is not None:
            self.whole[lengths < metric.cutoff] = 0.0

    def along(self, scores: Vector, direction: Vector, steps: Vector, threads: int = 1) -> Vector:
        """Values at scores + step · direction, all finite: one row a step, one column a query."""
        values = np.repeat(self.at_rest[None, :], len(steps), axis=0)
        cuts = query_blocks(self.offsets, _BLOCKS)

        def block(index: int) -> None:
            _evaluate(
                self.conventions,
                (self.places, self.running),
                scores,
                direction,
                steps,
                self.worth,
                self.whole,
                self.offsets,
                cuts[index],
                cuts[index + 1],
                values,
            )

        worthwhile = len(scores) * len(steps) >= _SORTED_FOR_THREADS
        run_blocks(block, len(cuts) - 1, threads if worthwhile else 1)
        return values

    def _ideal(self, queries: RankedQueries, metric: Metric) -> Vector:
        """The DCG of each query's best order; 0 where the measure is undefined."""
        best = queries.ideal.head(metric.cutoff)
        parts = gains(best.labels, metric) * self.places[best.above]
        return sums_by_query(best.query, parts, queries.n_queries)

    def _most(self, queries: RankedQueries, metric: Metric) -> Vector:
        """What sums over relevant documents are divided by; 0 for a query without any."""
        count = queries.n_relevant(metric.relevant_above)
        if metric.name in ("map", "recall"):
            return count.astype(np.float64)
        cutoff = (metric.cutoff or 1) if metric.name == "precision" else 1
        most: Vector = np.where(count > 0, float(cutoff), 0.0)
        return most


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _evaluate(
    conventions: Any,
    tables: Any,
    scores: Any,
    direction: Any,
    steps: Any,
    worth: Any,
    whole: Any,
    offsets: Any,
    first: int,
    last: int,
    values: Any,
) -> None:
    """Write the values of a block of queries, where the measure is defined, at all steps."""
    kind, ties, cutoff = conventions
    longest = 0
    for query in range(first, last):
        longest = max(longest, offsets[query + 1] - offsets[query])
    keys, order = np.empty(longest), np.empty(longest, dtype=np.int64)
    runs = np.empty(longest + 1, dtype=np.int64)
    for query in range(first, last):
        if not whole[query] > 0.0:
            continue
        start, end = offsets[query], offsets[query + 1]
        own, ranked, key = worth[start:end], order[: end - start], keys[: end - start]
        for k in range(len(steps)):
            for i in range(end - start):
                key[i] = -(scores[start + i] + steps[k] * direction[start + i])
                ranked[i] = i
            sort_ascending(key, ranked)
            if ties == _PESSIMISTIC:
                order_ties(key, own, ranked)
            elif ties == _OPTIMISTIC:
                order_ties(key, -own, ranked)
            cuts = runs[: cut_into_runs(ties == _EXPECTED, key, ranked, runs)]
            if kind == _DCG:
                total = discounted_gain(own, ranked, cuts, cutoff, tables)
            elif kind == _FOUND:
                total = relevant_found(own, ranked, cuts, cutoff)
            elif kind == _PRECISIONS:
                total = sum_of_precisions(own, ranked, cuts, cutoff, tables)
            else:
                total = reciprocal_of_first(own, ranked, cuts, cutoff)
            values[k, query] = total / whole[query]
