"""Precision: the share of relevant documents among the first, exact under tied scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.metrics import Metric, RankedQueries, RankSum
from owpc_ltr.metrics.metric import cutoff_words, divide_defined, relevant_found, relevant_words


@dataclass(frozen=True)
class Precision(Metric):
    """relevant documents among the first `cutoff`, over `cutoff`, however short the list is.

    A document is relevant if its label is above `relevant_above`.
    """

    name: ClassVar[str] = "precision"
    cutoff_use: ClassVar[Literal["needed", "optional", "none"]] = "needed"

    cutoff: int | None = 10
    relevant_above: float = 0.0

    def values(self, queries: RankedQueries) -> Vector:
        """The share of the first ranks that relevant documents hold."""
        relevant = relevant_found(queries, self.ties, self.relevant_above, self.cutoff)
        return divide_defined(relevant, self._ranks(queries))

    @property
    def meaning(self) -> str:
        """Which documents are relevant, and over what they are counted."""
        relevant, within = relevant_words(self.relevant_above), cutoff_words(self.cutoff)
        return f"relevant documents {relevant}{within}, over {self.cutoff}"

    def rank_sum(self, queries: RankedQueries) -> RankSum:
        """The relevant documents found, over the cutoff."""
        return RankSum.of_relevant(
            "relevant-found", queries, self.relevant_above, self._ranks(queries), self.cutoff
        )

    def _ranks(self, queries: RankedQueries) -> Vector:
        """How many ranks count in each query: none where nothing is relevant."""
        defined = queries.n_relevant(self.relevant_above) > 0
        return np.where(defined, float(self.cutoff or 0), 0.0)


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric precision@10`."""
    return [Precision]
