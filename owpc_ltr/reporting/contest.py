"""Contest: rankers measured on the same queries, and what is known of their differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.bootstrap import bca_interval
from owpc_ltr.evaluation.significance import Comparison
from owpc_ltr.evaluation.verdict import LEVEL

Outcome = Literal["better", "not shown", "worse"]


@dataclass(frozen=True)
class Measure:
    """A metric: its name, its convention in words, and which values are good."""

    name: str
    convention: str
    higher_is_better: bool = True
    ends: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Contestant:
    """A ranker: by metric its value for each query, its mean, and the mean's 95 % interval."""

    name: str
    per_query: dict[str, Vector]
    means: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    unjudged: dict[str, float] | None = None


@dataclass(frozen=True)
class Duel:
    """A new ranker `a` against `b` by one metric; `p` is corrected for all duels of the contest."""

    a: str
    b: str
    measure: Measure
    comparison: Comparison
    p: float
    shown_from: float | None = None
    """The smallest difference that would have been shown with the same spread, where known."""

    @property
    def outcome(self) -> Outcome:
        """What may be said: `better` and `worse` need the interval and the corrected p."""
        low, high = self.gain_interval
        if self.p < LEVEL and low > 0:
            return "better"
        if self.p < LEVEL and high < 0:
            return "worse"
        return "not shown"

    @property
    def gain(self) -> float:
        """How much better `a` is in the mean: a smaller error is a gain."""
        return self._sign * self.comparison.mean_difference

    @property
    def gain_interval(self) -> tuple[float, float]:
        """The 95 % interval of the gain."""
        ends = self._sign * self.comparison.low, self._sign * self.comparison.high
        return min(ends), max(ends)

    @property
    def better_queries(self) -> int:
        """How many queries `a` ranks better."""
        found = self.comparison
        return found.wins if self.measure.higher_is_better else found.losses

    @property
    def worse_queries(self) -> int:
        """How many queries `a` ranks worse."""
        found = self.comparison
        return found.losses if self.measure.higher_is_better else found.wins

    @property
    def _sign(self) -> float:
        return 1.0 if self.measure.higher_is_better else -1.0


@dataclass(frozen=True, eq=False)
class Contest:
    """Rankers on the same queries: the new one first, and the baseline it is compared with.

    `seen` says whether the new ranker learned from these queries, or whether nobody can tell.
    """

    measures: tuple[Measure, ...]
    contestants: tuple[Contestant, ...]
    duels: tuple[Duel, ...]
    baseline: str | None
    query_ids: tuple[str, ...]
    query_texts: tuple[str, ...]
    queries_in_words: str
    seen: bool
    corrected_over: int
    weighted: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def new(self) -> Contestant:
        """The ranker that the page is about."""
        return self.contestants[0]

    @property
    def main_duels(self) -> tuple[Duel, ...]:
        """The new ranker against the baseline, by each metric."""
        return self.duels_of(self.new.name, self.baseline)

    def duels_of(self, a: str, b: str | None) -> tuple[Duel, ...]:
        """Those of two rankers."""
        return tuple(duel for duel in self.duels if (duel.a, duel.b) == (a, b))

    def contestant(self, name: str) -> Contestant:
        """The ranker of this name."""
        return next(one for one in self.contestants if one.name == name)


def mean_interval(
    values: Vector, weights: Vector | None = None, seed: int = 0
) -> tuple[float, float]:
    """The 95 % interval of the mean over the queries that count."""
    counted = np.isfinite(values)
    if counted.sum() < 2:
        only = float(values[counted].mean()) if counted.any() else float("nan")
        return only, only
    of_queries = None if weights is None else weights[counted]
    random = np.random.default_rng(seed)
    return bca_interval(values[counted], of_queries, LEVEL, 10_000, random)
