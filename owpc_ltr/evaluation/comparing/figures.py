"""What a comparison of rankers holds: each ranker's means, each pair's difference, and of what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.evaluate import Measured
from owpc_ltr.evaluation.prediction_powered import PredictionPowered
from owpc_ltr.evaluation.significance import Comparison
from owpc_ltr.evaluation.verdict import LEVEL, Doubt, Outcome, Verdict, over_metrics
from owpc_ltr.metrics import Metric


@dataclass(frozen=True)
class MeanInterval:
    """A mean over queries, and the 95 % BCa bootstrap interval of it."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ComparedRanker:
    """One ranker: each metric's value of every query, its mean by the metric's text, its warnings.

    `unjudged` is the mean share of unjudged documents among those that each metric looks at, by
    its text; None for a ranker that is shown judged documents alone.
    """

    name: str
    measured: tuple[Measured, ...] = field(repr=False)
    means: Mapping[str, MeanInterval]
    unjudged: Mapping[str, float] | None = None
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "name": self.name,
            "metrics": [
                {
                    **one.as_dict(),
                    "zero_score_baseline": _known(one.zero_baseline),
                    "low": self.means[str(one.metric)].low,
                    "high": self.means[str(one.metric)].high,
                    "unjudged": None if self.unjudged is None else self.unjudged[str(one.metric)],
                }
                for one in self.measured
            ],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class _Pair:
    """Two rankers by one metric; differences are a − b."""

    a: str
    b: str
    metric: str

    @property
    def verdict(self) -> Verdict:
        """The verdict on ranker a."""
        raise NotImplementedError

    @property
    def better(self) -> str | None:
        """The better ranker; None without a difference, or where nobody can tell."""
        return {Outcome.BETTER: self.a, Outcome.WORSE: self.b}.get(self.verdict.outcome)

    def _as_dict(self, figures: Mapping[str, Any], p_holm: float) -> dict[str, Any]:
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            **figures,
            "p_holm": p_holm,
            "verdict": self.verdict.as_dict(),
            "better": self.better,
        }


@dataclass(frozen=True)
class ComparedPair(_Pair):
    """Two rankers by one metric; differences are a − b.

    `p_holm` is the permutation test's p, corrected over all comparisons of the result (Holm 1979).
    `doubts` are those about the judgments; the sample's own are the comparison's.
    """

    comparison: Comparison
    p_holm: float
    higher_is_better: bool = True
    doubts: tuple[Doubt, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on ranker a."""
        higher = self.higher_is_better
        return self.comparison.verdict(self.p_holm, self.doubts, higher_is_better=higher)

    @property
    def at_the_border(self) -> bool:
        """Whether interval and corrected test disagree: one of them alone shows a difference."""
        one = self.comparison
        return (self.p_holm < LEVEL) != (one.low > 0 or one.high < 0)

    @property
    def gained(self) -> int:
        """How many queries a ranks better than b."""
        return self.comparison.wins if self.higher_is_better else self.comparison.losses

    @property
    def lost(self) -> int:
        """How many queries a ranks worse than b."""
        return self.comparison.losses if self.higher_is_better else self.comparison.wins

    def reversed(self) -> ComparedPair:
        """The same pair as b sees it."""
        return replace(self, a=self.b, b=self.a, comparison=self.comparison.reversed())

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return self._as_dict(self.comparison.as_dict(), self.p_holm)


@dataclass(frozen=True)
class PoweredPair(_Pair):
    """Two rankers by one metric, by human labels of a sample and proxy labels of all queries.

    Differences are a − b. `p_holm` is corrected over all such pairs of the result (Holm 1979).
    """

    found: PredictionPowered
    p_holm: float
    higher_is_better: bool = True
    doubts: tuple[Doubt, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on ranker a."""
        higher = self.higher_is_better
        return self.found.verdict(self.p_holm, self.doubts, higher_is_better=higher)

    def reversed(self) -> PoweredPair:
        """The same pair as b sees it."""
        return replace(self, a=self.b, b=self.a, found=self.found.reversed())

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON; `decided` is of the pair alone, `verdict` corrected."""
        return self._as_dict(self.found.as_dict(), self.p_holm)


_P = TypeVar("_P", ComparedPair, PoweredPair)


@dataclass(frozen=True, eq=False, repr=False)
class Figures:
    """Every figure of a comparison; see `RankerComparison`, which knows what to do with them."""

    rankers: tuple[ComparedRanker, ...]
    metrics: tuple[Metric, ...]
    pairs: tuple[ComparedPair, ...]
    query_ids: pa.StringArray
    query_texts: pa.StringArray | None
    n_queries: int
    side: str
    weighted: bool
    unjudged: str
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    baseline: str | None = None
    importance: Vector | None = None
    powered: tuple[PoweredPair, ...] = ()

    @property
    def headline(self) -> tuple[str, str]:
        """The best ranker by the first metric but the one it is held against, and that one.

        That is the baseline, or who was named first; without a baseline, the best of all stands
        first, against the next best where it was named first itself.
        """
        first = self.metrics[0]
        sign = -1.0 if first.higher_is_better else 1.0
        ordered = sorted(self.rankers, key=lambda one: sign * one.means[str(first)].mean)
        names = [one.name for one in ordered]
        if self.baseline is not None:
            return next(name for name in names if name != self.baseline), self.baseline
        other = self.rankers[0].name
        return names[0], names[1] if other == names[0] else other

    def verdicts(self, a: str, b: str) -> dict[str, Verdict]:
        """The verdicts on ranker a against b by metric, with human and proxy labels if there are.

        Empty where the two were not compared.
        """
        every: Sequence[ComparedPair | PoweredPair] = self.powered or self.pairs
        found = [one if one.a == a else one.reversed() for one in every if {one.a, one.b} == {a, b}]
        return {one.metric: one.verdict for one in found}

    def verdict(self, a: str, b: str) -> Verdict:
        """The verdict on ranker a against b: by the first metric, if no other says the opposite."""
        return over_metrics(self.verdicts(a, b))

    def with_doubts(self, doubts: Sequence[Doubt], *rankers: str) -> Self:
        """The same figures with doubts about the judgments: of all pairs, or those of `rankers`.

        One ranker means every pair that it is part of, two rankers mean their pair.
        """
        if not doubts:
            return self

        def doubted(one: _P) -> _P:
            if not {*rankers} <= {one.a, one.b}:
                return one
            return replace(one, doubts=(*one.doubts, *doubts))

        return replace(
            self,
            pairs=tuple(map(doubted, self.pairs)),
            powered=tuple(map(doubted, self.powered)),
        )


def _known(value: float) -> float | None:
    """The value as JSON has it, which knows neither NaN nor infinity."""
    return value if math.isfinite(value) else None
