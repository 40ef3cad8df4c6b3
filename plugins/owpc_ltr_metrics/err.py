"""Expected reciprocal rank, exact under tied scores (Chapelle et al., CIKM 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import UsageError
from owpc_ltr.metrics import Metric, RankedQueries
from owpc_ltr.metrics.metric import (
    Ranking,
    check_scale,
    counts_by_query,
    cutoff_words,
    rectangles,
    sums_by_query,
)

_NEGLIGIBLE = 1e-18
_LARGEST_GRADE = 50.0


@dataclass(frozen=True)
class ExpectedReciprocalRank(Metric):
    """E[1/rank] of the document that stops a reader, each with p = (2^label − 1)/2^max_grade.

    `max_grade` is the top of the scale; labels above it are refused.
    """

    name: ClassVar[str] = "err"

    max_grade: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.max_grade <= _LARGEST_GRADE:
            raise UsageError(
                f"'err' cannot take max-grade={self.max_grade}: it must lie between 0 and "
                f"{_LARGEST_GRADE:g}"
            )

    @property
    def graded(self) -> bool:
        """Whether every grade counts."""
        return True

    def values(self, queries: RankedQueries) -> Vector:
        """The sum over runs of the chance to get there, times what the run is worth."""
        ranking = queries.ranking(self.ties).head(self.cutoff)
        stop = self._stop_probabilities(ranking.labels)
        # A run's documents all stand below those of the runs before it, in whatever order.
        reached = _survival_above(stop, ranking, queries.n_queries)[ranking.first]
        contributions = reached * _run_reciprocals(stop, ranking, self.cutoff)
        values = sums_by_query(ranking.query, contributions, queries.n_queries)
        values[counts_by_query(queries.labels > 0, queries.offsets) == 0] = np.nan
        return values

    @property
    def meaning(self) -> str:
        """What stops a reader."""
        stop, within = f"(2^label − 1)/2^{self.max_grade:g}", cutoff_words(self.cutoff)
        return f"expected 1/rank of the document that stops a reader, each with {stop}{within}"

    def _stop_probabilities(self, labels: Labels) -> Vector:
        check_scale(labels, self.max_grade, self)
        stop: Vector = (np.exp2(labels.astype(np.float64)) - 1.0) / np.exp2(self.max_grade)
        return stop


def _survival_above(stop: Vector, ranking: Ranking, n_queries: int) -> Vector:
    """The probability that a reader gets past all documents above each document."""
    survival = np.ones(len(stop))
    lengths = np.bincount(ranking.query, weights=ranking.size, minlength=n_queries)
    lengths = lengths.astype(np.int64)
    for _, positions in rectangles(np.cumsum(lengths) - lengths, lengths):
        survival[positions[:, 1:]] = np.cumprod(1.0 - stop[positions[:, :-1]], axis=1)
    return survival


def _run_reciprocals(stop: Vector, ranking: Ranking, cutoff: int | None) -> Vector:
    """E[1/rank] of the stopping document of each run, given that the reader gets there."""
    totals = ranking.run_sums(stop)
    values: Vector = totals / (ranking.above + 1.0)
    tied = np.flatnonzero((ranking.size > 1) & (totals > 0))
    if len(tied):
        last = np.iinfo(np.int64).max if cutoff is None else cutoff
        values[tied] = _means_over_orders(
            stop, ranking.first[tied], ranking.size[tied], ranking.above[tied], last
        )
    return values


@compiled
def _means_over_orders(
    stop: Vector, first: IntVector, size: IntVector, above: IntVector, last: int
) -> Vector:
    """Of each run, the mean over all its orders of Σ_j 1/(above + j) P(the j-th stops the reader).

    With E_j the mean over all j-subsets of the product of 1 − p, the j-th stops the reader with
    probability E_{j−1} − E_j. Nothing counts below rank `last`.
    """
    values = np.zeros(len(first))
    for run in range(len(first)):
        n = size[run]
        run_stop = stop[first[run] : first[run] + n]
        # Maclaurin: E_j ≤ E_1^j, so places beyond this width cannot be seen in a float.
        weakest = 1.0 - run_stop.mean()
        width = min(n, last - above[run])
        if 0.0 < weakest < 1.0:
            width = min(width, int(np.log(_NEGLIGIBLE) / np.log(weakest)) + 1)
        means = _subset_means(run_stop, width)
        for j in range(1, width + 1):
            values[run] += (means[j - 1] - means[j]) / (above[run] + j)
    return values


@compiled
def _subset_means(stop: Vector, width: int) -> Vector:
    """E_0 … E_width: the mean over all j-subsets of the product of 1 − p.

    One more factor q among n others: E_j ← ((n + 1 − j) E_j + j q E_{j−1})/(n + 1), a mean of
    positive numbers. Factors of 1 leave E_j = 1, so only documents that can stop count.
    """
    means = np.ones(width + 1)
    n = np.sum(stop == 0.0)
    for p in stop:
        if p > 0.0:
            n += 1
            for j in range(width, 0, -1):
                taken = min(j, n) / n
                means[j] = (1.0 - taken) * means[j] + taken * (1.0 - p) * means[j - 1]
    return means


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric err`."""
    return [ExpectedReciprocalRank]
