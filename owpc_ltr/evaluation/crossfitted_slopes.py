"""How far cheap values tell human ones: for each judged query, by the slope of the other ones.

The best λ is the slope of human on cheap differences. One that is fitted on the very queries that
it moves makes intervals too narrow; here each tenth of the judged queries gets that of the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.sampled_queries import SampledQueries
from owpc_ltr.evaluation.sign_flips import Matrix

FOLDS = 10


def crossfitted_slopes(sample: SampledQueries, folds: int = FOLDS) -> Vector:
    """One slope for each judged query, from the judged ones of other folds.

    Within strata, and weighed by what these add to the variance. A slope is taken back by as much
    as it may be chance (the positive part of 1 − 1/t²; James & Stein 1961): cheap judgments that
    tell nothing get 0, and so do those that say the opposite.
    """
    deviations = [
        sample.scaled(values - sample.mean(values))
        for values in (sample.human, sample.cheap[sample.judged])
    ]
    fold = sample.turn % folds
    human, cheap = deviations
    counts = _of_others(sample, fold, folds, np.ones(len(human)))

    def within(one: Vector, other: Vector) -> Matrix:
        """By fold and stratum, the sum of products of what deviates within the stratum."""
        products = _of_others(sample, fold, folds, one * other)
        first, second = (_of_others(sample, fold, folds, x) for x in (one, other))
        return products - np.divide(first * second, counts, where=counts > 0, out=counts * 0.0)

    part = sample.shares / np.maximum(sample.counts - 1, 1)
    part /= part.max() if part.max() > 0 else 1.0
    both, of_cheap, of_human = (
        within(*pair) @ part for pair in ((human, cheap), (cheap, cheap), (human, human))
    )
    flat = of_cheap <= 1e-12 * (part[sample.stratum] @ cheap**2)
    slopes = np.divide(both, of_cheap, where=~flat, out=np.zeros(folds))
    free = counts.sum(axis=1) - (counts > 0).sum(axis=1) - 1
    explained = slopes * both
    chance = np.maximum(of_human - explained, 0.0) / np.maximum(free, 1)
    kept = 1.0 - np.divide(chance, explained, where=explained > 0, out=np.ones(folds))
    slopes = np.maximum(slopes, 0.0) * np.maximum(kept, 0.0) * (free > 0)
    found: Vector = slopes[fold]
    return found


def _of_others(
    sample: SampledQueries, fold: NDArray[np.int64], folds: int, values: Vector
) -> Matrix:
    """By fold and stratum, the sum of the values of the stratum's queries in other folds."""
    width = len(sample.sizes)
    places = fold * width + sample.stratum
    sums = np.bincount(places, values, folds * width).reshape(folds, width)
    others: Matrix = sums.sum(axis=0) - sums
    return others
