"""Normalised discounted cumulative gain (Järvelin & Kekäläinen 2002), exact under tied scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.metrics import Metric, RankedQueries, RankSum
from owpc_ltr.metrics.metric import (
    Gain,
    Ranking,
    cutoff_words,
    discounted_gain,
    divide_defined,
    gain_words,
    gains,
)

Discount = Literal["log2", "letor"]


@dataclass(frozen=True)
class NDCG(Metric):
    """Σ gain(label) · discount(rank), over that of the ideal order.

    `gain` is 2^label − 1 (exponential) or the label (linear). `discount` is 1/log2(1 + rank), or
    LETOR's, which is 1 at ranks 1 and 2, then 1/log2(rank); `ndcg-letor` is the latter's name.
    """

    name: ClassVar[str] = "ndcg"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"letor": {"discount": "letor"}}

    gain: Gain = "exponential"
    discount: Discount = "log2"

    @property
    def graded(self) -> bool:
        """Whether every grade counts."""
        return True

    def values(self, queries: RankedQueries) -> Vector:
        """Discounted gain over that of the best order."""
        gained = self._dcg(queries.ranking(self.ties), queries.n_queries)
        return divide_defined(gained, self._dcg(queries.ideal, queries.n_queries))

    @property
    def meaning(self) -> str:
        """The gain and the discount."""
        discount = {
            "log2": "1/log2(1 + rank)",
            "letor": "1 at ranks 1 and 2, then 1/log2(rank) (LETOR)",
        }[self.discount]
        within = cutoff_words(self.cutoff)
        return f"gain {gain_words(self.gain)}, discount {discount}{within}, over the ideal order's"

    def rank_sum(self, queries: RankedQueries) -> RankSum:
        """The gains, over the ideal order's sum."""
        whole = self._dcg(queries.ideal, queries.n_queries)
        discounts = self._discounts(int(queries.lengths.max(initial=0)))
        return RankSum(
            "discounted-gain", self._gains(queries.labels), whole, discounts, self.cutoff
        )

    def _dcg(self, ranking: Ranking, n_queries: int) -> Vector:
        return discounted_gain(ranking, n_queries, self.cutoff, self._gains, self._discounts)

    def _gains(self, labels: Labels) -> Vector:
        return gains(labels, self.gain, self)

    def _discounts(self, n_ranks: int) -> Vector:
        ranks = np.arange(1, n_ranks + 1)
        if self.discount == "letor":
            ranks = np.maximum(ranks, 2) - 1
        discount: Vector = 1.0 / np.log2(1.0 + ranks)
        return discount


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric ndcg@10` and `--metric ndcg-letor@10`."""
    return [NDCG]
