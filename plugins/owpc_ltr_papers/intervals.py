"""How sure a mean over folds is, and a difference of two of them, from each query's values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.significance import Comparison, compare_paired


def mean_over_folds(folds: Sequence[Vector]) -> float:
    """The mean of the folds' means, as LETOR reports."""
    return float(np.mean([values.mean() for values in folds]))


def interval(folds: Sequence[Vector], seed: int) -> tuple[float | None, float | None]:
    """The 95 % bootstrap interval over queries of the mean over folds; None of a single query."""
    found = compared(folds, [np.zeros(len(values)) for values in folds], seed)
    return (None, None) if found is None else (found.low, found.high)


def compared(a: Sequence[Vector], b: Sequence[Vector], seed: int) -> Comparison | None:
    """The paired comparison of two methods on the same folds; None of a single query."""
    one, other = _weighted(a), _weighted(b)
    return compare_paired(one, other, seed=seed) if len(one) > 1 else None


def _weighted(folds: Sequence[Vector]) -> Vector:
    """Values whose plain mean is the mean over folds of the folds' means."""
    count = sum(map(len, folds))
    weights = [count / (len(folds) * len(values)) for values in folds]
    return np.concatenate([values * weight for values, weight in zip(folds, weights, strict=True)])
