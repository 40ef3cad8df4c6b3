"""Contest: rankers measured on the same queries, and what is known of their differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.bootstrap import bca_interval
from owpc_ltr.evaluation.comparing.figures import ComparedPair, PoweredPair
from owpc_ltr.evaluation.verdict import LEVEL


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


@dataclass(frozen=True, eq=False)
class Contest:
    """Rankers on the same queries: the new one first, and the baseline it is compared with.

    `pairs` are by both rankers' short names, as the one sees it that stands first; `powered` those
    with human and proxy labels.
    """

    measures: tuple[Measure, ...]
    contestants: tuple[Contestant, ...]
    pairs: tuple[ComparedPair, ...]
    baseline: str | None
    query_ids: tuple[str, ...]
    query_texts: tuple[str, ...]
    queries_in_words: str
    weighted: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    powered: tuple[PoweredPair, ...] = ()

    @property
    def new(self) -> Contestant:
        """The ranker that the page is about."""
        return self.contestants[0]

    @property
    def main_pairs(self) -> tuple[ComparedPair, ...]:
        """The new ranker against the baseline, by each metric."""
        return tuple(one for one in self.pairs if (one.a, one.b) == (self.new.name, self.baseline))

    @property
    def main_powered(self) -> tuple[PoweredPair, ...]:
        """The same with human and proxy labels."""
        return tuple(
            one for one in self.powered if (one.a, one.b) == (self.new.name, self.baseline)
        )

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
