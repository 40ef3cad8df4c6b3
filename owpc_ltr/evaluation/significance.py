"""Whether one ranker is better than another on the same queries: the verdict, and what it rests on.

A permutation test asks whether the differences could be chance, a bootstrap interval how large the
mean difference may be, the detectable effect whether the queries were enough to see one
(Smucker, Allan & Carterette, CIKM 2007; Efron 1987; Sakai 2014).

The test's null hypothesis is symmetry: each query's difference might as well have the opposite
sign (Fisher 1935). Rankers of equal means whose differences are skewed (many small gains, few large
losses) break it without one being better. A difference is therefore claimed only if the interval,
which allows for skewness, excludes 0, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.evaluation.resampling import (
    FEWEST_DIFFERENCES,
    LEVEL,
    ROUNDING,
    Interval,
    bca_interval,
    floor_of,
    mean_of,
    room_of,
    sign_flips,
    skewed,
    standard_error,
    student_p,
    widened,
)
from owpc_ltr.text import ShortRepr


class Outcome(StrEnum):
    """The four things that a comparison may say of a new ranker."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no significant difference"
    CANNOT_TELL = "cannot tell"


OPPOSITE = {Outcome.BETTER: Outcome.WORSE, Outcome.WORSE: Outcome.BETTER}


@dataclass(frozen=True, repr=False)
class ResultWarning(ShortRepr):
    """What queries or judgments cannot support, and what would settle it.

    `check` is the name of the check that found it, `columns` the features that it concerns. One
    that `decides` makes a verdict `cannot tell`.
    """

    check: str
    message: str
    advice: str
    columns: tuple[str, ...] = ()
    joint: str = "; "
    decides: bool = True

    @property
    def line(self) -> str:
        """The message and the advice."""
        return f"{self.message}{self.joint}{self.advice}"

    def as_dict(self) -> dict[str, str]:
        """The check, what it found and what would settle it, as JSON."""
        return {"check": self.check, "message": self.message, "advice": self.advice}


@dataclass(frozen=True, repr=False)
class Verdict(ShortRepr):
    """The outcome for the new ranker, and the warnings that make it `cannot tell`."""

    outcome: Outcome
    warnings: tuple[ResultWarning, ...] = ()

    @property
    def reason(self) -> str:
        """Why it cannot be told, without the advice; empty for the other outcomes."""
        return "; ".join(warning.message for warning in self.warnings)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.reason}" if self.warnings else str(self.outcome)

    def as_dict(self) -> dict[str, Any]:
        """The outcome and its reasons as JSON."""
        reasons = [warning.as_dict() for warning in self.warnings]
        return {"outcome": str(self.outcome), "reasons": reasons}


def decide(
    low: float,
    high: float,
    p: float,
    warnings: Sequence[ResultWarning] = (),
    *,
    higher_is_better: bool = True,
    smallest_gain: float = 0.0,
) -> Verdict:
    """The verdict on a mean difference, new ranker minus the other one.

    `low` and `high` bound the difference, `p` is corrected for all comparisons made. A difference
    is claimed only if p is below the level **and** the interval excludes 0; `better` only if the
    interval lies above the `smallest_gain`. A warning that decides makes the verdict `cannot tell`,
    whatever the figures say.
    """
    deciding = tuple(dict.fromkeys(warning for warning in warnings if warning.decides))
    if deciding:
        return Verdict(Outcome.CANNOT_TELL, deciding)
    if not higher_is_better:
        low, high = -high, -low
    if p < LEVEL and high < 0:
        return Verdict(Outcome.WORSE)
    return Verdict(Outcome.BETTER if p < LEVEL and low > smallest_gain else Outcome.NO_DIFFERENCE)


def over_metrics(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The verdict on one pair of rankers by several metrics: that of the first metric.

    It is `cannot tell` where another metric shows the opposite.
    """
    (name, first), *others = verdicts.items()
    opposite = OPPOSITE.get(first.outcome)
    against = [metric for metric, verdict in others if verdict.outcome == opposite]
    if not against:
        return first
    warning = ResultWarning(
        "metrics-disagree",
        f"metrics disagree: {first.outcome} by {name}, {opposite} by {' and '.join(against)}",
        "state which metric decides before the comparison, and compare by that one",
    )
    return Verdict(Outcome.CANNOT_TELL, (warning,))


POWER = 0.8
"""The chance of finding an effect of the size called detectable."""


@dataclass(frozen=True, repr=False)
class Comparison(ShortRepr):
    """Two rankers a and b on the same queries; differences are a − b.

    `wins` counts the queries where a's value is the larger one (for an error that is a loss).
    `p_permutation` is two-sided, by flipping signs; `p_t` is the paired t-test's; `low` and
    `high` bound the mean difference in a 95 % BCa bootstrap interval, which is `widened` where few
    queries differ, or a few decide. `detectable` is the smallest true mean difference, with the
    spread seen here, that would be found at 5 % in 80 % of such samples: a smaller one may be there
    and go unseen. `only_floor` says that the interval includes 0 only because of its
    least half-width, `floor_of`. `warnings` are the sample's own. Where some queries are spellings
    of one request, `n_independent` is the number of requests, which are resampled.
    """

    n_queries: int
    mean_a: float
    mean_b: float
    mean_difference: float
    wins: int
    losses: int
    ties: int
    p_permutation: float
    p_t: float
    low: float
    high: float
    detectable: float
    resamples: int
    seed: int
    only_floor: bool = field(default=False, compare=False)
    warnings: tuple[ResultWarning, ...] = ()
    n_independent: int | None = None

    @property
    def includes_zero(self) -> bool:
        """Whether the interval of the mean difference includes 0."""
        return self.low <= 0 <= self.high

    def verdict(self, *, higher_is_better: bool = True) -> Verdict:
        """The verdict on ranker a by this comparison alone, without correction."""
        figures = self.low, self.high, self.p_permutation
        return decide(*figures, self.warnings, higher_is_better=higher_is_better)

    def reversed(self) -> Comparison:
        """The same comparison with the other ranker first."""
        return replace(
            self,
            mean_a=self.mean_b,
            mean_b=self.mean_a,
            mean_difference=-self.mean_difference,
            wins=self.losses,
            losses=self.wins,
            low=-self.high,
            high=-self.low,
        )

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON; warnings stand with the verdict."""
        figures = asdict(self)
        del figures["warnings"], figures["only_floor"]
        if self.n_independent is None:
            del figures["n_independent"]
        return figures


def difference_words(compared: Comparison) -> str:
    """The mean difference and its interval."""
    return f"{compared.mean_difference:+.4f} [{compared.low:+.4f}, {compared.high:+.4f}]"


@dataclass(frozen=True, eq=False)
class PairedValues:
    """Two rankers' values of the same units, and the units' weights where they differ.

    A unit is a query, or the mean of a cluster of queries: `n_independent` of them; where all
    queries are one cluster, nothing can be drawn but queries. `n_queries` and `signs` (how many
    queries differ upwards, downwards, not at all) are of the queries.
    """

    a: Vector
    b: Vector
    differences: Vector
    weights: Vector | None
    room: float
    """How far values of an unseen query may be apart."""
    n_queries: int
    n_independent: int
    signs: tuple[int, int, int]

    @property
    def terms(self) -> Vector:
        """What each query adds to the sum of differences."""
        return self.differences if self.weights is None else self.weights * self.differences


def compare_paired(
    a: NDArray[Any],
    b: NDArray[Any],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    weights: NDArray[Any] | None = None,
    span: float = 1.0,
    clusters: NDArray[np.int64] | None = None,
) -> Comparison:
    """Compare two rankers by their values of one metric on the same queries, in the same order.

    The same seed gives the same numbers. With `weights`, one a query, means, differences and tests
    are weighted: signs are flipped and queries drawn together with their weights. Weights that are
    all alike change nothing, and queries of weight 0 are left out. `span` is the largest difference
    that the metric allows. `clusters` has a number for each query: queries of one number are won
    and lost together, and are one unit of the test and of the interval. Raises BadInput where the
    values cannot be paired, are not finite (drop the queries that a metric left out from both), or
    are fewer than two.
    """
    check_resamples(resamples)
    sample = pair_values(a, b, weights, span, clusters)
    _coins, draws = generators(seed)
    interval = bca_interval(sample.differences, sample.weights, LEVEL, resamples, draws)
    return comparison_of(sample, interval, resamples, seed)


def pair_values(
    a: NDArray[Any],
    b: NDArray[Any],
    weights: NDArray[Any] | None = None,
    span: float = 1.0,
    clusters: NDArray[np.int64] | None = None,
) -> PairedValues:
    """The values as they are compared. Raises BadInput for what cannot be."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise BadInput(
            f"cannot pair values of shapes {a.shape} and {b.shape}: both rankers need one value "
            "for each of the same queries"
        )
    if weights is not None:
        weights = _checked_weights(weights, a)
        counted = weights > 0
        a, b, weights = a[counted], b[counted], weights[counted]
        clusters = None if clusters is None else clusters[counted]
    _check_values(a, b)
    differences = _rounded(a - b)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    n_queries = len(a)
    units = n_queries if clusters is None else len(np.unique(clusters))
    if clusters is not None and 1 < units < n_queries:
        a, b, weights = _cluster_means(a, b, weights, clusters)
        differences = _rounded(a - b)
    if weights is not None and (weights == weights[0]).all():
        weights = None
    signs = wins, losses, n_queries - wins - losses
    return PairedValues(
        a,
        b,
        differences,
        weights,
        room_of(a, b, weights, span),
        n_queries=n_queries,
        n_independent=units,
        signs=signs,
    )


def _rounded(differences: Vector) -> Vector:
    """The differences, in which equal rankings that were summed in another order are equal."""
    differences[np.abs(differences) <= ROUNDING] = 0.0
    return differences


def _cluster_means(
    a: Vector, b: Vector, weights: Vector | None, clusters: NDArray[np.int64]
) -> tuple[Vector, Vector, Vector]:
    """Each cluster as one query, with the mean of its queries and the sum of their weights."""
    _, codes = np.unique(clusters, return_inverse=True)
    weights = np.ones(len(a)) if weights is None else weights
    whole = np.bincount(codes, weights).astype(np.float64)
    mean_a, mean_b = (np.bincount(codes, weights * values) / whole for values in (a, b))
    return mean_a, mean_b, whole


def generators(seed: int) -> list[np.random.Generator]:
    """Two random generators: one flips signs, the other draws queries."""
    return np.random.default_rng(seed).spawn(2)


def comparison_of(
    sample: PairedValues, interval: Interval, resamples: int, seed: int
) -> Comparison:
    """The comparison, once queries were drawn; signs are flipped."""
    coins, _draws = generators(seed)
    differences, weights, terms = sample.differences, sample.weights, sample.terms
    flips = sign_flips(terms, resamples, coins)
    low, high = widened(*interval, differences, weights, sample.room)
    without_floor = skewed(*interval, differences, weights)
    wins, losses, ties = sample.signs
    return Comparison(
        n_queries=sample.n_queries,
        mean_a=mean_of(sample.a, weights),
        mean_b=mean_of(sample.b, weights),
        mean_difference=mean_of(differences, weights),
        wins=wins,
        losses=losses,
        ties=ties,
        p_permutation=flips.p_of(float(terms.sum())),
        p_t=_paired_t_p(differences, weights),
        low=low,
        high=high,
        detectable=detectable_effect(
            differences, weights, floor_of(differences, weights, sample.room)
        ),
        resamples=resamples,
        seed=seed,
        only_floor=low <= 0 <= high and not without_floor[0] <= 0 <= without_floor[1],
        warnings=few_queries(sample.n_independent),
        n_independent=(None if sample.n_independent == sample.n_queries else sample.n_independent),
    )


def check_resamples(resamples: int) -> None:
    """Refuse a bootstrap of nothing."""
    if resamples < 1:
        raise UsageError(f"cannot compare with {resamples} resamples: at least 1 is needed")


def _checked_weights(weights: NDArray[Any], values: Vector) -> Vector:
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != values.shape:
        raise BadInput(
            f"there are weights of shape {weights.shape} for values of shape {values.shape}: give "
            "one a query"
        )
    malformed = ~((weights >= 0) & np.isfinite(weights))
    if malformed.any():
        place = int(malformed.argmax())
        raise BadInput(
            f"query {place} (counted from 0) has the weight {weights[place]}: weights are finite "
            "and not negative"
        )
    return weights


def _check_values(a: Vector, b: Vector) -> None:
    if len(a) < 2:
        raise BadInput(f"cannot compare on {len(a)} queries: at least 2 are needed")
    malformed = ~(np.isfinite(a) & np.isfinite(b))
    if malformed.any():
        place = int(malformed.argmax())
        raise BadInput(
            f"query {place} (counted from 0) has the values {a[place]} and {b[place]}: drop the "
            "queries that the metric leaves out from both rankers"
        )


def holm(p_values: Vector) -> Vector:
    """The corrected p of each test: m − k + 1 times the k-th smallest, never falling, at most 1."""
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def _paired_t_p(differences: Vector, weights: Vector | None) -> float:
    mean, error = mean_of(differences, weights), standard_error(differences, weights)
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return student_p(mean / error, len(differences) - 1)


def detectable_effect(
    differences: Vector, weights: Vector | None = None, floor: float = 0.0
) -> float:
    """The true mean at which a two-sided t-test on as many such differences has 80 % power.

    Where intervals reach at least `floor` to either side, that at which so many of them exclude 0.
    """
    from scipy.optimize import brentq
    from scipy.special import nctdtr, stdtrit

    n = len(differences)
    error = standard_error(differences, weights)
    if error == 0.0:
        return floor
    critical = stdtrit(n - 1, 1 - LEVEL / 2)

    def missing_power(shift: float) -> float:
        # The other tail adds less than 1e-6.
        return float(1.0 - POWER - nctdtr(n - 1, shift, critical))

    of_test = error * float(brentq(missing_power, 0.0, 1.5 * critical + 3.0))
    return max(of_test, floor + error * float(stdtrit(n - 1, POWER)) if floor else 0.0)


def few_queries(n: int) -> tuple[ResultWarning, ...]:
    """Whether there are so few queries that no test can show a difference."""
    warning = ResultWarning(
        "few-queries",
        f"{n} queries are too few: with fewer than {FEWEST_DIFFERENCES} no test at 5 % can show a "
        "difference",
        "judge more queries",
    )
    return () if n >= FEWEST_DIFFERENCES else (warning,)
