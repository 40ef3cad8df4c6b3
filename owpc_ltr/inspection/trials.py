"""Trials: what the default learns of true and of shuffled labels, and of shares of the queries.

Of labels shuffled within queries nothing can be learned; a learning curve shows what more judgments
would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.scales import with_scales
from owpc_ltr.host.registry import load
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import (
    NOTE,
    WARNING,
    Canary,
    CurvePoint,
    Finding,
    Gain,
    LearningCurve,
)
from owpc_ltr.inspection.sample import query_of_rows
from owpc_ltr.kernels.linear import one_blas_thread
from owpc_ltr.metrics import RankedQueries, parse_metric
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.plan import model_plan

_Z = 1.96


def canary(data: RankingDataset, learn: Learn, seed: int = 0) -> Canary | None:
    """Gains over a random order on held-out halves; None where too few queries have contrast.

    Shuffled labels are measured on shuffled ones: whatever was learned, their expected value is
    exactly that of a random order.
    """
    chosen = with_contrast(data, thresholds.TRIAL_QUERIES, seed)
    if chosen.n_queries < thresholds.FEWEST_QUERIES:
        return None
    true, random = _held_out(chosen, learn)
    shuffled, of_shuffled = _held_out(shuffled_labels(chosen, seed), learn)
    gains = gain_of(true - random), gain_of(shuffled - of_shuffled)
    return Canary(METRIC, chosen.n_queries, float(random.mean()), *gains)


def canary_findings(canary: Canary) -> Iterator[Finding]:
    """Where the labels carry nothing, and where even shuffled ones are learned."""
    from scipy.special import ndtri

    true, shuffled = canary.true, canary.shuffled
    if true.low <= 0:
        gain = f"{true.mean:+.3f} [{true.low:+.3f}, {true.high:+.3f}] over a random order"
        if true.high < thresholds.WEAK_GAIN * (1 - canary.random):
            yield Finding(
                "shuffled-labels",
                WARNING,
                "labels",
                f"the labels carry nothing that the features can see: {canary.metric} on held-out "
                f"queries is {gain}",
                "check that labels and documents were matched correctly, row by row and query by "
                "query",
            )
        else:
            yield Finding(
                "shuffled-labels",
                NOTE,
                "labels",
                f"whether the features predict the labels cannot be determined from "
                f"{canary.queries} queries: {canary.metric} is {gain}",
                "judge more queries",
            )
    error = (shuffled.high - shuffled.low) / (2 * _Z)
    if error > 0 and shuffled.mean > ndtri(1 - thresholds.CANARY_LEVEL) * error:
        yield Finding(
            "canary",
            WARNING,
            "held-out queries",
            f"labels shuffled within queries are learned: {canary.metric} {shuffled.mean:+.3f} "
            "over a random order on queries that were held out",
            "look for the same documents in many queries, and for queries under two ids",
        )


def shuffled_labels(data: RankingDataset, seed: int) -> RankingDataset:
    """The same queries, the labels of each in a random order."""
    query = query_of_rows(data)
    order = np.lexsort((np.random.default_rng(seed).random(len(query)), query))
    return replace(data, labels=data.labels[order])


def gain_of(differences: Vector) -> Gain:
    """The mean over both halves with its 95 % interval.

    By as many queries as one half has: a model of the first half errs on the second as that of the
    second does on the first (for linear gains ⟨g, h⟩ = ⟨h, g⟩), so that the two are one draw.
    """
    mean = float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(len(differences) / 2))
    return Gain(mean, mean - _Z * error, mean + _Z * error)


def _held_out(data: RankingDataset, learn: Learn) -> tuple[Vector, Vector]:
    """The metric of each query by a model of the other half, and its expectation at random."""
    half = data.n_queries // 2
    sides = [data.select(np.arange(half)), data.select(np.arange(half, data.n_queries))]
    values = [
        _values(held_out, learn(training).score(held_out.features))
        for training, held_out in zip(sides, sides[::-1], strict=True)
    ]
    random = [_values(side, np.zeros(side.n_documents)) for side in sides[::-1]]
    return np.concatenate(values), np.concatenate(random)


_DRAWS = {8: 4, 4: 2, 2: 2, 1: 1}
"""Of an eighth of the training queries four draws, and so on; draws have no query in common."""
_FOLDS = 3
_FITS = _FOLDS * sum(_DRAWS.values())
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
    text = _verdict(twice, int(sizes[-1]))
    return LearningCurve(METRIC, chosen.n_queries, points, twice, text)


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
                run.progress(f"learning curve: {size:,} training queries", fits / _FITS)
                training = data.select(np.sort(pool[draw * size : (draw + 1) * size]))
                values.append(_values(outside, learn(training).score(outside.features)))
            means[row, fold == held] = np.mean(values, axis=0)
            if draws > 1:
                noises.append(size * float(np.var(np.mean(values, axis=1), ddof=1)))
    return means, float(np.mean(noises))


def _verdict(twice: Gain, size: int) -> str:
    interval = f"{twice.mean:+.3f} [{twice.low:+.3f}, {twice.high:+.3f}]"
    if twice.high < thresholds.SMALL_GAIN:
        return f"twice as many as {size:,} would hardly add anything: {interval}"
    if twice.low > 0:
        return f"twice as many as {size:,} would probably add {interval}"
    return f"what twice as many as {size:,} would add is unclear: {interval}"


Learn = Callable[[RankingDataset], Model]
METRIC = "ndcg@10"
_C = 0.01
"""Small: on OHSUMED it is the best on a few dozen queries, on movies .001 below the best."""


def default_learner(seed: int = 0) -> Learn:
    """What trains `owpc` by `larank` with a small C."""
    plan = model_plan(load(()), settings={"C": _C})
    loss, optimizer = plan.make(plan.candidates()[0])

    def learn(data: RankingDataset) -> Model:
        with one_blas_thread():
            scaled = with_scales(data, plan.normalise)
            return optimizer.minimise(loss, scaled, Run(seed=seed)).model

    return learn


def _values(data: RankingDataset, scores: Vector) -> Vector:
    """The metric of each query; of scores that are all equal, its mean over all orders."""
    return parse_metric(METRIC).of(RankedQueries(scores, data.labels, data.offsets))


def with_contrast(data: RankingDataset, most: int, seed: int) -> RankingDataset:
    """At most so many queries of several grades, in a random order."""
    highest = np.maximum.reduceat(data.labels, data.offsets[:-1])
    lowest = np.minimum.reduceat(data.labels, data.offsets[:-1])
    telling = np.flatnonzero(highest > lowest)
    return data.select(np.random.default_rng(seed).permutation(telling)[:most])
