"""Whether one ranker is better than another on the same queries: the verdict, and what it rests on.

A permutation test asks whether the differences could be chance, a bootstrap interval how large the
mean difference may be, the detectable effect whether the queries were enough to see one (Smucker,
Allan & Carterette, CIKM 2007; Efron 1987; Sakai 2014).

The test's null hypothesis is symmetry: each query's difference might as well have the opposite sign
(Fisher 1935). Rankers of equal means whose differences are skewed (many small gains, few large
losses) break it without one being better. A difference is therefore claimed only if the interval,
which allows for skewness, excludes 0, too.

Resampling of queries: the permutation test, and bootstrap intervals of means, weighted or not.
Bootstrap intervals are bias-corrected and accelerated (BCa; Efron 1987). Quantiles are expanded for
small samples: √(n / (n − 1)) times Student's in place of the normal ones (Hesterberg 2015, "What
teachers should know about the bootstrap").

A spread that is measured on the sample says nothing of queries whose kind it lacks. Of a kind that
makes up a share of 3 / n, a sample of n queries lacks every one in 5 % of cases (the rule of three;
Hanley & Lippman-Hand 1983). On each of these a ranker may lose all that the other one has. Nor does
it say enough of a kind that it has too few of: where a few large differences decide, the interval
reaches further on their side. How much is found by simulation (benchmarks/interval_coverage.py), so
that intervals hold the mean in 95 % of samples.

A weighted mean is a ratio of two sums over queries: its error is that of the linearised ratio
(Cochran 1977, section 2.11), which is the usual one where all weights are equal. A query of weight
k counts as k queries in the mean, and as one query in the error: nothing was seen k times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.text import ShortRepr

Matrix = NDArray[np.float64]
"""One resample a row, one query a column."""
LEVEL = 0.05
"""Two-sided level of the tests; intervals cover one minus it."""
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
            chosen = _all_subsets(first, count, n) @ differences
        else:
            coins = generator.integers(0, 256, size=(count, (n + 7) // 8), dtype=np.uint8)
            if table is None:
                # Of so many differences a table of their sums would be large.
                chosen = np.unpackbits(coins, axis=1, count=n).astype(np.float64) @ differences
            else:
                places = coins + 256 * np.arange(len(table), dtype=np.int64)
                chosen = table.ravel().take(places).sum(axis=1)
        sums[first : first + count] = np.abs(2.0 * chosen - total)
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
    intervals = []
    for values, drawn in zip(columns.T, means.T, strict=True):
        mean = mean_of(values, weights)
        if (values == values[0]).all():
            intervals.append((mean, mean))
            continue
        # Sums in another order: what is one mean but for rounding is made one.
        drawn[np.abs(drawn - mean) <= ROUNDING * np.abs(values).max()] = mean
        intervals.append(_ends(drawn, mean, acceleration(values, weights), level, n))
    return intervals


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
    low: float,
    high: float,
    differences: Vector,
    weights: Vector | None = None,
    room: float = 1.0,
) -> Interval:
    """A bootstrap interval of the mean difference, made as wide as the sample needs."""
    low, high = skewed(low, high, differences, weights)
    mean, floor = mean_of(differences, weights), floor_of(differences, weights, room)
    return min(low, mean - floor), max(high, mean + floor)


def skewed(low: float, high: float, differences: Vector, weights: Vector | None = None) -> Interval:
    """A bootstrap interval of the mean difference that also allows for skewness."""
    mean, error = mean_of(differences, weights), standard_error(differences, weights)
    skewness = 6.0 * acceleration(differences, weights) if error else 0.0
    down, up = reaches(len(differences) - 1, skewness)
    return min(low, mean - down * error), max(high, mean + up * error)


def floor_of(differences: Vector, weights: Vector | None = None, room: float = 1.0) -> float:
    """The least half-width of an interval of their mean: 3 / n times the `room`.

    Weighted queries count as fewer (Kish 1965).
    """
    n = len(differences) if weights is None else weights.sum() ** 2 / (weights**2).sum()
    return float(RULE_OF_THREE / n * room)


def room_of(a: Vector, b: Vector, weights: Vector | None = None, span: float = 1.0) -> float:
    """How far two rankers' values of an unseen query may be apart.

    One may lose all that the better one has in the mean. Where few queries differ, or values are
    not between 0 and the metric's `span`, it is the span, or the largest difference if that is
    larger or the span is not finite.
    """
    differences = np.abs(a - b)
    few = np.count_nonzero(differences > ROUNDING) < FEWEST_DIFFERENCES
    if few or min(a.min(), b.min()) < 0.0 or not max(a.max(), b.max()) <= span < np.inf:
        largest = float(differences.max())
        return max(span, largest) if np.isfinite(span) else largest
    return max(mean_of(a, weights), mean_of(b, weights))


def reaches(degrees: float, skewness: float) -> tuple[float, float]:
    """How many standard errors an interval of a mean goes down and up: Student's, and skewed."""
    from scipy.special import stdtrit

    reach = float(stdtrit(degrees, 1 - LEVEL / 2))
    return (
        reach * (1.0 + _OF_SKEWNESS * max(0.0, -skewness)),
        reach * (1.0 + _OF_SKEWNESS * max(0.0, skewness)),
    )


def student_p(statistic: float, degrees: float) -> float:
    """The two-sided p of a t statistic."""
    from scipy.special import stdtr

    return 2.0 * float(stdtr(degrees, -abs(statistic)))


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
