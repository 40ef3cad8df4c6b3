"""Whether one ranker is better than another on the same queries: the verdict, and what it rests on.

A permutation test asks whether the differences could be chance, a bootstrap interval how large the
mean difference may be, the detectable effect whether the queries were enough to see one
(Smucker, Allan & Carterette, CIKM 2007; Efron 1987; Sakai 2014).

The test's null hypothesis is symmetry: each query's difference might as well have the opposite
sign (Fisher 1935). Rankers of equal means whose differences are skewed (many small gains, few large
losses) break it without one being better. A difference is therefore claimed only if the interval,
which allows for skewness, excludes 0, too.

Bootstrap intervals are bias-corrected and accelerated (BCa; Efron 1987). Quantiles are expanded for
small samples: √(n / (n − 1)) times Student's in place of the normal ones (Hesterberg 2015, "What
teachers should know about the bootstrap").

A spread that is measured on the sample says nothing of queries whose kind it lacks. Of a kind that
makes up a share of 3 / n, a sample of n queries lacks every one in 5 % of cases (the rule of three;
Hanley & Lippman-Hand 1983), and each may differ by the metric's whole span. Nor does it say enough
of a kind that it has too few of: where a few large differences decide, the interval reaches further
on their side. How much is found by simulation (benchmarks/interval_coverage.py), so that intervals
hold the mean in 95 % of samples.

A weighted mean is a ratio of two sums over queries: its error is that of the linearised ratio
(Cochran 1977, section 2.11), which is the usual one where all weights are equal. A query of weight
k counts as k queries in the mean, and as one query in the error: nothing was seen k times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.plain_text import ShortRepr

LEVEL = 0.05
"""Two-sided level of the tests; intervals cover one minus it."""


class Outcome(StrEnum):
    """The four things that a comparison may say of a new ranker."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no significant difference"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, repr=False)
class Doubt(ShortRepr):
    """A reason why queries or judgments cannot support a statement, and what would settle it.

    `check` is the name of the check that found it, `columns` the features that it concerns.
    """

    check: str
    message: str
    advice: str
    columns: tuple[str, ...] = ()
    joint: str = "; "

    @property
    def line(self) -> str:
        """The message and the advice."""
        return f"{self.message}{self.joint}{self.advice}"

    def as_dict(self) -> dict[str, str]:
        """The check, what it found and what would settle it, as JSON."""
        return {"check": self.check, "message": self.message, "advice": self.advice}


@dataclass(frozen=True, repr=False)
class Verdict(ShortRepr):
    """The outcome for the new ranker, and the doubts that make it `cannot tell`."""

    outcome: Outcome
    doubts: tuple[Doubt, ...] = ()

    @property
    def reason(self) -> str:
        """Why it cannot be told, without the advice; empty for the other outcomes."""
        return "; ".join(doubt.message for doubt in self.doubts)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.reason}" if self.doubts else str(self.outcome)

    def as_dict(self) -> dict[str, Any]:
        """The outcome and its reasons as JSON."""
        return {
            "outcome": str(self.outcome),
            "reasons": [doubt.as_dict() for doubt in self.doubts],
        }


def decide(
    low: float,
    high: float,
    p: float,
    doubts: Sequence[Doubt] = (),
    *,
    higher_is_better: bool = True,
) -> Verdict:
    """The verdict on a mean difference, new ranker minus the other one.

    `low` and `high` bound the difference, `p` is corrected for all comparisons made. A difference
    is claimed only if p is below the level **and** the interval excludes 0. Any doubt makes the
    verdict `cannot tell`, whatever the figures say.
    """
    if doubts:
        return Verdict(Outcome.CANNOT_TELL, tuple(doubts))
    if not p < LEVEL or not (low > 0 or high < 0):
        return Verdict(Outcome.NO_DIFFERENCE)
    return Verdict(Outcome.BETTER if (low > 0) == higher_is_better else Outcome.WORSE)


def over_metrics(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The verdict on one pair of rankers by several metrics: that of the first metric.

    It is `cannot tell` where another metric shows the opposite.
    """
    (name, first), *others = verdicts.items()
    opposite = {Outcome.BETTER: Outcome.WORSE, Outcome.WORSE: Outcome.BETTER}.get(first.outcome)
    against = [metric for metric, one in others if one.outcome == opposite]
    if not against:
        return first
    return Verdict(Outcome.CANNOT_TELL, (Doubt(
        "metrics-disagree",
        f"metrics disagree: {first.outcome} by {name}, {opposite} by {' and '.join(against)}",
        "state which metric decides before the comparison, and compare by that one",
    ),))  # fmt: skip


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
    and go unseen. `doubts` are the sample's own.
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
    doubts: tuple[Doubt, ...] = ()

    def verdict(
        self,
        p: float | None = None,
        doubts: Sequence[Doubt] = (),
        *,
        higher_is_better: bool = True,
    ) -> Verdict:
        """The verdict on ranker a, with the corrected p and the doubts about the judgments."""
        p = self.p_permutation if p is None else p
        every = (*doubts, *self.doubts)
        return decide(self.low, self.high, p, every, higher_is_better=higher_is_better)

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
        """The figures as JSON; doubts stand with the verdict."""
        figures = asdict(self)
        del figures["doubts"]
        return figures


@dataclass(frozen=True, eq=False)
class Paired:
    """Two rankers' values of the same queries, and the queries' weights where they differ."""

    a: Vector
    b: Vector
    differences: Vector
    weights: Vector | None
    span: float = 1.0
    """The largest difference that the metric allows."""

    @property
    def total(self) -> float:
        """The sum of the (weighted) differences."""
        return float(self.terms.sum())

    @property
    def terms(self) -> Vector:
        """What each query adds to the sum of differences."""
        return self.differences if self.weights is None else self.weights * self.differences

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(len(self.a) if self.weights is None else self.weights.sum())


def compare_paired(
    a: NDArray[Any],
    b: NDArray[Any],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    weights: NDArray[Any] | None = None,
    span: float = 1.0,
) -> Comparison:
    """Compare two rankers by their values of one metric on the same queries, in the same order.

    The same seed gives the same numbers. With `weights`, one a query, means, differences and tests
    are weighted: signs are flipped and queries drawn together with their weights. Weights that are
    all alike change nothing, and queries of weight 0 are left out. `span` is the largest difference
    that the metric allows. Raises BadInput where the values cannot be paired, are not finite (drop
    the queries that a metric left out from both), or are fewer than two.
    """
    check_resamples(resamples)
    sample = paired(a, b, weights, span)
    coins, draws = generators(seed)
    flips = sign_flips(sample.terms, resamples, coins)
    ends = bca_interval(sample.differences, sample.weights, LEVEL, resamples, draws)
    return comparison_of(sample, flips, ends, resamples, seed)


def paired(
    a: NDArray[Any], b: NDArray[Any], weights: NDArray[Any] | None = None, span: float = 1.0
) -> Paired:
    """The values as they are compared. Raises BadInput for what cannot be."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    _check_shapes(a, b)
    if weights is not None:
        weights = _checked_weights(weights, a)
        counted = weights > 0
        a, b, weights = a[counted], b[counted], weights[counted]
    _check_values(a, b)
    if weights is not None and (weights == weights[0]).all():
        weights = None
    differences = a - b
    # Equal rankings summed in another order are equal.
    differences[np.abs(differences) <= ROUNDING] = 0.0
    return Paired(a, b, differences, weights, span)


def generators(seed: int) -> list[np.random.Generator]:
    """Two sources of chance: one flips signs, the other draws queries."""
    return np.random.default_rng(seed).spawn(2)


def comparison_of(
    sample: Paired, flips: SignFlips, interval: Interval, resamples: int, seed: int
) -> Comparison:
    """The comparison, once signs were flipped and queries drawn."""
    differences, weights = sample.differences, sample.weights
    low, high = widened(*interval, differences, weights, sample.span)
    return Comparison(
        n_queries=len(differences),
        mean_a=mean_of(sample.a, weights),
        mean_b=mean_of(sample.b, weights),
        mean_difference=mean_of(differences, weights),
        wins=int((differences > 0).sum()),
        losses=int((differences < 0).sum()),
        ties=int((differences == 0).sum()),
        p_permutation=flips.p_of(sample.total),
        p_t=_paired_t_p(differences, weights),
        low=low,
        high=high,
        detectable=detectable_effect(
            differences, weights, floor_of(differences, weights, sample.span)
        ),
        resamples=resamples,
        seed=seed,
        doubts=few_queries(len(differences)),
    )


def check_resamples(resamples: int) -> None:
    """Refuse a bootstrap of nothing."""
    if resamples < 1:
        raise UsageError(f"cannot compare with {resamples} resamples: at least 1 is needed")


def _check_shapes(a: Vector, b: Vector) -> None:
    if a.ndim != 1 or a.shape != b.shape:
        raise BadInput(
            f"cannot pair values of shapes {a.shape} and {b.shape}: both rankers need one value "
            "for each of the same queries"
        )


def _checked_weights(given: NDArray[Any], values: Vector) -> Vector:
    weights: Vector = np.asarray(given, dtype=np.float64)
    if weights.shape != values.shape:
        raise BadInput(
            f"there are weights of shape {weights.shape} for values of shape {values.shape}: give "
            "one a query"
        )
    strange = ~((weights >= 0) & np.isfinite(weights))
    if strange.any():
        place = int(strange.argmax())
        raise BadInput(
            f"query {place} (counted from 0) has the weight {weights[place]}: weights are finite "
            "and not negative"
        )
    return weights


def _check_values(a: Vector, b: Vector) -> None:
    if len(a) < 2:
        raise BadInput(f"cannot compare on {len(a)} queries: at least 2 are needed")
    strange = ~(np.isfinite(a) & np.isfinite(b))
    if strange.any():
        place = int(strange.argmax())
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
    from scipy.special import stdtr

    mean, error = mean_of(differences, weights), standard_error(differences, weights)
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * stdtr(len(differences) - 1, -abs(mean) / error))


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


Matrix = NDArray[np.float64]
"""One resample a row, one query a column."""
ROUNDING = 1e-12
"""Sums that differ by less than this share of their terms are equal but for rounding."""
_CELLS = 1 << 20
_TABLED = 1 << 15
"""Up to so many differences, the sums of eight at a time fit in a table."""


@dataclass(frozen=True, eq=False)
class SignFlips:
    """The absolute sums under all sign flips, or under a sample of them.

    `largest` is that of equal signs, which no sum of other signs passes.
    """

    sums: Vector
    exact: bool
    largest: float

    def p_of(self, total: float) -> float:
        """The share of sums at least as far from 0 as `total`.

        Of a sample the one seen is counted in, so that p is never 0 (Phipson & Smyth 2010).
        """
        extreme = int((self.sums >= abs(total) - ROUNDING * self.largest).sum())
        number = len(self.sums)
        return extreme / number if self.exact else (extreme + 1) / (number + 1)


def sign_flips(differences: Vector, resamples: int, generator: np.random.Generator) -> SignFlips:
    """All flips where there are no more than `resamples`, otherwise a sample of them."""
    differences = differences[differences != 0.0]
    n = len(differences)
    total, largest = differences.sum(), float(np.abs(differences).sum())
    exact = n < resamples.bit_length()
    sums = np.empty(2**n if exact else resamples)
    table = _sums_of_eight(differences) if n <= _TABLED and not exact else None
    for count, first in blocks(len(sums), max(1, n)):
        if exact:
            kept = _all_subsets(first, count, n) @ differences
        else:
            coins = generator.integers(0, 256, size=(count, (n + 7) // 8), dtype=np.uint8)
            kept = _looked_up(table, coins) if table is not None else _added(coins, differences)
        sums[first : first + count] = np.abs(2.0 * kept - total)
    return SignFlips(sums, exact, largest)


def blocks(n_rows: int, n_columns: int) -> Iterator[tuple[int, int]]:
    """Rows in blocks of about a million numbers, as (how many, the first of them)."""
    step = max(1, _CELLS // n_columns)
    for first in range(0, n_rows, step):
        yield min(step, n_rows - first), first


def _all_subsets(first: int, count: int, n: int) -> Matrix:
    """The binary digits of `count` numbers from `first` on."""
    numbers = np.arange(first, first + count)
    return ((numbers[:, None] >> np.arange(n)) & 1).astype(np.float64)


def _sums_of_eight(differences: Vector) -> Matrix:
    """For each eight differences, one row, the sum of those that each byte's bits choose."""
    padded = np.zeros(-(-len(differences) // 8) * 8)
    padded[: len(differences)] = differences
    chosen = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
    return padded.reshape(-1, 8) @ chosen.T


def _looked_up(table: Matrix, coins: NDArray[np.uint8]) -> Vector:
    """The sum of the differences that the bits of each row of coins choose."""
    places = coins + (256 * np.arange(len(table), dtype=np.int64))
    sums: Vector = table.ravel().take(places).sum(axis=1)
    return sums


def _added(coins: NDArray[np.uint8], differences: Vector) -> Vector:
    """The same of so many differences that a table of their sums would be large."""
    kept = np.unpackbits(coins, axis=1, count=len(differences)).astype(np.float64)
    sums: Vector = kept @ differences
    return sums


Interval = tuple[float, float]


def bca_interval(
    values: Vector,
    weights: Vector | None,
    level: float,
    resamples: int,
    generator: np.random.Generator,
) -> Interval:
    """The interval that misses the mean at `level`, half on each side."""
    mean = mean_of(values, weights)
    if (values == values[0]).all():
        return mean, mean
    n, means = len(values), np.empty(resamples)
    weighted = None if weights is None else weights * values
    for count, first in blocks(resamples, n):
        chosen = _drawn(count, n, generator)
        if weights is None or weighted is None:
            means[first : first + count] = values[chosen].mean(axis=1)
        else:
            sums = weighted[chosen].sum(axis=1)
            means[first : first + count] = sums / weights[chosen].sum(axis=1)
    return _ends(means, mean, acceleration(values, weights), level, n)


def bca_intervals(
    columns: Matrix,
    weights: Vector | None,
    level: float,
    resamples: int,
    generator: np.random.Generator,
    done: Callable[[float], None] | None = None,
) -> list[Interval]:
    """The intervals of several columns' means, whose queries are drawn once for all.

    They are those of `bca_interval` but for rounding. `done` is told which share is.
    """
    n, means = len(columns), np.empty((resamples, columns.shape[1]))
    terms = columns if weights is None else columns * weights[:, None]
    for count, first in blocks(resamples, n):
        times = _times_drawn(_drawn(count, n, generator))
        sums = times @ terms
        means[first : first + count] = sums / (n if weights is None else (times @ weights)[:, None])
        if done is not None:
            done((first + count) / resamples)
    found = []
    for number, values in enumerate(columns.T):
        mean = mean_of(values, weights)
        if (values == values[0]).all():
            found.append((mean, mean))
            continue
        # Sums in another order: what is one mean but for rounding is made one.
        own = means[:, number]
        own[np.abs(own - mean) <= ROUNDING * np.abs(values).max()] = mean
        found.append(_ends(own, mean, acceleration(values, weights), level, n))
    return found


def _drawn(count: int, n: int, generator: np.random.Generator) -> NDArray[np.int32]:
    return generator.integers(0, n, size=(count, n), dtype=np.int32)


def _times_drawn(chosen: NDArray[np.int32]) -> Matrix:
    """How often each query is in each resample."""
    count, n = chosen.shape
    places = chosen + np.arange(0, count * n, n, dtype=np.int64)[:, None]
    times = np.bincount(places.ravel(), minlength=count * n)
    return times.reshape(count, n).astype(np.float64)


def _ends(means: Vector, mean: float, lean: float, level: float, n: int) -> Interval:
    from scipy.special import ndtr, ndtri, stdtrit

    resamples = len(means)
    below = (np.count_nonzero(means < mean) + np.count_nonzero(means <= mean)) / (2 * resamples)
    bias = ndtri(np.clip(below, 1 / (resamples + 1), resamples / (resamples + 1)))
    reach = math.sqrt(n / (n - 1)) * stdtrit(n - 1, 1 - level / 2)
    ends = bias + np.array([-reach, reach])
    # Beyond the pole of few and skewed values, the end is the outermost resample.
    inside = lean * ends < 1.0
    adjusted = bias + ends / np.where(inside, 1.0 - lean * ends, 1.0)
    shifted = np.where(inside, adjusted, np.copysign(np.inf, ends))
    low, high = np.quantile(means, ndtr(shifted))
    return float(low), float(high)


RULE_OF_THREE = 3.0
FEWEST_DIFFERENCES = 6
"""Of fewer differences, two of all sign flips are 2 / 2⁵ = 6 % at least: no test at 5 % rejects."""
_OF_SKEWNESS = 4.0
"""By how many times the mean's skewness (g₁ / √n) an interval is longer on the skewed side."""


def widened(
    low: float, high: float, differences: Vector, weights: Vector | None = None, span: float = 1.0
) -> tuple[float, float]:
    """A bootstrap interval of the mean difference, made as wide as the sample needs."""
    mean, floor = mean_of(differences, weights), floor_of(differences, weights, span)
    error = standard_error(differences, weights)
    skewness = 6.0 * acceleration(differences, weights) if error else 0.0
    down, up = reaches(len(differences) - 1, skewness)
    return min(low, mean - max(floor, down * error)), max(high, mean + max(floor, up * error))


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


def mean_of(values: Vector, weights: Vector | None = None) -> float:
    """The mean."""
    if weights is None:
        return float(values.mean())
    return float((weights * values).sum() / weights.sum())


def standard_error(values: Vector, weights: Vector | None = None) -> float:
    """The standard error of the mean; 0 where all values are one."""
    if (values == values[0]).all():
        return 0.0
    n = len(values)
    if weights is None:
        return float(values.std(ddof=1) / np.sqrt(n))
    residuals = weights * (values - mean_of(values, weights))
    return float(np.sqrt(n / (n - 1) * (residuals**2).sum()) / weights.sum())


def acceleration(values: Vector, weights: Vector | None = None) -> float:
    """A sixth of the skewness of the mean's jackknife values (Efron 1987); values differ."""
    if weights is None:
        # The mean's jackknife values are linear in the data, so its acceleration is a moment.
        centred = values - values.mean()
    else:
        left = weights.sum() - weights
        without = ((weights * values).sum() - weights * values) / left
        centred = without.mean() - without
    return float((centred**3).sum() / (6.0 * (centred**2).sum() ** 1.5))
