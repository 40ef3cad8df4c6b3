"""Bundle by passes: the same cutting planes, where no score of a document is kept.

A pass over the data tells the risk and its gradient at a point, or the risk at several points of a
line (see `owpc_ltr.kernels.risk`). So the line search looks at a few steps in one pass, and at a
few between two of them in another where that is not near enough; the last pass of a round is for
the plane.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.kernels.cutting_planes import (
    NOTHING_TO_GAIN,
    Origin,
    Point,
    Tangent,
    certificate,
    check_below,
    check_finite,
    reason_to_stop,
    row,
)
from owpc_ltr.kernels.risk import RiskOfWeights
from owpc_ltr.protocols import Certificate, Fit, Loss, Run
from owpc_ltr_optimizers.bundle.planes import Planes, State

_BEHIND = 0.1  # where a new plane touches: this share of the way from the best point on
_SHARES = np.array([0.5, 1.0, 2.0])  # of the step that was best last time
_PASSES = 3  # of a line search, at most
_SHORTEST = 1e-4
_NOTHING = np.zeros(0)


class Aim(NamedTuple):
    """How much the risk counts, the share of the gain that the gap may have, the most planes."""

    C: float
    tolerance: float
    passes: int


class Solved(NamedTuple):
    """Weights for scaled features, and how near to the optimum they are."""

    certificate: Certificate
    history: tuple[dict[str, float], ...]
    state: State


def solve_by_passes(
    aim: Aim,
    loss: Loss,
    risk: RiskOfWeights,
    run: Run,
    start: Fit | None = None,
    near: Vector | None = None,
) -> Solved:
    """Add planes until gap ≤ tolerance · (P(0) − P(w)).

    `start` is a fit of the same risk with another C, `near` a point that may be a good one.
    """
    line = _Line(loss, risk, aim.C)
    zero, slope = line.at(np.zeros(risk.n_features))
    planes, best = _start(line, Origin(loss, zero.risk, slope), zero, start, near)
    history: list[dict[str, float]] = []
    reason, gap = "", abs(zero.objective)
    while not reason:
        lower, w = planes.solve(1e-4 * gap)
        best = line.search(best, w, 0.1 * gap)
        gap = best.objective - lower
        check_below(loss, gap, best.objective)
        history.append(row(len(history) + 1, lower, best, planes.alpha))
        run.progress(f"bundle pass {len(history)}, gap {gap:.3g}", None)
        reason = reason_to_stop(gap, zero, best, aim.tolerance)
        if not reason and len(history) == aim.passes:
            reason = f"stopped after {aim.passes} passes"
        if not reason:
            touch, slope = line.at(best.w + _BEHIND * (w - best.w))
            planes.add(slope, touch.risk - float(slope @ touch.w))
    best = zero if reason == NOTHING_TO_GAIN else line.at(best.w)[0]
    found = certificate(zero, best, history, reason)
    return Solved(found, tuple(history), State(planes, best.w))


def _start(
    line: _Line, origin: Origin, zero: Point, start: Fit | None, near: Vector | None
) -> tuple[Planes, Point]:
    """The planes and the point to begin with."""
    state = start.state if start is not None else None
    if isinstance(state, State) and state.planes.origin.is_that_of(origin):
        planes, first = state.planes.at(line.C), state.w
    else:
        planes, first = Planes(origin, line.C), zero.w if near is None else near
        planes.add(origin.slope, origin.risk)
    if not first.any():
        return planes, zero
    point, slope = line.at(first)
    planes.add(slope, point.risk - float(slope @ point.w))
    return planes, min(zero, point, key=lambda one: one.objective)


class _Line:
    """P = ½‖w‖² + C R at points and along lines, and how long the last step was."""

    def __init__(self, loss: Loss, risk: RiskOfWeights, C: float) -> None:
        self.loss, self.risk, self.C, self.share = loss, risk, C, 1.0

    def at(self, w: Vector) -> tuple[Point, Vector]:
        """The point of these weights, and the gradient of the risk there."""
        risk, slope = self.risk.value_and_gradient(w)
        return self._point(w, risk), slope

    def search(self, best: Point, w: Vector, accuracy: float) -> Point:
        """The minimum of P on the ray from the best point through w, to the accuracy asked."""
        step = w - best.w
        square, linear = float(step @ step), float(best.w @ step)
        if square == 0.0:
            return best
        half_norm = 0.5 * float(best.w @ best.w)

        def height(k: float, risk: float) -> float:
            return half_norm + k * linear + 0.5 * k * k * square + self.C * risk

        found: list[Tangent] = []
        shares = np.unique(np.concatenate(([0.0, 1.0], self.share * _SHARES)))
        for _ in range(_PASSES):
            risks, slopes = self.risk.along(best.w, step, shares)
            found += map(Tangent, shares.tolist(), risks.tolist(), slopes.tolist())
            found.sort()
            falling = [one for one in found if linear + one.at * square + self.C * one.slope < 0]
            if not falling:
                break
            left = falling[-1]
            # The minimum is nearer than that of a tangent alone, since R's slope only grows.
            nearest = -(linear + self.C * left.slope) / square
            rising = [one for one in found if one.at > left.at]
            if not rising:
                shares = np.minimum(left.at * np.array([2.0, 4.0, 16.0]), nearest)
                continue
            right = rising[0]
            crossing = max(left.meets(right), -(linear + self.C * right.slope) / square)
            k = float(np.clip(min(nearest, crossing), left.at, right.at))
            lower = height(k, max(left.value(k), right.value(k)))
            if min(height(one.at, one.risk) for one in found) - lower <= accuracy:
                break
            shares = np.array([0.5 * (left.at + k), k, 0.5 * (k + right.at)])
        lowest = min(found, key=lambda one: height(one.at, one.risk))
        if lowest.at > 0:
            self.share = float(np.clip(lowest.at, _SHORTEST, 1.0))
            return self._point(best.w + lowest.at * step, lowest.risk)
        # What is nearest is still too far: the next search looks closer.
        self.share = max(0.25 * self.share, _SHORTEST)
        return best

    def _point(self, w: Vector, risk: float) -> Point:
        check_finite(self.loss.name, risk, w)
        return Point(w, _NOTHING, risk, np.nan, _NOTHING, 0.5 * float(w @ w) + self.C * risk)
