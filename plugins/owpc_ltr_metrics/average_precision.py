"""Mean average precision, exact under tied scores (McSherry & Najork 2008)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Vector
from owpc_ltr.metrics import Metric, RankedQueries, RankSum
from owpc_ltr.metrics.metric import (
    cutoff_words,
    divide_defined,
    relevant_of_runs,
    relevant_words,
    sums_by_query,
    within,
)


@dataclass(frozen=True)
class AveragePrecision(Metric):
    """mean over the relevant documents of the precision at their ranks.

    A document is relevant if its label is above `relevant_above`. With a cutoff, relevant
    documents beyond it count 0.
    """

    name: ClassVar[str] = "map"

    relevant_above: float = 0.0

    def values(self, queries: RankedQueries) -> Vector:
        """Precision summed over relevant documents, over all relevant ones.

        In a run of t with r relevant documents, below a others with b relevant, rank a + j holds
        a relevant one with probability r/t, and then (j − 1)(r − 1)/(t − 1) relevant ones are
        expected above it in the run. The sum over j is closed by harmonic numbers.
        """
        ranking = queries.ranking(self.ties).head(self.cutoff)
        relevant = relevant_of_runs(ranking, self.relevant_above)
        hits = np.flatnonzero(relevant)
        r, t, a = relevant[hits], ranking.size[hits], ranking.above[hits]
        query = ranking.query[hits]
        b = _sums_above(r, query, queries.n_queries)
        n = within(a, t, self.cutoff)
        reciprocals = _sum_of_reciprocals(a, n)
        expected_above = (r - 1) / np.maximum(t - 1, 1) * (n - (a + 1) * reciprocals)
        precisions = r / t * ((b + 1) * reciprocals + expected_above)
        total = sums_by_query(query, precisions, queries.n_queries)
        return divide_defined(total, queries.n_relevant(self.relevant_above))

    @property
    def meaning(self) -> str:
        """Which documents are relevant."""
        relevant, within_ranks = relevant_words(self.relevant_above), cutoff_words(self.cutoff)
        return (
            f"precision at each relevant document {relevant}{within_ranks}, over all relevant ones"
        )

    def rank_sum(self, queries: RankedQueries) -> RankSum:
        """The precisions, over the number of relevant documents."""
        whole = queries.n_relevant(self.relevant_above).astype(np.float64)
        return RankSum.of_relevant("precisions", queries, self.relevant_above, whole, self.cutoff)


def _sums_above(counts: IntVector, query: IntVector, n_queries: int) -> IntVector:
    """The sum of the counts of the same query that come before each entry."""
    running = np.cumsum(counts) - counts
    starts = np.searchsorted(query, np.arange(n_queries))
    base = np.append(running, 0)[starts]
    above: IntVector = running - base[query]
    return above


def _sum_of_reciprocals(above: IntVector, n: IntVector) -> Vector:
    """1/(above + 1) + … + 1/(above + n); for one place without a difference of sums."""
    longest = int((above + n).max(initial=0))
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1.0, longest + 1.0))])
    return np.where(n == 1, 1.0 / (above + 1.0), harmonic[above + n] - harmonic[above])


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric map`."""
    return [AveragePrecision]
