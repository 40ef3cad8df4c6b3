"""Measurements of a loss at many score vectors at once: slopes, tangents, walks, jumps."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import make_dataset
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import losses_of_scores
from owpc_ltr.protocols import Loss


def evaluate(loss: Loss, labels: Labels, points: Vector) -> tuple[Vector, Vector]:
    """Values (k,) and gradients (k, m) of a query's loss at k score vectors (k, m)."""
    k, m = points.shape
    data = make_dataset(
        np.zeros((k * m, 1), np.float32), np.tile(labels, k), np.repeat(np.arange(k), m)
    )
    values, gradients, _ = losses_of_scores(data, bind(loss), points.ravel())
    return values, gradients.reshape(k, m)


def slope_errors(loss: Loss, labels: Labels, points: Vector, seed: int = 0) -> Vector:
    """|gradient · u − difference quotient| for random directions u, relative to the slope.

    Empty entries are left out: points within a step of a kink, where no slope exists.
    """
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=points.shape)
    _, gradients = evaluate(loss, labels, points)
    slopes = (gradients * directions).sum(axis=1)
    step = 1e-6
    at, _ = evaluate(loss, labels, points)
    above, _ = evaluate(loss, labels, points + step * directions)
    below, _ = evaluate(loss, labels, points - step * directions)
    size = 1.0 + np.abs(slopes) + 1e-3 * np.abs(at)
    forward, backward = (above - at) / step, (at - below) / step
    no_kink = np.abs(forward - backward) <= 1e-3 * size
    errors: Vector = (np.abs((forward + backward) / 2 - slopes) / size)[no_kink]
    return errors


def tangent_violations(loss: Loss, labels: Labels, points: Vector) -> Vector:
    """How far each tangent lies above the loss, at each other point, relative to both (k, k)."""
    values, gradients = evaluate(loss, labels, points)
    rises = gradients @ points.T - (gradients * points).sum(axis=1)[:, None]
    tangents = values[:, None] + rises
    size = 1.0 + np.abs(values)[:, None] + np.abs(values)[None, :] + np.abs(rises)
    return np.asarray((tangents - values[None, :]) / size)


def walk(loss: Loss, labels: Labels, corners: Vector, steps: int = 800) -> tuple[float, float]:
    """A closed walk through score vectors, on which the slopes are summed.

    Returns the integral of the gradient around the loop (0 where a cost exists: Poincaré), and
    the largest difference between its integral along one side and the rise of the value; both
    relative to the integral of |slope|.
    """
    ends = np.roll(corners, -1, axis=0)
    values, _ = evaluate(loss, labels, corners)
    rises = np.roll(values, -1) - values
    middles = (np.arange(steps) + 0.5) / steps
    climbed, effort = np.zeros(len(corners)), 0.0
    for side, (start, end) in enumerate(zip(corners, ends, strict=True)):
        path = start + middles[:, None] * (end - start)
        slopes = evaluate(loss, labels, path)[1] @ (end - start)
        climbed[side] = slopes.mean()
        effort += float(np.abs(slopes).mean())
    if effort == 0.0:
        return 0.0, float(np.abs(rises).max())
    return abs(float(climbed.sum())) / effort, float(np.abs(climbed - rises).max()) / effort


def largest_jump(loss: Loss, labels: Labels, start: Vector, end: Vector) -> float:
    """How much the gradient jumps between two score vectors, relative to how much it changes.

    The steepest parts of the way are cut finer and finer: what is left at 1e-9 is a jump.
    """
    worst, whole = 0.0, 0.0
    edges = np.linspace(0.0, 1.0, 257)[:, None]
    for _ in range(9):
        # Each column is a stretch that is cut: neighbours share an edge, which is looked at once.
        change = np.linalg.norm(
            np.diff(_gradients_at(loss, labels, start, end, edges), axis=0), axis=2
        )
        whole = max(whole, float(change.sum()))
        worst = float(change.max())
        cut, column = np.unravel_index(np.argsort(change, axis=None)[-4:], change.shape)
        edges = np.linspace(edges[cut, column], edges[cut + 1, column], 9)
    return worst / whole if whole > 0 else 0.0


def _gradients_at(loss: Loss, labels: Labels, start: Vector, end: Vector, places: Vector) -> Vector:
    """Gradients (…, m) at the places (…) between two score vectors, of which 0 is the start."""
    points = start + places[..., None] * (end - start)
    return evaluate(loss, labels, points.reshape(-1, len(start)))[1].reshape(points.shape)


def hessian(loss: Loss, labels: Labels, point: Vector) -> Vector:
    """∂gradient_i / ∂s_j by central differences, (m, m): minus Burges's Jacobian of the λ."""
    step = 1e-5 * np.eye(len(point))
    above = evaluate(loss, labels, point + step)[1]
    below = evaluate(loss, labels, point - step)[1]
    matrix: Vector = ((above - below) / 2e-5).T
    return matrix
