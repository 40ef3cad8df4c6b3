"""Whether one ranker is better than another on the same queries, and what could be told at all.

A sign-flip test asks whether the differences could be chance, a bootstrap interval how large the
mean difference may be, the detectable effect whether the queries were enough to see one
(Smucker, Allan & Carterette, CIKM 2007; Efron 1987; Sakai 2014).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput, UsageError

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector

Matrix = NDArray[np.float64]
"""One resample a row, one query a column."""

LEVEL = 0.05
"""Two-sided level of the tests; the interval covers one minus it."""
POWER = 0.8
"""The chance of finding an effect of the size called detectable."""

_ROUNDING = 1e-12
_CELLS = 1 << 20


@dataclass(frozen=True)
class Comparison:
    """Two rankers a and b on the same queries; differences are a − b.

    `wins` counts the queries where a's value is the larger one (for an error that is a loss).
    `p_permutation` is two-sided, by flipping signs; `p_t` is the paired t-test's; `low` and
    `high` bound the mean difference in a 95 % BCa bootstrap interval. `detectable` is the
    smallest true mean difference, with the spread seen here, that a t-test at 5 % would find
    in 80 % of such samples: a smaller one may be there and go unseen.
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

    @property
    def significant(self) -> bool:
        """Whether the permutation test rejects equality at 5 %."""
        return self.p_permutation < LEVEL

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {**asdict(self), "significant": self.significant}


def compare_paired(
    a: NDArray[Any], b: NDArray[Any], *, seed: int, resamples: int = 10_000
) -> Comparison:
    """Compare two rankers by their values of one metric on the same queries, in the same order.

    The same seed gives the same numbers. Raises BadInput where the values cannot be paired, are
    not finite (drop the queries that a metric left out from both), or are fewer than two.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    _check(a, b, resamples)
    differences = a - b
    # Equal rankings summed in another order are equal.
    differences[np.abs(differences) <= _ROUNDING] = 0.0
    flips, draws = np.random.default_rng(seed).spawn(2)
    low, high = _bca_interval(differences, resamples, draws)
    return Comparison(
        n_queries=len(differences),
        mean_a=float(a.mean()),
        mean_b=float(b.mean()),
        mean_difference=float(differences.mean()),
        wins=int((differences > 0).sum()),
        losses=int((differences < 0).sum()),
        ties=int((differences == 0).sum()),
        p_permutation=_sign_flip_p(differences, resamples, flips),
        p_t=_paired_t_p(differences),
        low=low,
        high=high,
        detectable=detectable_effect(differences),
        resamples=resamples,
        seed=seed,
    )


def detectable_effect(differences: Vector) -> float:
    """The true mean at which a two-sided t-test on as many such differences has 80 % power."""
    from scipy.optimize import brentq
    from scipy.special import nctdtr, stdtrit

    n = len(differences)
    error = _standard_error(differences)
    if error == 0.0:
        return 0.0
    critical = stdtrit(n - 1, 1 - LEVEL / 2)

    def missing_power(shift: float) -> float:
        # The other tail adds less than 1e-6.
        return float(1.0 - POWER - nctdtr(n - 1, shift, critical))

    return error * float(brentq(missing_power, 0.0, 1.5 * critical + 3.0))


def _check(a: Vector, b: Vector, resamples: int) -> None:
    if a.ndim != 1 or a.shape != b.shape:
        raise BadInput(
            f"cannot pair values of shapes {a.shape} and {b.shape}: both rankers need one value "
            "for each of the same queries"
        )
    if len(a) < 2:
        raise BadInput(f"cannot compare on {len(a)} queries: at least 2 are needed")
    strange = ~(np.isfinite(a) & np.isfinite(b))
    if strange.any():
        place = int(strange.argmax())
        raise BadInput(
            f"query {place} (counted from 0) has the values {a[place]} and {b[place]}: drop the "
            "queries that the metric leaves out from both rankers"
        )
    if resamples < 1:
        raise UsageError(f"cannot compare with {resamples} resamples: at least 1 is needed")


def _standard_error(differences: Vector) -> float:
    if (differences == differences[0]).all():
        return 0.0
    return float(differences.std(ddof=1) / np.sqrt(len(differences)))


def _paired_t_p(differences: Vector) -> float:
    from scipy.special import stdtr

    mean, error = float(differences.mean()), _standard_error(differences)
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * stdtr(len(differences) - 1, -abs(mean) / error))


def _sign_flip_p(differences: Vector, resamples: int, generator: np.random.Generator) -> float:
    """The share of sign flips with a sum at least as far from 0 as the one seen.

    All flips where there are no more than `resamples`; otherwise a sample of them, with the one
    seen counted in, so that p is never 0 (Phipson & Smyth 2010).
    """
    differences = differences[differences != 0.0]
    n = len(differences)
    if n == 0:
        return 1.0
    total = differences.sum()
    threshold = abs(total) - _ROUNDING * np.abs(differences).sum()
    exact = n < resamples.bit_length()
    extreme = 0
    for count, first in _blocks(2**n if exact else resamples, n):
        kept = _all_subsets(first, count, n) if exact else _random_subsets(generator, count, n)
        sums = 2.0 * (kept @ differences) - total
        extreme += int((np.abs(sums) >= threshold).sum())
    return extreme / 2**n if exact else (extreme + 1) / (resamples + 1)


def _all_subsets(first: int, count: int, n: int) -> Matrix:
    """The binary digits of `count` numbers from `first` on."""
    numbers = np.arange(first, first + count)
    return ((numbers[:, None] >> np.arange(n)) & 1).astype(np.float64)


def _random_subsets(generator: np.random.Generator, count: int, n: int) -> Matrix:
    """Fair coins, eight of a random byte."""
    coins = generator.integers(0, 256, size=(count, (n + 7) // 8), dtype=np.uint8)
    return np.unpackbits(coins, axis=1, count=n).astype(np.float64)


def _bca_interval(
    differences: Vector, resamples: int, generator: np.random.Generator
) -> tuple[float, float]:
    """The bias-corrected and accelerated bootstrap interval of the mean (Efron 1987)."""
    from scipy.special import ndtr, ndtri

    n, mean = len(differences), float(differences.mean())
    if (differences == differences[0]).all():
        return mean, mean
    means = np.empty(resamples)
    for count, first in _blocks(resamples, n):
        chosen = generator.integers(0, n, size=(count, n), dtype=np.int32)
        means[first : first + count] = differences[chosen].mean(axis=1)
    below = (np.count_nonzero(means < mean) + np.count_nonzero(means <= mean)) / (2 * resamples)
    bias = ndtri(np.clip(below, 1 / (resamples + 1), resamples / (resamples + 1)))
    centred = differences - mean
    # The mean's jackknife values are linear in the data, so its acceleration is a moment.
    acceleration = (centred**3).sum() / (6.0 * (centred**2).sum() ** 1.5)
    ends = bias + ndtri(np.array([LEVEL / 2, 1 - LEVEL / 2]))
    low, high = np.quantile(means, ndtr(bias + ends / (1.0 - acceleration * ends)))
    return float(low), float(high)


def _blocks(n_rows: int, n_columns: int) -> Iterator[tuple[int, int]]:
    """Rows in blocks of about a million numbers, as (how many, the first of them)."""
    step = max(1, _CELLS // n_columns)
    for first in range(0, n_rows, step):
        yield min(step, n_rows - first), first
