"""The risk of linear weights, R(w) = Σ_q v_q L_q(X_q w), in memory or over parts of the data.

A pass over the data gives R and its gradient at a point, or R and its slope at several points of a
line, which cost one read of the matrix together. The sums of parts are added in the order of the
parts: the result is the same whoever reckoned which part.

Methods of cutting planes minimise P(w) = ½‖w‖² + C R(w) with L_q convex. Their best point so far
moves by an exact line search towards each new one (Franc & Sonnenburg, JMLR 2009). The search runs
on two cached vectors of scores, and reads the matrix once. Any tangent of R lies below it, so a
maximum of tangents bounds P from below: that is the duality gap by which LaRank and the bundle
method stop (`Passes`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.errors import PluginError, Refused
from owpc_ltr.kernels.kernel import (
    add_rows,
    bind,
    linear_risk,
    linear_scores,
    losses_of_scores,
    query_blocks,
    run_blocks,
    score_rows,
    threads_worthwhile,
)
from owpc_ltr.protocols import Certificate, Loss, Run, relative_gap

_BLOCKS = 16  # of queries; their sums are added in order, whatever the number of threads


def part_sums(
    part: RankingDataset, loss: Loss, weights: Vector, threads: int = 1
) -> tuple[float, Vector]:
    """The risk of a part at some weights for features as they are, and its gradient."""
    return linear_risk(part, bind(loss), weights, threads)


def part_line(
    part: RankingDataset, loss: Loss, weights: Vector, step: Vector, shares: Vector
) -> tuple[Vector, Vector]:
    """The risk of a part at several points of a line, and its slope along the line there.

    The matrix is read twice, whatever the number of points.
    """
    bound, importance = bind(loss), part.query_importance
    scores, moves = linear_scores(part.features, weights), linear_scores(part.features, step)
    # The slope along the line, weighted: nothing is kept of a document.
    weighted = moves * np.repeat(importance, np.diff(part.offsets))
    risks, slopes = np.empty(len(shares)), np.empty(len(shares))
    for number, share in enumerate(shares):
        values, gradient, _ = losses_of_scores(part, bound, scores + share * moves)
        risks[number], slopes[number] = values @ importance, gradient @ weighted
    return risks, slopes


class RiskOfWeights:
    """What optimizers of linear models ask of the data; weights are for scaled features."""

    def __init__(self, loss: Loss, data: JudgedTable, threads: int = 1) -> None:
        self.loss, self.threads, self.scales = loss, threads, data.scales
        self.n_features = data.n_features
        # Weights are scaled here, for all parts.
        self.data = replace(data.without_missing(), feature_scales=None)
        self.in_a_part = threads if isinstance(data, RankingDataset) else 1

    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        """R(w) and ∇R(w); one pass."""
        risk, gradient = 0.0, np.zeros(self.n_features)
        sums = partial(
            part_sums, loss=self.loss, weights=weights * self.scales, threads=self.in_a_part
        )
        for part_risk, part_gradient in self.data.each(sums, self.threads):
            risk += part_risk
            gradient += part_gradient
        return risk, gradient * self.scales

    def along(self, weights: Vector, step: Vector, shares: Vector) -> tuple[Vector, Vector]:
        """R(w + k·step) and its slope in k, one entry for each share k; one pass."""
        risks, slopes = np.zeros(len(shares)), np.zeros(len(shares))
        line = partial(
            part_line,
            loss=self.loss,
            weights=weights * self.scales,
            step=step * self.scales,
            shares=shares,
        )
        for part_risks, part_slopes in self.data.each(line, self.threads):
            risks += part_risks
            slopes += part_slopes
        return risks, slopes


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
        self.importance: Vector | None = None
        if data.query_weights is not None:
            self.importance = np.repeat(data.query_importance, np.diff(data.offsets))

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
        lowest, objective = float(values.min(initial=0.0)), 0.5 * float(w @ w) + self.C * risk
        return Point(w, scores, risk, lowest, gradient=gradient, objective=objective)

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
        same = self.loss == other.loss and self.risk == other.risk
        return same and np.array_equal(self.slope, other.slope)


def check_finite(loss: str, risk: float, w: Vector) -> None:
    """Refuse weights at which a loss is no number."""
    if not np.isfinite(risk):
        raise Refused(
            f"loss '{loss}' is {risk} at weights of size {np.linalg.norm(w):.3g}: use a "
            "smaller C, or `normalise='scale'`"
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


NOTHING_TO_GAIN = "no model is better than the one that scores everything alike"


class TolerantOptimizer(Protocol):
    """An optimizer that stops at a gap within its tolerance, or after so many passes."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def tolerance(self) -> float:
        """The gap that it stops at, as a share of what was gained."""

    @property
    def passes(self) -> int:
        """The most passes."""


class Passes:
    """The passes of an optimizer with `tolerance` and `passes`: what each found, when it stops."""

    def __init__(self, optimizer: TolerantOptimizer, loss: Loss, zero: Point, run: Run) -> None:
        self.optimizer, self.loss, self.zero, self.run = optimizer, loss, zero, run
        self.history: list[dict[str, float]] = []
        self.gap, self.reason = abs(zero.objective), ""

    def add(self, lower: float, best: Point, duals: Vector) -> None:
        """Note a pass, whose dual variables bound P by `lower`; `reason` says why it is the last.

        That is gap ≤ tolerance · (P(0) − P(w)). Raises PluginError for a loss whose tangents pass
        above it: it is not convex.
        """
        self.gap = gap = best.objective - lower
        if gap < -1e-7 * max(abs(best.objective), 1e-300):
            raise PluginError(
                f"loss '{self.loss.name}' claims to be convex, but a tangent of it passes above it "
                f"by {-gap:.3g}: fix the claim or the gradient, or use `optimizer='gradient'`"
            )
        number, most = len(self.history) + 1, self.optimizer.passes
        row = {"pass": number, "dual": lower, "objective": best.objective, "gap": gap}
        self.history.append({**row, "nonzero_duals": int(np.count_nonzero(duals))})
        self.run.progress(f"{self.optimizer.name} pass {number}, gap {gap:.3g}", None)
        gain, scale = self.zero.objective - best.objective, abs(self.zero.objective)
        if max(gap, gain) <= 1e-9 * scale:
            self.reason = NOTHING_TO_GAIN
        elif gap <= max(self.optimizer.tolerance * gain, 1e-12 * scale):
            self.reason = f"gap within {self.optimizer.tolerance:g} of the gain"
        elif number == most:
            self.reason = f"stopped after {most} passes"

    def certificate(self, best: Point) -> Certificate:
        """What the last pass, with its `dual` bound, says of the best point."""
        last, gain = self.history[-1], self.zero.objective - best.objective
        gap = max(best.objective - last["dual"], 0.0)
        return Certificate(
            objective=best.objective,
            gap=gap,
            relative_gap=relative_gap(gap, gain),
            passes=len(self.history),
            nonzero_duals=int(last["nonzero_duals"]),
            risk=best.risk,
            risk_at_zero=self.zero.risk,
            stop_reason=self.reason,
        )
