"""Metrics inside a fit: as the objective of a search, along a line, and as the judge of candidates.

The values along a line of scores, s + step · x, many steps in one compiled pass over the queries,
are those of the metric itself, which evaluates all queries of one ranking; here it is all rankings
of one query. A metric says how, by its `rank_sum`; ERR and the pairwise error are no sums of this
kind. In the formulas, exact under ties (McSherry & Najork, ECIR 2008), `ranked` are the documents,
best first, `runs` the places where those of one score begin, and the end. `worth` is a document's
gain, or 1 where it is relevant.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import IntVector, Labels, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import PartitionedDataset
from owpc_ltr.errors import Refused
from owpc_ltr.kernels.kernel import query_blocks, run_blocks, sort_ascending
from owpc_ltr.metrics.metric import Metric, RankedQueries, parse_metric, uneven
from owpc_ltr.protocols import Run

T = TypeVar("T")


_DCG, _FOUND, _PRECISIONS, _FIRST = range(4)
_KINDS = {
    "discounted-gain": _DCG,
    "relevant-found": _FOUND,
    "precisions": _PRECISIONS,
    "first-relevant": _FIRST,
}

_BLOCKS = 16
_SORTED_FOR_THREADS = 100_000


class JudgedLabels(NamedTuple):
    """What a metric needs of queries in a folder of parts; their features are scored elsewhere."""

    features: Matrix
    labels: Labels
    offsets: NDArray[np.int64]
    query_importance: Vector

    @classmethod
    def of(cls, parts: PartitionedDataset) -> JudgedLabels:
        """The labels of all parts."""
        columns = parts.each(
            lambda part: (part.labels, np.diff(part.offsets), part.query_importance)
        )
        labels, sizes, importance = map(np.concatenate, zip(*columns, strict=True))
        offsets = np.append(0, np.cumsum(sizes))
        return cls(np.empty((0, parts.n_features), np.float32), labels, offsets, importance)


class Judge(Generic[T]):
    """Keeps the candidate of the best validation metric; without validation queries, the last.

    `number` counts candidates from 1; it stands still when none has been better for `patience`.
    """

    def __init__(self, run: Run, patience: int = 0) -> None:
        self.validation: RankingDataset | JudgedLabels | None = (
            JudgedLabels.of(run.validation)
            if isinstance(run.validation, PartitionedDataset)
            else run.validation
        )
        self.metric = parse_metric(run.metric)
        self.patience, self.number, self.best_number = patience, 0, 0
        self.best: T | None = None
        self.best_value = -np.inf

    def see(self, candidate: T, score: Callable[[Matrix], Vector]) -> dict[str, float]:
        """Measure a candidate by its scores of features; returns its row of the history."""
        self.number += 1
        if self.validation is None:
            self.best, self.best_number = candidate, self.number
            return {}
        scores = score(self.validation.features)
        value = self.mean_of(scores, self.validation)
        signed = value if self.metric.higher_is_better else -value
        if signed > self.best_value:
            self.best, self.best_value, self.best_number = candidate, signed, self.number
        return {"validation": value}

    def mean_of(self, scores: Vector, queries: RankingDataset | JudgedLabels) -> float:
        """The mean of the metric over the queries, weighted by their importance."""
        weights = uneven(queries.query_importance)
        if self._compiled is None or not np.isfinite(scores).all():
            return self.metric.mean(scores, queries.labels, queries.offsets, weights)
        return self.metric.average(self._compiled.at(scores), weights)

    @cached_property
    def _compiled(self) -> SteppedMetric | None:
        """The metric of the validation queries, which is measured after each of many passes."""
        data = self.validation
        if not isinstance(data, RankingDataset) or not is_compiled(self.metric):
            return None
        at_rest = self.metric.per_query(np.zeros(data.n_documents), data.labels, data.offsets)
        return SteppedMetric(self.metric, data, at_rest)

    @property
    def lost_patience(self) -> bool:
        """Whether the metric has not risen for long enough."""
        return 0 < self.patience <= self.number - self.best_number

    @property
    def verdict(self) -> str:
        """Why a fit stops that has lost patience; the name of its unit and `best_number` follow."""
        return f"validation {self.metric} has not risen since"


class MeanMetric:
    """The mean of a metric over the queries of a dataset, weighted by their importance.

    An error counts as one minus itself. Raises Refused where documents have weights, of which
    no metric knows, and where no query counts.
    """

    def __init__(self, data: RankingDataset, metric: str | Metric) -> None:
        if data.document_weights is not None:
            raise Refused(
                f"{metric} cannot weigh documents, and the data has document weights: leave them "
                "out, or use an optimizer of losses such as gradient"
            )
        self.metric, self.data = parse_metric(metric), data
        values = self.metric.per_query(np.zeros(data.n_documents), data.labels, data.offsets)
        self.counted: NDArray[np.bool_] = ~np.isnan(values) & (data.query_importance > 0)
        if not self.counted.any():
            raise Refused(f"no query counts for {metric}: give judged queries of some weight")
        importance = data.query_importance[self.counted]
        self.importance: Vector = importance / importance.sum()
        self._at_rest = values

    @cached_property
    def _stepped(self) -> SteppedMetric | None:
        if not is_compiled(self.metric):
            return None
        return SteppedMetric(self.metric, self.data, self._at_rest)

    def per_query(self, scores: Vector) -> Vector:
        """The value of each query that counts."""
        values = self.metric.per_query(scores, self.data.labels, self.data.offsets)[self.counted]
        return values if self.metric.higher_is_better else 1.0 - values

    def mean(self, scores: Vector) -> float:
        """The weighted mean."""
        return float(self.importance @ self.per_query(scores))

    def along(self, scores: Vector, direction: Vector, steps: Vector, threads: int = 1) -> Vector:
        """The weighted means at scores + step · direction, one a step."""
        finite = np.isfinite(scores).all() and np.isfinite(direction).all()
        if self._stepped is None or not finite:
            # Not all measures are compiled; and scores that cannot be ranked are refused by name.
            return np.array([self.mean(scores + step * direction) for step in steps])
        values = self._stepped.along(scores, direction, steps, threads)
        # Row by row, so that each mean is rounded as `mean` does it, and draws stay draws.
        return np.array([self.importance @ row[self.counted] for row in values])


def is_compiled(metric: Metric) -> bool:
    """Whether `SteppedMetric` takes the metric."""
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
        rank_sum = metric.rank_sum(queries)
        if rank_sum is None:
            raise ValueError(f"{metric} is not compiled: ask is_compiled first")
        longest = int(queries.lengths.max(initial=0))
        cutoff = longest if rank_sum.cutoff is None else min(rank_sum.cutoff, longest)
        self.conventions = (_KINDS[rank_sum.kind], metric.ties == "expected", cutoff)
        self.worth, self.whole, self.places = (
            rank_sum.worth,
            rank_sum.whole.copy(),
            rank_sum.discounts,
        )
        self.running = np.concatenate([[0.0], np.cumsum(self.places)])
        if metric.short == "zero" and metric.cutoff is not None:
            self.whole[queries.lengths < metric.cutoff] = 0.0

    def at(self, scores: Vector) -> Vector:
        """The value of each query at these scores, all finite."""
        scores = np.asarray(scores, dtype=np.float64)
        values: Vector = self.along(scores, np.zeros_like(scores), np.zeros(1))[0]
        return values

    def along(self, scores: Vector, direction: Vector, steps: Vector, threads: int = 1) -> Vector:
        """Values at scores + step · direction, all finite: one row a step, one column a query."""
        values = np.repeat(self.at_rest[None, :], len(steps), axis=0)
        cuts = query_blocks(self.offsets, _BLOCKS)

        def block(index: int) -> None:
            line = scores, direction, steps
            queries = self.worth, self.whole, self.offsets
            block_of = cuts[index], cuts[index + 1]
            _evaluate(
                self.conventions, (self.places, self.running), line, queries, block_of, values
            )

        worthwhile = len(scores) * len(steps) >= _SORTED_FOR_THREADS
        run_blocks(block, len(cuts) - 1, threads if worthwhile else 1)
        return values


@compiled
def _evaluate(
    conventions: tuple[int, bool, int],
    tables: tuple[Vector, Vector],
    line: tuple[Vector, Vector, Vector],
    queries: tuple[Vector, Vector, IntVector],
    block: tuple[int, int],
    values: NDArray[np.float64],
) -> None:
    """Write the values of a block of queries, where the measure is defined, at all steps.

    `line` is scores, direction and steps; `queries` are worth, whole and offsets.
    """
    kind, merge_ties, cutoff = conventions
    scores, direction, steps = line
    worth, whole, offsets = queries
    first, last = block
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
            cuts = runs[: _cut_into_runs(merge_ties, key, ranked, runs)]
            if kind == _DCG:
                total = _discounted_gain(own, ranked, cuts, cutoff, tables)
            elif kind == _FOUND:
                total = _relevant_found(own, ranked, cuts, cutoff)
            elif kind == _PRECISIONS:
                total = _sum_of_precisions(own, ranked, cuts, cutoff, tables)
            else:
                total = _reciprocal_of_first(own, ranked, cuts, cutoff)
            values[k, query] = total / whole[query]


@compiled
def _cut_into_runs(merge: bool, keys: Vector, ranked: IntVector, runs: IntVector) -> int:
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
def _run_sum(worth: Vector, ranked: IntVector, first: int, last: int) -> float:
    total = 0.0
    for place in range(first, last):
        total += worth[ranked[place]]
    return total


@compiled
def _discounted_gain(
    gain: Vector, ranked: IntVector, runs: IntVector, cutoff: int, tables: tuple[Vector, Vector]
) -> float:
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
def _relevant_found(relevant: Vector, ranked: IntVector, runs: IntVector, cutoff: int) -> float:
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
def _sum_of_precisions(
    relevant: Vector, ranked: IntVector, runs: IntVector, cutoff: int, tables: tuple[Vector, Vector]
) -> float:
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
def _reciprocal_of_first(
    relevant: Vector, ranked: IntVector, runs: IntVector, cutoff: int
) -> float:
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
