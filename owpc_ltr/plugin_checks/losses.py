"""The contract of a loss: what it always promises, and what it claims of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.kernels.kernel import BoundLoss, bind, evaluate_query, losses_of_scores
from owpc_ltr.plugin_checks.promises import Price, Require, slope_errors
from owpc_ltr.protocols import Loss


def check_loss(loss: Loss, seed: int = 0) -> None:
    """Check everything that a loss promises, and what it claims of itself.

    Always: finite values and gradients of the right shape, no argument changed, the same answer
    twice, permuting the documents permutes the gradient, and no price where nothing is relevant.
    Where claimed: `conservative`, `convex`, `smooth`, `weights_are_copies`, a curvature. Raises
    AssertionError.
    """
    require = Require("loss", loss)
    samples, bound = sample_queries(seed), bind(loss)
    rng = np.random.default_rng(seed)
    for sample in (*samples, *_DEGENERATE):
        for scores in sample.points:
            _check_query(require, loss, bound, scores, labels=sample.labels, rng=rng)
    for claim, measure, limits in _CLAIMS:
        if getattr(loss, claim):
            figures = _worst(measure, bound, samples)
            for figure, most, words in limits:
                require(
                    figures[figure] < most,
                    f"claims to be {claim}, but {words} by {figures[figure]:.3g} ({figure})",
                )


@dataclass(frozen=True)
class SampleQuery:
    """Labels of one query, and many score vectors for it, one a row of `points`."""

    labels: Labels
    points: Vector


def sample_queries(seed: int = 0) -> list[SampleQuery]:
    """Queries of 2 to 13 documents, binary and graded, each with scores of every kind."""
    rng = np.random.default_rng(seed)
    samples = []
    for documents, grades in ((2, 1), (3, 2), (4, 1), (6, 3), (8, 1), (13, 2)):
        drawn = rng.integers(0, grades + 1, documents)
        # At least one document is relevant, and at least one is not.
        drawn[0], drawn[-1] = grades, 0
        labels = rng.permutation(drawn).astype(np.float32)
        samples.append(SampleQuery(labels, _points(rng, labels)))
    return samples


def _points(rng: np.random.Generator, labels: Labels) -> Vector:
    """Spread and small scores, ties, grids one margin apart, good and bad orders, lines."""
    n = len(labels)
    spread = [scale * rng.normal(size=n) for scale in (0.03, 0.3, 1.0, 1.0, 3.0, 3.0)]
    base = spread[2]
    swapped = base.copy()
    swapped[[0, n - 1]] = swapped[[n - 1, 0]]
    grid = [rng.integers(-2, 3, n).astype(float), rng.integers(-2, 3, n) / 2]
    ordered = [np.zeros(n), labels.astype(float), -labels.astype(float), np.arange(n) / n]
    line = [base + step * (spread[3] - base) for step in (-0.5, 0.1, 0.5, 0.9, 1.5)]
    single = [base + step * np.eye(n)[0] for step in (-1.0, 1e-3, 1.0)]
    return np.array(
        [*spread, -base, swapped, rng.permutation(base), *grid, *ordered, *line, *single]
    )


def _sample(labels: ArrayLike, scores: ArrayLike) -> SampleQuery:
    return SampleQuery(np.array(labels, np.float32), np.array([scores], np.float64))


_DEGENERATE = (
    _sample([0], [0.5]),
    _sample([1], [0.5]),
    _sample([0, 0, 0], [0.3, -0.3, 0.1]),
    _sample([2, 2, 2], [0.3, -0.3, 0.1]),
    _sample([1, 0, 2, 0], [0.2, 0.2, 0.2, 0.2]),
    _sample([1, 0, 2, 0], [1e6, -1e6, 0.0, 1e6]),
)


def _check_query(
    require: Require,
    loss: Loss,
    bound: BoundLoss,
    scores: Vector,
    labels: Labels,
    rng: np.random.Generator,
) -> None:
    n = len(scores)
    ones = np.ones(n, np.float32)
    arguments = {"scores": scores, "labels": labels, "weights": ones}
    value, gradient = require.answer(loss.value_and_gradient, arguments, (), (n,), twice=True)
    require.finite([value, *gradient], "a value and a gradient")
    require(
        labels.any() or (value == 0 and not gradient.any()),
        f"must be 0, with gradient 0, where no document is relevant; it is {value}",
    )
    own_value, slopes, curvature = evaluate_query(bound, scores, labels, ones)
    require((curvature >= 0).all(), "has the negative curvature {}", curvature)
    compiled = own_value, slopes
    _check_same(require, (value, gradient), compiled, "has another price where it is compiled")
    # Documents moved or repeated are priced as documents weighted by their number.
    equivalents = {}
    # Of equal scores a loss with kinks has more than one right gradient.
    if len(np.unique(scores)) == n:
        equivalents["depends on the order of the documents"] = rng.permutation(n)
    if getattr(loss, "weights_are_copies", False):
        copies = rng.integers(0, 4, n) + (np.arange(n) == 0)
        words = "claims that a document of weight k counts as k copies, and differs"
        equivalents[words] = np.repeat(np.arange(n), copies)
    for words, rows in equivalents.items():
        counts = np.bincount(rows, minlength=n).astype(np.float32)
        moved_value, slopes = loss.value_and_gradient(
            scores[rows], labels[rows], np.ones(len(rows), np.float32)
        )
        moved = (moved_value, np.bincount(rows, slopes, n))
        _check_same(require, moved, loss.value_and_gradient(scores, labels, counts), words)


_Price = tuple[float, NDArray[Any]]


def _check_same(require: Require, actual: _Price, expected: _Price, words: str) -> None:
    require.equal(actual[0], expected[0], f"{words} (its value)")
    noise = 1e-9 * (1.0 + np.abs(expected[1]).max())
    require.equal(actual[1], expected[1], f"{words} (its gradient)", rtol=1e-7, atol=noise)


Measure = Callable[[Price, Vector], dict[str, float]]
"""Figures of a price at score vectors, the greater the worse."""


def _worst(measure: Measure, loss: BoundLoss, samples: list[SampleQuery]) -> dict[str, float]:
    rows = [measure(partial(_price, loss, sample.labels), sample.points) for sample in samples]
    return {figure: float(max(row[figure] for row in rows)) for figure in rows[0]}


def _price(loss: BoundLoss, labels: Labels, points: Vector) -> tuple[Vector, Vector]:
    k, m = points.size // len(labels), len(labels)
    data = make_dataset(
        np.zeros((k * m, 1), np.float32), np.tile(labels, k), np.repeat(np.arange(k), m)
    )
    values, gradients, _ = losses_of_scores(data, loss, points.ravel())
    return values.reshape(points.shape[:-1]), gradients.reshape(points.shape)


def _slopes(price: Price, points: Vector) -> dict[str, float]:
    """The error of the slope in random directions, beside kinks; infinite where all are kinks."""
    directions = np.random.default_rng(0).normal(size=points[:6].shape)
    errors, kinks = slope_errors(price, points[:6], directions)
    return {"slope_error": errors[~kinks].max(initial=np.inf if kinks.all() else 0)}


def _walks(price: Price, points: Vector) -> dict[str, float]:
    """Closed walks through score vectors, on which the slopes are summed.

    `loop` is the integral of the gradient around a walk (0 where a cost exists: Poincaré), `side`
    the largest difference between its integral along one side and the rise of the value; both
    relative to the integral of |slope|.
    """
    loop, side, middles = 0.0, 0.0, (np.arange(800) + 0.5) / 800
    for corners in (points[[2, 3, 4]], points[[3, 4, 5, 2]]):
        ways = np.roll(corners, -1, axis=0) - corners
        values, _ = price(corners)
        path = corners[:, None] + middles[:, None] * ways[:, None]
        slopes = (price(path)[1] * ways[:, None]).sum(axis=2)
        climbed, effort = slopes.mean(axis=1), np.abs(slopes).mean(axis=1).sum() or 1.0
        loop = max(loop, abs(climbed.sum()) / effort)
        side = max(side, np.abs(climbed - np.roll(values, -1) + values).max() / effort)
    return {"loop": loop, "side": side}


def _tangents(price: Price, points: Vector) -> dict[str, float]:
    """How far a tangent lies above the loss at another point, relative to both."""
    values, gradients = price(points)
    rises = gradients @ points.T - (gradients * points).sum(axis=1)[:, None]
    size = 1.0 + np.abs(values)[:, None] + np.abs(values)[None, :] + np.abs(rises)
    return {"tangent_excess": ((values[:, None] + rises - values[None, :]) / size).max()}


def _jumps(price: Price, points: Vector) -> dict[str, float]:
    """How much the gradient jumps between two score vectors, relative to how much it changes.

    The steepest parts of the way are cut finer and finer: what is left at 1e-9 is a jump.
    """
    jump = 0.0
    for start, end in points[[[2, 3], [4, 5], [4, 6], [2, 7]]]:
        worst, whole = 0.0, 0.0
        edges = np.linspace(0.0, 1.0, 257)[:, None]
        for _ in range(9):
            # Each column is a stretch that is cut: neighbours share an edge.
            _, slopes = price(start + edges[..., None] * (end - start))
            change = np.linalg.norm(np.diff(slopes, axis=0), axis=2)
            whole, worst = max(whole, change.sum()), change.max()
            cut, column = np.unravel_index(np.argsort(change, axis=None)[-4:], change.shape)
            edges = np.linspace(edges[cut, column], edges[cut + 1, column], 9)
        jump = max(jump, worst / (whole or 1.0))
    return {"jump": jump}


_CLAIMS = (
    (
        "conservative",
        _slopes,
        (("slope_error", 1e-4, "its gradient is off the slope of its value"),),
    ),
    (
        "conservative",
        _walks,
        (
            ("loop", 5e-3, "its gradient is the gradient of nothing: a closed walk climbs"),
            ("side", 5e-3, "along a walk its value and the sum of its slopes differ"),
        ),
    ),
    ("convex", _tangents, (("tangent_excess", 1e-8, "a tangent lies above it"),)),
    ("smooth", _jumps, (("jump", 1e-3, "its gradient jumps"),)),
)
"""Claims: what is measured, the limit of each figure, and what a loss does that is beyond it."""
