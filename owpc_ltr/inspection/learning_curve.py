"""The learning curve: how the default does after training on shares of the queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.figures import CurvePoint, Gain, LearningCurve
from owpc_ltr.inspection.learner import Learn, trial_metric, values_of, with_contrast
from owpc_ltr.protocols import Run

_DRAWS = {8: 4, 4: 2, 2: 2, 1: 1}
"""Of an eighth of the training queries four draws, and so on; draws have no query in common."""
_FOLDS = 3
_RESAMPLES = 1_000
_POWERS = (0.25, 0.5, 1.0, 2.0)
FEWEST = 90
"""Queries of which an eighth of two thirds is still 7."""


def cells_read(data_cells: int) -> int:
    """How many values all fits read together."""
    shares = sum(draws / parts for parts, draws in _DRAWS.items())
    return int((_FOLDS - 1) * shares * data_cells)


def learning_curve(data: RankingDataset, learn: Learn, run: Run) -> LearningCurve | None:
    """The curve over all queries with contrast, each held out once; None where they are few."""
    chosen = with_contrast(data, data.n_queries, run.seed)
    if chosen.n_queries < FEWEST:
        return None
    means, noise = _trained(chosen, learn, run)
    pool = chosen.n_queries * (_FOLDS - 1) // _FOLDS
    sizes = np.array([pool // parts for parts in _DRAWS])
    resampled = resampled_means(means, noise, sizes, run.random())
    gains = gain_of_twice(sizes, resampled)
    at = gain_of_twice(sizes, means.mean(axis=1)[None])
    low, high = np.quantile(gains, (0.025, 0.975))
    twice = Gain(float(at[0]), float(low), float(high))
    ends = np.quantile(resampled, (0.025, 0.975), axis=0)
    points = tuple(
        CurvePoint(int(size), draws, float(mean), float(low), float(high))
        for size, draws, mean, low, high in zip(
            sizes, _DRAWS.values(), means.mean(axis=1), *ends, strict=True
        )
    )
    metric = str(trial_metric())
    return LearningCurve(metric, chosen.n_queries, points, twice, _told(twice, int(sizes[-1])))


def gain_of_twice(sizes: NDArray[np.int64], curves: NDArray[np.float64]) -> Vector:
    """What the power law a − b n^−c that fits each curve (a row) best says of twice the last size.

    Of few powers the best is taken: four points do not tell an exponent, and the spread that is
    left goes into the interval of whoever fits resampled curves.
    """
    best = np.full(len(curves), np.inf)
    gains = np.zeros(len(curves))
    for power in _POWERS:
        x = -((sizes / sizes[-1]) ** -power)
        centred = x - x.mean()
        slopes = (curves - curves.mean(axis=1, keepdims=True)) @ centred / (centred @ centred)
        fitted = curves.mean(axis=1, keepdims=True) + slopes[:, None] * centred
        errors = ((curves - fitted) ** 2).sum(axis=1)
        better = errors < best
        best[better] = errors[better]
        gains[better] = (slopes * (1 - 2.0**-power))[better]
    return gains


def resampled_means(
    values: NDArray[np.float64],
    noise: float,
    sizes: NDArray[np.int64],
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """Curves as other held-out queries, and other training queries, would have made them.

    `values` has a row a size and a column a query; `noise` / size is the variance of a mean by the
    draw of the training queries.
    """
    queries = values.shape[1]
    draws = np.array([draws * _FOLDS for draws in _DRAWS.values()])
    curves = np.empty((_RESAMPLES, len(sizes)))
    for row in range(_RESAMPLES):
        chosen = generator.integers(0, queries, queries)
        curves[row] = values[:, chosen].mean(axis=1)
    spread: Vector = np.sqrt(noise / sizes / draws)
    return curves + generator.normal(size=curves.shape) * spread


def _trained(data: RankingDataset, learn: Learn, run: Run) -> tuple[NDArray[np.float64], float]:
    """By size and query the mean over draws, and the noise of draws times the size."""
    metric = trial_metric()
    fold = np.arange(data.n_queries) % _FOLDS
    means = np.empty((len(_DRAWS), data.n_queries))
    noises, fits = [], 0
    for held in range(_FOLDS):
        pool, outside = np.flatnonzero(fold != held), data.select(np.flatnonzero(fold == held))
        for row, (parts, draws) in enumerate(_DRAWS.items()):
            size = len(pool) // parts
            values = []
            for draw in range(draws):
                fits += 1
                run.progress(f"learning curve: {size:,} training queries", fits / _fits())
                own = data.select(np.sort(pool[draw * size : (draw + 1) * size]))
                values.append(values_of(metric, learn(own), outside))
            means[row, fold == held] = np.mean(values, axis=0)
            if draws > 1:
                noises.append(size * float(np.var(np.mean(values, axis=1), ddof=1)))
    return means, float(np.mean(noises))


def _fits() -> int:
    return _FOLDS * sum(_DRAWS.values())


def _told(twice: Gain, size: int) -> str:
    interval = f"{twice.mean:+.3f} [{twice.low:+.3f}, {twice.high:+.3f}]"
    if twice.high < thresholds.SMALL_GAIN:
        return f"twice as many as {size:,} would hardly add anything: {interval}"
    if twice.low > 0:
        return f"twice as many as {size:,} would probably add {interval}"
    return f"what twice as many as {size:,} would add cannot be told: {interval}"
