"""Resampling of queries: the permutation test, and bootstrap intervals of means, weighted or not.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector

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
