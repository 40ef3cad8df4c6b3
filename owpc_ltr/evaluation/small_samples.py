"""Small samples of queries: how far a mean may be off that is of few queries, or of skewed ones.

A spread that is measured on the sample says nothing of queries whose kind it lacks. Of a kind that
makes up a share of 3 / n, a sample of n queries lacks every one in 5 % of cases (the rule of three;
Hanley & Lippman-Hand 1983), and each may differ by the metric's whole span.

Nor does it say enough of a kind that it has too few of: where a few large differences decide, their
number does, and the interval reaches further on their side. How much is found by simulation
(benchmarks/interval_coverage.py), so that intervals hold the mean in 95 % of samples.
"""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.verdict import LEVEL, Doubt
from owpc_ltr.evaluation.weighted_means import acceleration, mean_of, standard_error

RULE_OF_THREE = 3.0
FEWEST_DIFFERENCES = 6
"""Of fewer differences, two of all sign flips are 2 / 2⁵ = 6 % at least: no test at 5 % rejects."""
_OF_SKEWNESS = 4.0
"""By how many times the mean's skewness (g₁ / √n) an interval is longer on the skewed side."""


def floor_of(differences: Vector, weights: Vector | None = None, span: float = 1.0) -> float:
    """The least half-width of an interval of their mean: 3 / n times the largest difference.

    That is `span`, or what was seen if it is larger. Weighted queries count as fewer (Kish 1965).
    """
    n = len(differences) if weights is None else weights.sum() ** 2 / (weights**2).sum()
    largest = float(np.abs(differences).max())
    return float(RULE_OF_THREE / n * (max(span, largest) if np.isfinite(span) else largest))


def reaches(degrees: float, skewness: float) -> tuple[float, float]:
    """How many standard errors an interval of a mean goes down and up: Student's, and skewed."""
    from scipy.special import stdtrit

    reach = float(stdtrit(degrees, 1 - LEVEL / 2))
    return (
        reach * (1.0 + _OF_SKEWNESS * max(0.0, -skewness)),
        reach * (1.0 + _OF_SKEWNESS * max(0.0, skewness)),
    )


def widened(
    low: float, high: float, differences: Vector, weights: Vector | None = None, span: float = 1.0
) -> tuple[float, float]:
    """A bootstrap interval of the mean difference, made as wide as the sample needs."""
    mean, floor = mean_of(differences, weights), floor_of(differences, weights, span)
    error = standard_error(differences, weights)
    skewness = 6.0 * acceleration(differences, weights) if error else 0.0
    down, up = reaches(len(differences) - 1, skewness)
    return min(low, mean - max(floor, down * error)), max(high, mean + max(floor, up * error))


def few_queries(n: int) -> tuple[Doubt, ...]:
    """The doubt about so few queries that no test can show a difference."""
    if n >= FEWEST_DIFFERENCES:
        return ()
    return (
        Doubt(
            "few-queries",
            f"{n} queries are too few: with fewer than {FEWEST_DIFFERENCES} no test at 5 % can "
            "show a difference",
            "judge more queries",
        ),
    )
