"""The duality gap of methods of cutting planes: the risk, a line search, when to stop.

P(w) = ½‖w‖² + C R(w), R(w) = Σ_q v_q L_q(X_q w), with v_q the weight of query q and L_q convex.
Any tangent of R lies below it, so a maximum of tangents bounds P from below: the gap. The best
point so far moves by an exact line search towards each new one (Franc & Sonnenburg, JMLR 2009).
The search runs on two cached vectors of scores, and reads the matrix once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import PluginError, Refused
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import (
    add_rows,
    losses_of_scores,
    query_blocks,
    run_blocks,
    score_rows,
    threads_worthwhile,
)
from owpc_ltr.protocols import Certificate, Loss, relative_gap

NOTHING_TO_GAIN = "no model is better than the one that scores everything alike"
_BLOCKS = 16  # of queries; their sums are added in order, whatever the number of threads


class Point(NamedTuple):
    """Weights, their scores, and the risk there with its gradient in the scores.

    `lowest` is the smallest loss of a query.
    """

    w: Vector
    scores: Vector
    risk: float
    lowest: float
    gradient: Vector
    objective: float


class Risk:
    """R(w) through scores, so that a move along a line costs no read of the matrix."""

    def __init__(self, loss: Loss, data: RankingDataset, C: float, threads: int) -> None:
        self.data, self.C, self.threads = data, C, threads_worthwhile(data, threads)
        self.name, self.bound = loss.name, bind(loss)
        self.cuts = [int(data.offsets[cut]) for cut in query_blocks(data.offsets, _BLOCKS)]
        self.importance = (
            None
            if data.query_weights is None
            else np.repeat(data.query_importance, np.diff(data.offsets))
        )

    def scores(self, w: Vector) -> Vector:
        """The linear scores of all documents; one read of the matrix."""
        weights, scores = w * self.data.scales, np.empty(self.data.n_documents)

        def block(index: int) -> None:
            rows = slice(self.cuts[index], self.cuts[index + 1])
            score_rows(self.data.features[rows], weights, scores[rows])

        run_blocks(block, len(self.cuts) - 1, self.threads)
        return scores

    def at_zero(self) -> Point:
        """The point w = 0."""
        return self.at(np.zeros(self.data.n_features), np.zeros(self.data.n_documents))

    def at(self, w: Vector, scores: Vector) -> Point:
        """The point of these weights and their scores."""
        values, gradient, _ = losses_of_scores(self.data, self.bound, scores, self.threads)
        risk = float(values @ self.data.query_importance)
        check_finite(self.name, risk, w)
        if self.importance is not None:
            gradient *= self.importance
        objective = 0.5 * float(w @ w) + self.C * risk
        return Point(
            w=w,
            scores=scores,
            risk=risk,
            lowest=float(values.min(initial=0.0)),
            gradient=gradient,
            objective=objective,
        )

    def slope(self, gradient: Vector) -> Vector:
        """The gradient in the weights, from that in the scores; one read of the matrix."""
        slopes = np.zeros((len(self.cuts) - 1, self.data.n_features))

        def block(index: int) -> None:
            rows = slice(self.cuts[index], self.cuts[index + 1])
            add_rows(self.data.features[rows], gradient[rows], slopes[index])

        run_blocks(block, len(self.cuts) - 1, self.threads)
        total: Vector = slopes.sum(axis=0) * self.data.scales
        return total


class RiskOrigin(NamedTuple):
    """The loss with its risk and slope at w = 0: planes of another problem have another one."""

    loss: Loss
    risk: float
    slope: Vector

    def is_that_of(self, other: RiskOrigin) -> bool:
        """Whether two risks are the same, as far as one point can tell."""
        return (
            self.loss == other.loss
            and self.risk == other.risk
            and np.array_equal(self.slope, other.slope)
        )


def check_finite(loss: str, risk: float, w: Vector) -> None:
    """Refuse weights at which a loss is no number."""
    if not np.isfinite(risk):
        raise Refused(
            f"loss '{loss}' is {risk} at weights of size {np.linalg.norm(w):.3g}: use a "
            "smaller C, or --normalise scale"
        )


def search(risk: Risk, best: Point, w: Vector, scores: Vector, accuracy: float) -> Point:
    """The minimum of P on the ray from the best point through w, to the accuracy asked.

    Between a point where P falls and one where it rises, the tangents of R there bound P from
    below: the next point is the minimum of that bound.
    """
    step, along = w - best.w, scores - best.scores
    square, linear = float(step @ step), float(best.w @ step)
    left = Tangent(0.0, best.risk, float(best.gradient @ along))
    right: Tangent | None = None
    if square == 0.0 or linear + risk.C * left.slope >= 0:
        return best
    origin, k = best, 1.0
    half_norm = 0.5 * float(origin.w @ origin.w)
    for _ in range(12):
        point = risk.at(origin.w + k * step, origin.scores + k * along)
        best = min(best, point, key=lambda p: p.objective)
        tangent = Tangent(k, point.risk, float(point.gradient @ along))
        if linear + k * square + risk.C * tangent.slope < 0:
            left = tangent
        else:
            right = tangent
        # The minimum is nearer than that of the left tangent alone, since R's slope only grows.
        nearest = -(linear + risk.C * left.slope) / square
        if right is None:
            k = min(nearest, 4 * k)
            continue
        k = min(nearest, max(left.meets(right), -(linear + risk.C * right.slope) / square))
        bound = max(left.value(k), right.value(k))
        lower = half_norm + k * linear + 0.5 * k * k * square + risk.C * bound
        if best.objective - lower <= accuracy:
            break
    return best


class Tangent(NamedTuple):
    """A line below the risk on a ray: where it touches, the risk and the slope there."""

    at: float
    risk: float
    slope: float

    def value(self, k: float) -> float:
        """Its height at k."""
        return self.risk + (k - self.at) * self.slope

    def meets(self, other: Tangent) -> float:
        """Where two tangents cross."""
        if other.slope <= self.slope:
            return other.at
        return (self.value(0) - other.value(0)) / (other.slope - self.slope)


def reason_to_stop(gap: float, zero: Point, best: Point, tolerance: float) -> str:
    """Why it is time to stop, gap ≤ tolerance · (P(0) − P(w)); empty where it is not."""
    gain = zero.objective - best.objective
    if max(gap, gain) <= 1e-9 * abs(zero.objective):
        return NOTHING_TO_GAIN
    if gap <= max(tolerance * gain, 1e-12 * abs(zero.objective)):
        return f"gap within {tolerance:g} of the gain"
    return ""


def row(number: int, lower: float, best: Point, duals: Vector) -> dict[str, float]:
    """A pass as a row of the history; `lower` is the bound of these dual variables."""
    return {
        "pass": number,
        "dual": lower,
        "objective": best.objective,
        "gap": best.objective - lower,
        "nonzero_duals": int(np.count_nonzero(duals)),
    }


def check_below(loss: Loss, gap: float, objective: float) -> None:
    """Refuse a loss whose tangents pass above it: it is not convex."""
    if gap < -1e-7 * max(abs(objective), 1e-300):
        raise PluginError(
            f"loss '{loss.name}' claims to be convex, but a tangent of it passes above it by "
            f"{-gap:.3g}: fix the claim or the gradient, or use --optimizer gradient"
        )


def certificate(
    zero: Point, best: Point, history: list[dict[str, float]], reason: str
) -> Certificate:
    """What the last row of a history, with its `dual` bound, says of the best point."""
    last, gain = history[-1], zero.objective - best.objective
    gap = max(best.objective - last["dual"], 0.0)
    return Certificate(
        objective=best.objective,
        gap=gap,
        relative_gap=relative_gap(gap, gain),
        passes=len(history),
        nonzero_duals=int(last["nonzero_duals"]),
        risk=best.risk,
        risk_at_zero=zero.risk,
        stop_reason=reason,
    )
