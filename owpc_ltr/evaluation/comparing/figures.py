"""What a comparison of rankers holds: each ranker's means, each pair's difference, and of what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.evaluate import Measured
from owpc_ltr.evaluation.prediction_powered import PredictionPowered
from owpc_ltr.evaluation.significance import Comparison
from owpc_ltr.evaluation.verdict import LEVEL
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
class ComparedPair:
    """Two rankers by one metric; differences are a − b.

    `p_holm` is the permutation test's p, corrected over all comparisons of the result (Holm 1979).
    `shown_from` is the smallest mean difference, in either direction, that would have been shown
    here with the same spread and the other comparisons as they are; infinite where none would.
    """

    a: str
    b: str
    metric: str
    comparison: Comparison
    p_holm: float
    shown_from: float
    higher_is_better: bool = True

    @property
    def shown(self) -> bool:
        """Whether the difference is shown at 5 %: always and only from `shown_from` on."""
        return self.p_holm < LEVEL

    @property
    def better(self) -> str | None:
        """The ranker that is shown to be the better one; None where neither is."""
        if not self.shown:
            return None
        return self.a if (self.comparison.mean_difference > 0) == self.higher_is_better else self.b

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON; `significant` is of the pair alone, `shown` corrected."""
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            **self.comparison.as_dict(),
            "p_holm": self.p_holm,
            "shown": self.shown,
            "shown_from": _known(self.shown_from),
            "better": self.better,
        }


@dataclass(frozen=True)
class PoweredPair:
    """Two rankers by one metric, by human judgments of a sample and cheap ones of all queries.

    Differences are a − b. `p_holm` is corrected over all such pairs of the result (Holm 1979).
    """

    a: str
    b: str
    metric: str
    found: PredictionPowered
    p_holm: float
    higher_is_better: bool = True

    @property
    def better(self) -> str | None:
        """The ranker that is shown to be the better one; None where neither is."""
        if self.p_holm >= LEVEL:
            return None
        return self.a if (self.found.powered.mean > 0) == self.higher_is_better else self.b

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON; `decided` is of the pair alone, `better` corrected."""
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            **self.found.as_dict(),
            "p_holm": self.p_holm,
            "better": self.better,
        }


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


def _known(value: float) -> float | None:
    """The value as JSON has it, which knows neither NaN nor infinity."""
    return value if math.isfinite(value) else None
