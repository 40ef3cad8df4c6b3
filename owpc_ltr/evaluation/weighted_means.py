"""Means over queries that may count more or less, how far they err, and how they lean.

Without weights a mean is the plain one. A weighted mean is a ratio of two sums over queries: its
error is that of the linearised ratio (Cochran 1977, section 2.11), which is the usual one where all
weights are alike. A query of weight k counts as k queries in the mean, and as one query in the
error: nothing was seen k times.
"""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector


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
