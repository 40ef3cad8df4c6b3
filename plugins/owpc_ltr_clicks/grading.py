"""Grades and weights of pairs, by their attractiveness.

A beta prior, estimated by moments, describes how rates vary between documents. Take k clicks in m
impressions, each of which was examined with probability e: n = Σe is the number of trials. Given a
pair's own rate r, k/n has the mean r, and k(k − 1)/(n² − Σe²) the mean r². The mean of
k(k − 1)/(n² − Σe²) − 2pk/n + p² over pairs is therefore the variance σ² of their rates about p,
even where n depends on the rates. (In a log it does: attractive documents are ranked high, and
examined more often. The variance of k/n, less that of binomial draws, would be biased.) Then
s = α + β = p(1 − p)/σ² − 1.

A pair has the weight n/(n + s) in p, the inverse of its variance, so that frequently shown pairs do
not dominate (Kleinman 1973). In σ² its weight is (n² − Σe²)/(1 + ρn)², ρ = σ²/(p(1 − p)), for the
same reason: a pair that was examined once says nothing about the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.data.click_counts import ClickCounts
    from owpc_ltr.protocols import ClickFit

Weights = Literal["certainty", "impressions", "none"]
"""The weight of a document: the certainty of its grade (0 to 1), its impressions, or none."""
QueryWeights = Literal["people", "none"]
"""The weight of a query: how many people asked it, or none."""

MIN_PEOPLE = 5
"""Queries that fewer people asked get no grades."""
GRADES = "0..4"
"""The scale of grades."""
PRIOR_CLICKS = 5.0
"""Every document has this many clicks of the mean value besides its own.

A grade needs no minimum of impressions: by the click model's prior, a document with few of them is
near the mean of all documents, and its weight is small. `MIN_PEOPLE` drops queries.
"""

_TOP_GRADE = 30
_ROUNDING = 1e-9


@dataclass(frozen=True)
class GradingOptions:
    """The grades and weights of click judgments."""

    grades: str = GRADES
    weights: Weights = "certainty"
    query_weights: QueryWeights = "none"

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        parse_grades(self.grades)
        if self.weights not in get_args(Weights):
            kinds = ", ".join(get_args(Weights))
            raise UsageError(f"there are no weights '{self.weights}': use {kinds}")
        if self.query_weights not in get_args(QueryWeights):
            kinds = " or ".join(get_args(QueryWeights))
            raise UsageError(f"there are no query weights '{self.query_weights}': use {kinds}")


def parse_grades(text: str) -> int | None:
    """The top grade of `0..4`; None for `none`, probabilities as they are. Raises UsageError.

    >>> parse_grades("0..4"), parse_grades("none")
    (4, None)
    """
    if text.strip().lower() == "none":
        return None
    first, _, last = text.partition("..")
    if first.strip() == "0" and last.strip().isdecimal() and 1 <= int(last) <= _TOP_GRADE:
        return int(last)
    raise UsageError(f"cannot read the grades '{text}': write 0..4, or none for probabilities")


def cuts(top: int) -> Vector:
    """The lowest worth of each grade from 1: midway between the gains 2^grade − 1.

    >>> cuts(2).tolist()
    [0.16666666666666666, 0.6666666666666666]
    """
    gains = (np.exp2(np.arange(top + 1.0)) - 1) / (2.0**top - 1)
    middle: Vector = (gains[1:] + gains[:-1]) / 2
    return middle


def worth(counts: ClickCounts, fit: ClickFit, greatest: float) -> Vector:
    """The worth of each pair, from 0 to 1: attractiveness times the mean value of an action on it.

    Where only clicks count it is the attractiveness. The mean value of a document with few clicks
    is shrunk to that of all documents.
    """
    clicks, value = counts.by_pair(counts.clicked), counts.by_pair(counts.value)
    mean = _mean_value(counts, greatest)
    mean_values: Vector = (value + PRIOR_CLICKS * mean) / (clicks + PRIOR_CLICKS) / greatest
    return fit.attractiveness * mean_values


def worth_of_any(counts: ClickCounts, fit: ClickFit, greatest: float) -> float:
    """The expected worth of a document without impressions."""
    alpha, beta = fit.prior
    return alpha / (alpha + beta) * _mean_value(counts, greatest) / greatest


def grades(worths: Vector, top: int | None, of_any: float = 0.0) -> Vector:
    """The grade of each worth; without a top grade, the worth itself.

    Documents that are worth no more than `of_any`, the expected worth, have grade 0. A document
    that was rarely shown has the expected worth. By the cuts alone its grade would be higher than
    that of a document that was often shown and never clicked, and a ranker would learn to reverse
    the ranking.
    """
    if top is None:
        return worths
    grade = np.searchsorted(cuts(top), worths, side="right").astype(np.float64)
    return np.where(worths > of_any * (1 + _ROUNDING), grade, 0.0)


def _mean_value(counts: ClickCounts, greatest: float) -> float:
    total = float(counts.clicked.sum())
    return float(counts.value.sum()) / total if total else greatest


_LEAST, _MOST = 1e-3, 0.5
"""Bounds of ρ: a prior of 1 to 1,000 trials."""
_ROUNDS = 50


def beta_prior(
    successes: Vector, trials: Vector, looked: Vector | float = 1.0
) -> tuple[float, float]:
    """α and β of the pairs' rates; pairs without trials do not count; `looked` is Σe²/Σe.

    >>> alpha, beta = beta_prior(np.array([0.0, 10.0] * 50), np.array([10.0] * 100))
    >>> round(alpha, 2), round(beta, 2)
    (0.5, 0.5)
    """
    observed = trials > 0
    k, n = successes[observed], trials[observed]
    chance = np.broadcast_to(looked, trials.shape)[observed]
    # Only pairs that were examined twice show how pairs differ.
    twice = np.maximum(n * (n - chance), 0.0)
    rho, mean = 0.1, 0.5
    for _ in range(_ROUNDS):
        strength = 1.0 / rho - 1.0
        weights = n / (n + strength)
        # Half a success and half a failure more: no rate is 0 or 1 for certain.
        n_trials = float(n.sum())
        mean = float((weights * k / n).sum()) / max(float(weights.sum()), 1e-300)
        mean = (mean * n_trials + 0.5) / (n_trials + 1.0)
        mean = min(mean, 1.0 - 1e-6)
        before, rho = rho, _correlation(k, n, twice, mean, rho)
        if abs(rho - before) < 1e-9:
            break
    strength = 1.0 / rho - 1.0
    return mean * strength, (1.0 - mean) * strength


def expected_looks(counts: ClickCounts, examination: Vector) -> tuple[Vector, Vector]:
    """How many looks each pair had by its ranks alone, and the mean chance of each (Σe²/Σe)."""
    chance = examination[counts.rank - 1]
    looks = counts.by_pair(counts.shown * chance)
    squares = counts.by_pair(counts.shown * chance**2)
    return looks, np.divide(squares, looks, out=np.ones_like(looks), where=looks > 0)


def posterior_mean(successes: Vector, trials: Vector, prior: tuple[float, float]) -> Vector:
    """The mean of each rate, given its trials."""
    alpha, beta = prior
    means: Vector = (successes + alpha) / (trials + alpha + beta)
    return means


def _correlation(k: Vector, n: Vector, twice: Vector, mean: float, rho: float) -> float:
    """ρ: how alike two trials of one pair are, beyond two of different ones."""
    shrink = (1.0 + rho * n) ** 2
    weights = twice / shrink
    total = float(weights.sum())
    if total <= 1e-12 * max(float(n.sum()), 1e-300):
        return _MOST
    # For a pair that was examined once, k(k − 1)/(n² − Σe²) is 0/0: its weight is 0.
    squares = k * np.maximum(k - 1.0, 0.0) / shrink
    spread = float((squares + weights * (mean**2 - 2.0 * mean * k / n)).sum()) / total
    return float(np.clip(spread / (mean * (1.0 - mean)), _LEAST, _MOST))
