"""Expected reciprocal rank, exact under tied scores (Chapelle et al., CIKM 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.metrics import Metric, RankedQueries
from owpc_ltr.metrics.conventions import check_scale, cutoff_words
from owpc_ltr.metrics.ragged import IntVector, counts_by_query, rectangles, sums_by_query
from owpc_ltr.metrics.ranking import Ranking

Table = NDArray[np.float64]
"""One row a run, one column a place."""

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
    for rows, positions in rectangles(ranking.first[tied], ranking.size[tied]):
        runs = tied[rows]
        probabilities = -np.sort(-stop[positions], axis=1)
        values[runs] = _mean_over_orders(probabilities, ranking.above[runs], cutoff)
    return values


def _mean_over_orders(stop: Table, above: IntVector, cutoff: int | None) -> Vector:
    """Mean over all orders of a run of Σ_j 1/(above + j) P(the j-th stops the reader).

    With E_j the mean over all j-subsets of the product of 1 − p, the j-th stops the reader with
    probability E_{j−1} − E_j. `stop` has a run a line, its probabilities in decreasing order.
    """
    size = stop.shape[1]
    # Maclaurin: E_j ≤ E_1^j, so places beyond this width cannot be seen in a float.
    weakest = float((1.0 - stop.mean(axis=1)).max())
    seen = int(np.log(_NEGLIGIBLE) / np.log(weakest)) + 1 if 0 < weakest < 1 else size
    width = min(size, seen, size if cutoff is None else cutoff)
    means = _subset_means(stop, width)
    rank = above[:, None] + np.arange(1, width + 1)
    counted = 1.0 / rank if cutoff is None else (rank <= cutoff) / rank
    total: Vector = ((means[:, :-1] - means[:, 1:]) * counted).sum(axis=1)
    return total


def _subset_means(stop: Table, width: int) -> Table:
    """E_0 … E_width of each line: the mean over all j-subsets of the product of 1 − p.

    One more factor q among n others: E_j ← ((n + 1 − j) E_j + j q E_{j−1})/(n + 1), a mean of
    positive numbers. Factors of 1 leave E_j = 1, so only documents that can stop count.
    """
    size = stop.shape[1]
    stopping = int((stop > 0).sum(axis=1).max(initial=0))
    means = np.ones((len(stop), width + 1))
    subset = np.arange(1, width + 1)
    for column in range(stopping):
        n = size - stopping + column + 1
        taken = np.minimum(subset, n) / n
        with_it = taken * (1.0 - stop[:, column, None]) * means[:, :-1]
        means[:, 1:] = (1.0 - taken) * means[:, 1:] + with_it
    return means


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric err`."""
    return [ExpectedReciprocalRank]
