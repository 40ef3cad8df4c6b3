"""Small samples of queries: rare differences that they lack, and few queries that decide.

A spread that is measured on the sample says nothing of queries whose kind it lacks. Of a kind that
makes up a share of 3 / n, a sample of n queries lacks every one in 5 % of cases (the rule of three;
Hanley & Lippman-Hand 1983), and each may differ by the metric's whole span.
"""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.verdict import Doubt
from owpc_ltr.evaluation.weighted_means import acceleration, mean_of

RULE_OF_THREE = 3.0
FEWEST_DIFFERENCES = 6
"""Of fewer differences, two of all sign flips are 2 / 2⁵ = 6 % at least: no test at 5 % rejects."""
MOST_SKEWED = 0.2
"""Above this skewness of the mean (g₁ / √n), intervals miss it more often than they say; found by
benchmarks/coverage.py."""


def floor_of(differences: Vector, weights: Vector | None = None, span: float = 1.0) -> float:
    """The least half-width of an interval of their mean: 3 / n times the largest difference.

    That is `span`, or what was seen if it is larger. Weighted queries count as fewer (Kish 1965).
    """
    n = len(differences) if weights is None else weights.sum() ** 2 / (weights**2).sum()
    largest = float(np.abs(differences).max())
    return float(RULE_OF_THREE / n * (max(span, largest) if np.isfinite(span) else largest))


def doubts_of_differences(differences: Vector, weights: Vector | None = None) -> tuple[Doubt, ...]:
    """Why no difference can be claimed of such a sample, whatever its interval and its p say."""
    n = len(differences)
    if n < FEWEST_DIFFERENCES:
        return (
            Doubt(
                "few-queries",
                f"{n} queries are too few: with fewer than {FEWEST_DIFFERENCES} no test at 5 % "
                "can show a difference",
                "judge more queries",
            ),
        )
    if (differences == differences[0]).all():
        return ()
    return leaning(6.0 * acceleration(differences, weights), mean_of(differences, weights))


def leaning(skewness: float, mean: float) -> tuple[Doubt, ...]:
    """The doubt about a mean whose skewness is on the other side of 0: few queries against many.

    How many such queries there are, and how large, decides the sign of the true mean. Skewness on
    the mean's own side makes intervals err away from 0, and no claim wrong.
    """
    if skewness * np.sign(mean) >= -MOST_SKEWED:
        return ()
    return (
        Doubt(
            "few-decide",
            "a few queries decide: many small differences stand against few large ones of the "
            "opposite sign, and how many such queries there are is uncertain",
            "judge more queries",
        ),
    )
