"""Rank-biased precision (Moffat & Zobel, TOIS 2008), exact under tied scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.metrics import Metric, RankedQueries, RankSum
from owpc_ltr.metrics.metric import (
    check_scale,
    counts_by_query,
    cutoff_words,
    discounted_gain,
    divide_defined,
    gain_words,
    gains,
    relevant_words,
)

_LARGEST_GRADE = 50.0


@dataclass(frozen=True)
class RankBiasedPrecision(Metric):
    """(1 − p) Σ_rank p^(rank−1) gain: what a reader gets who goes on with probability p.

    p is `persistence`; 0 looks at the top document alone. `gain` is 1 for a relevant document,
    whose label is above `relevant_above` (binary), or a share of what the top grade is worth:
    label/max_grade (linear), (2^label − 1)/(2^max_grade − 1) (exponential). The divisor is
    that of an endless list, so that values do not depend on how many relevant documents there
    are: a perfect list of n documents gets 1 − p^n. What lies beyond n ranks could add at most
    the residual p^n. Queries without any gain count as `empty` says; the paper's 0 by default.
    """

    name: ClassVar[str] = "rbp"

    persistence: float = 0.8
    gain: Literal["binary", "linear", "exponential"] = "binary"
    relevant_above: float = 0.0
    max_grade: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.persistence < 1:
            raise UsageError(
                f"'rbp' cannot take persistence={self.persistence}: it must be 0 or more, below 1"
            )
        if not 0 < self.max_grade <= _LARGEST_GRADE:
            raise UsageError(
                f"'rbp' cannot take max-grade={self.max_grade}: it must lie between 0 and "
                f"{_LARGEST_GRADE:g}"
            )
        idle = "max_grade" if self.gain == "binary" else "relevant_above"
        if getattr(self, idle) != getattr(type(self), idle):
            raise UsageError(
                f"'rbp' has no use for {idle.replace('_', '-')}={getattr(self, idle):g} where "
                f"gain={self.gain}: leave it out, or choose another gain"
            )

    @property
    def graded(self) -> bool:
        """Whether every grade counts."""
        return self.gain != "binary"

    def values(self, queries: RankedQueries) -> Vector:
        """The discounted gains, over the sum of all discounts of an endless list."""
        ranking = queries.ranking(self.ties)
        gained = discounted_gain(
            ranking, queries.n_queries, self.cutoff, self._gains, self._discounts
        )
        return divide_defined(gained, self._whole(queries))

    @property
    def meaning(self) -> str:
        """The persistence and the gain."""
        return (
            f"gain {self._gain_in_words}, discount {self.persistence:g}^(rank − 1)"
            f"{cutoff_words(self.cutoff)}, times 1 − {self.persistence:g}"
        )

    def rank_sum(self, queries: RankedQueries) -> RankSum:
        """The gains, over the discounts of an endless list."""
        worth, whole = self._gains(queries.labels), self._whole(queries)
        discounts = self._discounts(int(queries.lengths.max(initial=0)))
        return RankSum("discounted-gain", worth, whole, discounts, self.cutoff)

    def _whole(self, queries: RankedQueries) -> Vector:
        least = self.relevant_above if self.gain == "binary" else 0.0
        defined = counts_by_query(queries.labels > least, queries.offsets) > 0
        return defined / (1.0 - self.persistence)

    def _gains(self, labels: Labels) -> Vector:
        if self.gain == "binary":
            return (labels > self.relevant_above).astype(np.float64)
        check_scale(labels, self.max_grade, self)
        return gains(labels, self.gain, self) / self._top

    def _discounts(self, n_ranks: int) -> Vector:
        discounts: Vector = self.persistence ** np.arange(n_ranks, dtype=np.float64)
        return discounts

    @property
    def _top(self) -> float:
        """What the top grade is worth."""
        exponential = self.gain == "exponential"
        return 2.0**self.max_grade - 1.0 if exponential else self.max_grade

    @property
    def _gain_in_words(self) -> str:
        if self.gain == "binary":
            return f"1 where relevant {relevant_words(self.relevant_above)}"
        if self.gain == "linear":
            return f"label/{self.max_grade:g}"
        return f"({gain_words(self.gain)})/(2^{self.max_grade:g} − 1)"


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric rbp` and `--metric rbp@10,persistence=.9`."""
    return [RankBiasedPrecision]
