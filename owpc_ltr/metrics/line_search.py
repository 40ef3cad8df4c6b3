"""A metric along a line of scores, s + step · x: many steps in one compiled pass over the queries.

The values are those of the metric itself, which evaluates all queries of one ranking; here it is
all rankings of one query. A metric says how, by its `rank_sum`; ERR and the pairwise error are no
sums of this kind.

In the formulas, exact under ties (McSherry & Najork, ECIR 2008), `ranked` are the documents, best
first, `runs` the places where those of one score begin, and the end. `worth` is a document's gain,
or 1 where it is relevant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.kernels.linear import query_blocks, run_blocks
from owpc_ltr.kernels.sorting import sort_ascending
from owpc_ltr.metrics.metric import Metric
from owpc_ltr.metrics.ranking import RankedQueries

_DCG, _FOUND, _PRECISIONS, _FIRST = range(4)
_KINDS = {
    "discounted-gain": _DCG,
    "relevant-found": _FOUND,
    "precisions": _PRECISIONS,
    "first-relevant": _FIRST,
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
    """Whether `SteppedMetric` takes the metric, which says so itself."""
    nothing = RankedQueries(np.zeros(0), np.zeros(0), np.zeros(1))
    return metric.rank_sum(nothing) is not None


class SteppedMetric:
    """A metric of the queries of a dataset, to be evaluated at many steps.

    `at_rest` are its values at any scores: a query keeps its own where no ranking changes it.
    Raises ValueError for a metric that is not compiled.
    """

    def __init__(self, metric: Metric, data: RankingDataset, at_rest: Vector) -> None:
        self.offsets, self.at_rest = data.offsets, at_rest
        queries = RankedQueries(np.zeros(data.n_documents), data.labels, data.offsets)
        found = metric.rank_sum(queries)
        if found is None:
            raise ValueError(f"{metric} is not compiled: ask is_compiled first")
        longest = int(queries.lengths.max(initial=0))
        cutoff = longest if found.cutoff is None else min(found.cutoff, longest)
        self.conventions = (_KINDS[found.kind], _TIES[metric.ties], cutoff)
        self.worth, self.whole, self.places = found.worth, found.whole.copy(), found.discounts
        self.running = np.concatenate([[0.0], np.cumsum(self.places)])
        if metric.short == "zero" and metric.cutoff is not None:
            self.whole[queries.lengths < metric.cutoff] = 0.0

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


@compiled
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


@compiled
def order_ties(keys: Any, by: Any, ranked: Any) -> None:
    """Sort the documents of each tied run by another number, lowest first."""
    first = 0
    for place in range(1, len(ranked) + 1):
        if place == len(ranked) or keys[ranked[place]] != keys[ranked[first]]:
            if place - first > 1:
                sort_ascending(by, ranked[first:place])
            first = place


@compiled
def cut_into_runs(merge: bool, keys: Any, ranked: Any, runs: Any) -> int:
    """Write the place where each run begins, and the end of the last; how many were written.

    A run is the documents of one score where tied ones are to be merged, else one document.
    """
    written = 0
    for place in range(len(ranked)):
        if not (merge and place > 0 and keys[ranked[place]] == keys[ranked[place - 1]]):
            runs[written] = place
            written += 1
    runs[written] = len(ranked)
    return written + 1


@compiled
def _run_sum(worth: Any, ranked: Any, first: int, last: int) -> float:
    total = 0.0
    for place in range(first, last):
        total += worth[ranked[place]]
    return total


@compiled
def discounted_gain(gain: Any, ranked: Any, runs: Any, cutoff: int, tables: Any) -> float:
    """DCG; `tables` are the discounts of the places, and their running sums from 0."""
    discount, running = tables
    total = 0.0
    for r in range(len(runs) - 1):
        above, size = runs[r], runs[r + 1] - runs[r]
        if above >= cutoff:
            break
        if size == 1:
            total += gain[ranked[above]] * discount[above]
            continue
        end = min(above + size, cutoff)
        mean = _run_sum(gain, ranked, above, above + size) / size
        total += mean * (running[end] - running[above])
    return total


@compiled
def relevant_found(relevant: Any, ranked: Any, runs: Any, cutoff: int) -> float:
    """How many relevant documents are expected within the cutoff."""
    total = 0.0
    for r in range(len(runs) - 1):
        above, size = runs[r], runs[r + 1] - runs[r]
        if above >= cutoff:
            break
        share = min(size, cutoff - above) / size
        total += _run_sum(relevant, ranked, above, above + size) * share
    return total


@compiled
def sum_of_precisions(relevant: Any, ranked: Any, runs: Any, cutoff: int, tables: Any) -> float:
    """Precision summed over relevant documents; `tables` are 1/rank, and its running sums."""
    reciprocal, running = tables
    total, before = 0.0, 0.0
    for r in range(len(runs) - 1):
        above, size = runs[r], runs[r + 1] - runs[r]
        if above >= cutoff:
            break
        hits = _run_sum(relevant, ranked, above, above + size)
        if hits == 0.0:
            continue
        within = min(size, cutoff - above)
        reciprocals = reciprocal[above] if within == 1 else running[above + within] - running[above]
        others = (hits - 1.0) / max(size - 1, 1) * (within - (above + 1) * reciprocals)
        total += hits / size * ((before + 1.0) * reciprocals + others)
        before += hits
    return total


@compiled
def reciprocal_of_first(relevant: Any, ranked: Any, runs: Any, cutoff: int) -> float:
    """1/rank of the first relevant document, 0 beyond the cutoff."""
    for r in range(len(runs) - 1):
        above, size = runs[r], runs[r + 1] - runs[r]
        if above >= cutoff:
            break
        hits = _run_sum(relevant, ranked, above, above + size)
        if hits > 0.0:
            expected: float = _expected_reciprocal(hits, size, above, cutoff)
            return expected
    return 0.0


@compiled
def _expected_reciprocal(hits: float, size: int, above: int, cutoff: int) -> float:
    """The mean over all orders of a run of 1/rank of its first relevant document."""
    if hits == size:
        return 1.0 / (above + 1)
    total, before = 0.0, 1.0
    for j in range(min(size, cutoff - above)):
        left = size - j
        total += before * (hits / left) / (above + j + 1)
        before *= max(left - hits, 0.0) / left
    return total
