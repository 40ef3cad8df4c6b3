"""Mean reciprocal rank (Burges 2006, section 2), exact under tied scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Vector
from owpc_ltr.metrics import Metric, RankedQueries, RankSum
from owpc_ltr.metrics.metric import (
    cutoff_words,
    rectangles,
    relevant_of_runs,
    relevant_words,
)


@dataclass(frozen=True)
class ReciprocalRank(Metric):
    """one over the rank of the first relevant document.

    A document is relevant if its label is above `relevant_above`. With a cutoff, a query whose
    first relevant document is beyond it counts 0.
    """

    name: ClassVar[str] = "mrr"

    relevant_above: float = 0.0

    def values(self, queries: RankedQueries) -> Vector:
        """1/rank, in expectation over the first run that holds relevant documents."""
        ranking = queries.ranking(self.ties).head(self.cutoff)
        relevant = relevant_of_runs(ranking, self.relevant_above)
        hits = np.flatnonzero(relevant)
        first = hits[np.flatnonzero(np.diff(ranking.query[hits], prepend=-1))]
        r, t, a = relevant[first], ranking.size[first], ranking.above[first]
        values = np.where(queries.n_relevant(self.relevant_above) > 0, 0.0, np.nan)
        values[ranking.query[first]] = _expected_reciprocal(r, t, a, self.cutoff)
        return values

    @property
    def meaning(self) -> str:
        """Which documents are relevant."""
        relevant, within = relevant_words(self.relevant_above), cutoff_words(self.cutoff)
        return f"1/rank of the first relevant document {relevant}{within}"

    def rank_sum(self, queries: RankedQueries) -> RankSum:
        """One over the first rank."""
        whole = (queries.n_relevant(self.relevant_above) > 0).astype(np.float64)
        return RankSum.of_relevant(
            "first-relevant", queries, self.relevant_above, whole, self.cutoff
        )


def _expected_reciprocal(r: IntVector, t: IntVector, a: IntVector, cutoff: int | None) -> Vector:
    """E[1/(a + J)], J the first of r relevant places among t in random order.

    P(J > j) = Π_{i<j} (t − r − i)/(t − i); places beyond the cutoff count 0.
    """
    values = np.asarray(1.0 / (a + 1), dtype=np.float64)
    mixed = np.flatnonzero(r < t)
    for rows, positions in rectangles(np.zeros(len(mixed), dtype=np.int64), t[mixed]):
        runs = mixed[rows]
        above, relevant, size = a[runs, None], r[runs, None], t[runs, None]
        left = size - positions
        survival = np.cumprod(np.maximum(left - relevant, 0) / left, axis=1)
        before = np.concatenate([np.ones((len(rows), 1)), survival[:, :-1]], axis=1)
        rank = above + positions + 1
        counted = 1.0 / rank if cutoff is None else (rank <= cutoff) / rank
        values[runs] = (before * (relevant / left) * counted).sum(axis=1)
    return values


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric mrr`."""
    return [ReciprocalRank]
