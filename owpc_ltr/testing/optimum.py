"""The least regularised risk of a small dataset, found by a general method, slowly."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import linear_risk
from owpc_ltr.protocols import Loss


def least_objective(
    loss: Loss, data: RankingDataset, C: float, start: Vector, rounds: int = 200
) -> tuple[float, float]:
    """Bounds on min ½‖w‖² + C risk(w) of a convex loss, from below and from above.

    Cutting planes (Kelley 1960): the risk lies above all its tangents, so the least objective
    over the tangents alone is a lower bound.
    """
    bound = bind(loss)
    offsets, slopes = np.empty(0), np.empty((0, data.n_features))
    w, lower, upper = start, -np.inf, np.inf
    for _ in range(rounds):
        risk, slope = linear_risk(data, bound, w)
        upper = min(upper, 0.5 * float(w @ w) + C * risk)
        if upper - lower <= 1e-6 * (1 + abs(upper)):
            break
        offsets = np.append(offsets, risk - slope @ w)
        slopes = np.vstack((slopes, slope))
        w, value = _over_tangents(offsets, slopes, C)
        lower = max(lower, value)
    return min(lower, upper), upper


def _over_tangents(offsets: Vector, slopes: Vector, C: float) -> tuple[Vector, float]:
    """Minimise ½‖w‖² + C t with t ≥ offset + slope · w for each tangent; a lower bound of it.

    A barrier −μ Σ log(slack), by Newton steps, with μ falling (Boyd & Vandenberghe 2004, ch. 11).
    The multipliers μ / slack, scaled to sum to C, are feasible for the dual.
    """
    w, lower, mu = np.zeros(slopes.shape[1]), -np.inf, C
    x = np.append(w, offsets.max() + 1.0)
    for _ in range(60):
        x = _centre(x, offsets, slopes, C, mu)
        w = x[:-1]
        multipliers = 1.0 / (x[-1] - slopes @ w - offsets)
        multipliers *= C / multipliers.sum()
        pull = slopes.T @ multipliers
        lower = max(lower, float(multipliers @ offsets - 0.5 * pull @ pull))
        value = 0.5 * float(w @ w) + C * float((offsets + slopes @ w).max())
        if value - lower <= 1e-9 * (1 + abs(value)):
            break
        mu *= 0.2
    return w, lower


def _centre(x: Vector, offsets: Vector, slopes: Vector, C: float, mu: float) -> Vector:
    """Minimise ½‖w‖² + C t − μ Σ log(slack) over x = (w, t), from a point with slack."""
    rows = np.hstack((-slopes, np.ones((len(offsets), 1))))
    flat = np.append(np.ones(slopes.shape[1]), 0.0)
    linear = np.append(np.zeros(slopes.shape[1]), C)

    for _ in range(50):
        slack = rows @ x - offsets
        pull = flat * x + linear
        slope = pull - mu * (rows.T @ (1 / slack))
        bend = np.diag(flat) + mu * (rows.T / slack**2) @ rows
        step = -np.linalg.lstsq(bend, slope)[0]
        fall = float(slope @ step)
        if fall >= -1e-10 * mu:
            break
        # Within the slack from the first length on. Of the barrier the change is reckoned: near the
        # minimum its values are alike to the last digits.
        shares = rows @ step / slack
        length = 0.99 / max(-float(shares.min()), 0.99)
        along = float(pull @ step), float(0.5 * (flat * step) @ step)
        while (
            length * (along[0] + length * along[1]) - mu * float(np.log1p(length * shares).sum())
            > 0.1 * length * fall
        ) and length > 1e-12:
            length /= 2
        further = x + length * step
        if length <= 1e-12 or (rows @ further <= offsets).any():
            break
        x = further
    return x
