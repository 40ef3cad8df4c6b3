"""Recall: how many of the relevant documents are among the first, exact under tied scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.metrics import Metric, RankedQueries, RankSum
from owpc_ltr.metrics.metric import cutoff_words, divide_defined, relevant_found, relevant_words


@dataclass(frozen=True)
class Recall(Metric):
    """relevant documents among the first `cutoff`, over all relevant documents.

    A document is relevant if its label is above `relevant_above`.
    """

    name: ClassVar[str] = "recall"
    cutoff_use: ClassVar[Literal["needed", "optional", "none"]] = "needed"

    cutoff: int | None = 10
    relevant_above: float = 0.0

    def values(self, queries: RankedQueries) -> Vector:
        """The share of the relevant documents that the first ranks hold."""
        relevant = relevant_found(queries, self.ties, self.relevant_above, self.cutoff)
        return divide_defined(relevant, queries.n_relevant(self.relevant_above))

    @property
    def meaning(self) -> str:
        """Which documents are relevant."""
        relevant, within = relevant_words(self.relevant_above), cutoff_words(self.cutoff)
        return f"relevant documents {relevant}{within}, over all relevant ones"

    def rank_sum(self, queries: RankedQueries) -> RankSum:
        """The relevant documents found, over all of them."""
        whole = queries.n_relevant(self.relevant_above).astype(np.float64)
        return RankSum.of_relevant(
            "relevant-found", queries, self.relevant_above, whole, self.cutoff
        )


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric recall@10`."""
    return [Recall]
