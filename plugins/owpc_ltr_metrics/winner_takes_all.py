"""Winner takes all: whether the top document is relevant; one minus the cost of Burges (2006)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.metrics import Metric, RankedQueries, RankSum
from owpc_ltr.metrics.metric import divide_defined, relevant_found, relevant_words


@dataclass(frozen=True)
class WinnerTakesAll(Metric):
    """1 where the top document is relevant (its label is above `relevant_above`), else 0."""

    name: ClassVar[str] = "winner-takes-all"
    cutoff_use: ClassVar[Literal["needed", "optional", "none"]] = "none"

    relevant_above: float = 0.0

    def values(self, queries: RankedQueries) -> Vector:
        """How many of the documents at rank 1, one a query, are relevant."""
        relevant = relevant_found(queries, self.ties, self.relevant_above, 1)
        return divide_defined(relevant, queries.n_relevant(self.relevant_above) > 0)

    @property
    def meaning(self) -> str:
        """Which documents are relevant."""
        return f"1 where the top document is relevant {relevant_words(self.relevant_above)}, else 0"

    def rank_sum(self, queries: RankedQueries) -> RankSum:
        """The relevant documents at rank 1."""
        whole = (queries.n_relevant(self.relevant_above) > 0).astype(np.float64)
        return RankSum.of_relevant("relevant-found", queries, self.relevant_above, whole, 1)


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric winner-takes-all`."""
    return [WinnerTakesAll]
