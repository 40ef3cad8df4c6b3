"""Bootstrap intervals of means over queries, bias-corrected and accelerated (BCa; Efron 1987).

Quantiles are expanded for small samples: √(n / (n − 1)) times Student's in place of the normal ones
(Hesterberg 2015, "What teachers should know about the bootstrap").
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.sign_flips import ROUNDING, Matrix, blocks
from owpc_ltr.evaluation.weighted_means import acceleration, mean_of

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
