"""Grades and weights of pairs: by attractiveness, by inverse propensity, or as the SRW rates them.

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
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import option_name

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
CLIP = 10.0
"""The greatest inverse-propensity weight of a click."""
SRW_MAX_RANK = 20
"""The Search Relevance Workbench's own default of its setting maxRank."""

_TOP_GRADE = 30
_ROUNDING = 1e-9
_SMALL_SAMPLE = 0.2
"""Below this share of the clicks, the effective sample is warned of."""


@dataclass(frozen=True)
class GradingOptions:
    """The grades and weights of click judgments; with a `clip`, of clicks by inverse propensity."""

    grades: str = GRADES
    weights: Weights = "certainty"
    query_weights: QueryWeights = "none"
    clip: float | None = None

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        parse_grades(self.grades)
        if self.weights not in get_args(Weights):
            kinds = ", ".join(get_args(Weights))
            raise UsageError(f"there are no weights '{self.weights}': use {kinds}")
        if self.query_weights not in get_args(QueryWeights):
            kinds = " or ".join(get_args(QueryWeights))
            raise UsageError(f"there are no query weights '{self.query_weights}': use {kinds}")
        if self.clip is not None and not self.clip >= 1:
            raise UsageError(f"weights cannot be clipped at {self.clip:g}: give 1 or more")


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


@dataclass(frozen=True)
class EffectiveSample:
    """The number of clicks, the effective number of equally weighted ones, how many were clipped.

    `queries` have clicks, `silent` ones do not: nothing is learned from them.
    """

    clicks: int
    effective: float
    clipped: int
    queries: int = 0
    silent: int = 0

    @property
    def share(self) -> float:
        """The effective sample as a share of the clicks."""
        return self.effective / self.clicks if self.clicks else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The sample as JSON."""
        return {
            "clicks": self.clicks,
            "effective": self.effective,
            "clipped": self.clipped,
            "queries": self.queries,
            "queries_without_clicks": self.silent,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the weights."""
        warnings = []
        if self.share < _SMALL_SAMPLE:
            warnings.append(
                f"{self.clicks:,} clicks, weighted, are worth {self.effective:,.0f} equal ones: a "
                f"few of them decide; lower {option_name('clip')}, or collect more"
            )
        if self.silent > self.queries:
            warnings.append(
                f"{self.silent:,} of {self.queries + self.silent:,} queries have no click: nothing "
                "is learnt of them"
            )
        return tuple(warnings)


def propensity_weights(
    counts: ClickCounts, fit: ClickFit, clip: float
) -> tuple[Vector, Vector, EffectiveSample]:
    """The grade (1 where it was clicked, else 0) and the weight of each pair; the effective sample.

    A click at rank r weighs 1 / examination, `clip` at most (Joachims, Swaminathan & Schnabel
    2017): a click at a rank that one user in ten examines counts for ten. The weight of a clicked
    pair is the sum over its clicks, divided by the mean of these sums; that of other pairs is 1.
    """
    examined = fit.examination[np.minimum(counts.rank, len(fit.examination)) - 1]
    inverse = 1.0 / np.maximum(examined, 1e-12)
    weight = np.minimum(inverse, clip)
    summed = counts.by_pair(counts.clicked * weight)
    clicked = summed > 0
    mean = float(summed[clicked].mean()) if clicked.any() else 1.0
    total = float((counts.clicked * weight).sum())
    squares = float((counts.clicked * weight**2).sum())
    queries = len(np.unique(counts.pair_query[clicked]))
    effective = EffectiveSample(
        int(counts.clicked.sum()),
        total**2 / squares if squares else 0.0,
        int(counts.clicked[inverse > clip].sum()),
        queries,
        len(counts.queries) - queries,
    )
    return clicked.astype(np.float64), np.where(clicked, summed / mean, 1.0), effective


def srw_ratings(
    counts: ClickCounts, max_rank: int = SRW_MAX_RANK, first_position: int = 1
) -> Vector:
    """The COEC rating that the Search Relevance Workbench gives to each pair, to three digits.

    A rating is the clicks on a document over the clicks expected of its impressions, all of them
    taken to be at the best rank at which it was ever shown. The workbench's loop over ranks ends
    before the last one, as positions count from 0: where they count from 1, that rank has no rate,
    and rates 0 (`CoecClickModel.java`, opensearch-project/search-relevance).

    `counts` are those of single events (`count_events(…, every_event=True)`), of the actions click
    and impression alone, down to rank `max_rank` + 1 − `first_position`.
    """
    position = counts.rank - 1 + first_position
    seen = (position <= max_rank) & ((counts.shown > 0) | (counts.clicked > 0))
    rates = _rates(counts, position, max_rank)
    best = np.full(counts.n_pairs, len(rates) - 1)
    np.minimum.at(best, counts.pair[seen], position[seen])
    expected = rates[best] * counts.by_pair(np.where(seen, counts.shown, 0))
    clicks = counts.by_pair(np.where(seen, counts.clicked, 0))
    ratings = np.divide(clicks, expected, out=np.zeros(counts.n_pairs), where=expected > 0)
    # Java's %.3f rounds halves away from zero, on the digits of the number.
    digits: Vector = np.floor(ratings * 1000 + 0.5 + 1e-9) / 1000
    return digits


def _rates(counts: ClickCounts, position: NDArray[np.int64], max_rank: int) -> Vector:
    """The click-through rate of each position below `max_rank`, and 0 for all others."""
    size = int(max(position.max(initial=0), max_rank)) + 2
    shown = np.bincount(position, counts.shown, size)
    clicks = np.bincount(position, counts.clicked, size)
    rates = np.divide(clicks, shown, out=np.zeros(size), where=shown > 0)
    rates[max_rank:] = 0.0
    return rates


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
