"""Bundle: a convex loss and a linear model, solved by cutting planes of the whole risk.

minimise P(w) = ½‖w‖² + C R(w), R(w) = Σ_q v_q L_q(X_q w), with v_q the weight of query q.

Any tangent a·w + b of the convex risk lies below it. Teo, Vishwanathan, Smola & Le (JMLR 2010,
BMRM) minimise ½‖w‖² + C max_i (a_i·w + b_i), whose dual over the simplex is
D(α) = C b·α − ½C²‖Σ α_i a_i‖² with w = −C Σ α_i a_i, and add the tangent found there. As in
Franc & Sonnenburg (JMLR 2009, OCAS), the best point so far moves by an exact line search towards
the new one, and the next plane touches the risk just behind it: the matrix is read twice a pass,
for the scores and for the plane's slope.

Nothing is asked of the loss but that it is convex: it may be negative. The gap is P(w) − D(α).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.data.partitioned import JudgedTable, PartitionedDataset
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.risk import (
    NOTHING_TO_GAIN,
    Passes,
    Point,
    Risk,
    RiskOfWeights,
    RiskOrigin,
    Tangent,
    check_finite,
    search,
)
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Fit, Loss, Optimizer, Run

_PLANES = 500  # kept at most; beyond, they are merged into one (still a lower bound)
_IDLE = 50  # passes that a plane with α = 0 is kept for


class State(NamedTuple):
    """What a fit leaves for the next one: planes bound the risk whatever C is."""

    planes: Planes
    w: Vector


class Planes:
    """Tangents a_i·w + b_i of the risk, their Gram matrix, and the dual variables α."""

    def __init__(self, origin: RiskOrigin, C: float) -> None:
        self.origin, self.C = origin, C
        self.slopes = np.zeros((0, len(origin.slope)))
        self.offsets, self.alpha = np.zeros(0), np.zeros(0)
        self.gram = np.zeros((0, 0))
        self.idle = np.zeros(0, dtype=np.int64)

    def at(self, C: float) -> Planes:
        """A copy for another C; the fit that it comes from keeps its own."""
        copy = Planes(self.origin, C)
        copy.slopes, copy.offsets, copy.gram = self.slopes, self.offsets, self.gram
        copy.alpha, copy.idle = self.alpha.copy(), np.zeros_like(self.idle)
        return copy

    def add(self, slope: Vector, offset: float) -> None:
        """Keep one more plane, after making room for it."""
        self._keep(self.idle <= _IDLE)
        if len(self.alpha) >= _PLANES:
            self._merge()
        row = self.slopes @ slope
        corner = np.array([slope @ slope])
        self.gram = np.block([[self.gram, row[:, None]], [row[None, :], corner[None, :]]])
        self.slopes = np.vstack((self.slopes, slope))
        self.offsets = np.append(self.offsets, offset)
        self.alpha = np.append(self.alpha, 0.0 if len(self.alpha) else 1.0)
        self.idle = np.append(self.idle, 0)

    def solve(self, accuracy: float) -> tuple[float, Vector]:
        """Maximise D; its value, a lower bound on P, and w."""
        self.alpha = _maximise_on_simplex(
            self.C * self.gram, self.offsets, self.alpha, accuracy / self.C
        )
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        w = -self.C * (self.alpha @ self.slopes)
        return float(self.C * (self.alpha @ self.offsets) - 0.5 * (w @ w)), w

    def _merge(self) -> None:
        """Replace all planes by their α-weighted mean, which bounds the risk as well as they do."""
        slope, offset = self.alpha @ self.slopes, float(self.alpha @ self.offsets)
        self._keep(np.zeros(len(self.alpha), dtype=bool))
        self.add(slope, offset)

    def _keep(self, chosen: NDArray[np.bool_]) -> None:
        if chosen.all():
            return
        self.slopes, self.offsets = self.slopes[chosen], self.offsets[chosen]
        self.alpha, self.idle = self.alpha[chosen], self.idle[chosen]
        self.gram = self.gram[np.ix_(chosen, chosen)]


def _maximise_on_simplex(Q: NDArray[np.float64], c: Vector, x: Vector, accuracy: float) -> Vector:
    """The maximum of c·x − ½xᵀQx over the simplex, from x on, by an active set.

    Newton steps within the support, cut short where an entry reaches 0; then the entry of the
    largest gradient joins. It ends when max gradient − x·gradient, the gap, is small enough.
    """
    support = x > 0
    joined = -1
    for _ in range(20 * len(x) + 20):
        slope = c - Q @ x
        # Rounding of the gradient is all that is left below this.
        negligible = max(accuracy, 1e-14 * float(np.abs(c).max() + np.abs(c - slope).max()))
        step = _newton_step(Q, slope, support, x)
        share = _largest_share(x, step)
        x = np.maximum(x + share * step, 0.0)
        if share < 1.0:
            blocked = support & (x <= 1e-15)
            x[blocked] = 0.0
            support &= ~blocked
            if share == 0.0 and joined >= 0 and blocked[joined]:
                break
            continue
        x /= x.sum()
        slope = c - Q @ x
        joined = int(np.argmax(slope))
        if slope[joined] - x @ slope <= negligible or support[joined]:
            break
        support[joined] = True
    x[~support] = 0.0
    result: Vector = x / x.sum()
    return result


def _newton_step(
    Q: NDArray[np.float64], slope: Vector, support: NDArray[np.bool_], x: Vector
) -> Vector:
    """The step to the maximum over the support, keeping Σ x: one entry pays for the others."""
    from scipy.linalg import cho_factor, cho_solve

    step = np.zeros_like(x)
    inside = np.flatnonzero(support)
    payer = inside[np.argmax(x[inside])]
    others = inside[inside != payer]
    if not len(others):
        return step
    block = Q[np.ix_(others, others)]
    curvature = block - Q[others, payer][:, None] - Q[payer, others][None, :] + Q[payer, payer]
    # Planes may be alike to the last bits: what is left of their curvature is rounding.
    ridge = 1e-13 * float(Q.diagonal().max()) + np.finfo(float).tiny
    while True:
        try:
            factor = cho_factor(curvature + ridge * np.eye(len(others)))
            break
        except np.linalg.LinAlgError:
            ridge *= 10.0
    step[others] = cho_solve(factor, slope[others] - slope[payer])
    step[payer] = -step[others].sum()
    return step


def _largest_share(x: Vector, step: Vector) -> float:
    """How much of a step can be taken before an entry would fall below 0; 1 at most."""
    falling = step < 0
    return float((x[falling] / -step[falling]).min(initial=1.0))


_BEHIND = 0.1  # where a new plane touches: this share of the way from the best point on
_SHARES = np.array([0.5, 1.0, 2.0])  # of the step that was best last time
_PASSES = 3  # of a line search, at most
_SHORTEST = 1e-4
_NOTHING = np.zeros(0)


def _start_by_passes(
    line: _Line, origin: RiskOrigin, zero: Point, start: Fit | None, near: Vector | None
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
    return planes, min(zero, point, key=lambda p: p.objective)


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

        tangents: list[Tangent] = []
        shares = np.unique(np.concatenate(([0.0, 1.0], self.share * _SHARES)))
        for _ in range(_PASSES):
            risks, slopes = self.risk.along(best.w, step, shares)
            tangents += map(Tangent, shares.tolist(), risks.tolist(), slopes.tolist())
            tangents.sort()
            falling = [t for t in tangents if linear + t.at * square + self.C * t.slope < 0]
            if not falling:
                break
            left = falling[-1]
            # The minimum is nearer than that of a tangent alone, since R's slope only grows.
            nearest = -(linear + self.C * left.slope) / square
            rising = [t for t in tangents if t.at > left.at]
            if not rising:
                shares = np.minimum(left.at * np.array([2.0, 4.0, 16.0]), nearest)
                continue
            right = rising[0]
            crossing = max(left.meets(right), -(linear + self.C * right.slope) / square)
            k = float(np.clip(min(nearest, crossing), left.at, right.at))
            lower = height(k, max(left.value(k), right.value(k)))
            if min(height(t.at, t.risk) for t in tangents) - lower <= accuracy:
                break
            shares = np.array([0.5 * (left.at + k), k, 0.5 * (k + right.at)])
        lowest = min(tangents, key=lambda t: height(t.at, t.risk))
        if lowest.at > 0:
            self.share = float(np.clip(lowest.at, _SHORTEST, 1.0))
            return self._point(best.w + lowest.at * step, lowest.risk)
        # What is nearest is still too far: the next search looks closer.
        self.share = max(0.25 * self.share, _SHORTEST)
        return best

    def _point(self, w: Vector, risk: float) -> Point:
        check_finite(self.loss.name, risk, w)
        objective = 0.5 * float(w @ w) + self.C * risk
        return Point(w, _NOTHING, risk, lowest=np.nan, gradient=_NOTHING, objective=objective)


@dataclass(frozen=True)
class Bundle:
    """Cutting planes of the whole risk with line search: any convex loss, and a certificate."""

    name: ClassVar[str] = "bundle"
    needs_convex: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = True

    C: float = 1.0
    tolerance: float = 1e-4
    passes: int = 2000

    def __post_init__(self) -> None:
        check_settings(self)
        if not (self.C > 0 and self.tolerance > 0 and self.passes > 0):
            raise ValueError("C, tolerance and passes must be positive")

    def minimise(self, loss: Loss, data: JudgedTable, run: Run, start: Fit | None = None) -> Fit:
        """Add planes until gap ≤ tolerance · (P(0) − P(w))."""
        if isinstance(data, PartitionedDataset):
            return self.minimise_by_passes(loss, data, run, start)
        risk = Risk(loss, data.without_missing(), self.C, run.threads)
        zero = risk.at_zero()
        planes, best = _start(start, risk, loss, zero)
        passes = Passes(self, loss, zero, run)
        while not passes.reason:
            lower, w = planes.solve(1e-4 * passes.gap)
            scores = risk.scores(w)
            best = search(risk, best, w, scores, 0.1 * passes.gap)
            passes.add(lower, best, planes.alpha)
            touch = risk.at(
                best.w + _BEHIND * (w - best.w), best.scores + _BEHIND * (scores - best.scores)
            )
            slope = risk.slope(touch.gradient)
            planes.add(slope, touch.risk - float(slope @ touch.w))
        if passes.reason == NOTHING_TO_GAIN:
            best = zero
        # Scores were moved along lines: what is certified is measured afresh.
        best = risk.at(best.w, risk.scores(best.w))
        return _fit(data, planes, passes, best)

    def minimise_by_passes(
        self,
        loss: Loss,
        data: JudgedTable,
        run: Run,
        start: Fit | None = None,
        near: Vector | None = None,
    ) -> Fit:
        """The same by passes over the parts of the data, which hold no number a document.

        `start` is a fit of the same risk with another C, `near` a point that may be a good one.
        """
        line = _Line(loss, RiskOfWeights(loss, data, run.threads), self.C)
        zero, slope = line.at(np.zeros(data.n_features))
        planes, best = _start_by_passes(line, RiskOrigin(loss, zero.risk, slope), zero, start, near)
        passes = Passes(self, loss, zero, run)
        while not passes.reason:
            lower, w = planes.solve(1e-4 * passes.gap)
            best = line.search(best, w, 0.1 * passes.gap)
            passes.add(lower, best, planes.alpha)
            if not passes.reason:
                touch, slope = line.at(best.w + _BEHIND * (w - best.w))
                planes.add(slope, touch.risk - float(slope @ touch.w))
        best = zero if passes.reason == NOTHING_TO_GAIN else line.at(best.w)[0]
        return _fit(data, planes, passes, best)

    def streams(self, loss: Loss) -> bool:
        """Every convex loss is a sum over parts."""
        return loss.convex


def _fit(data: JudgedTable, planes: Planes, passes: Passes, best: Point) -> Fit:
    model = LinearModel(data.feature_names, best.w * data.scales)
    state = State(planes, best.w)
    return Fit(model, passes.certificate(best), tuple(passes.history), state)


def _start(start: Fit | None, risk: Risk, loss: Loss, zero: Point) -> tuple[Planes, Point]:
    """The planes and the point to begin with: those of a fit of the same risk, or of w = 0."""
    origin = RiskOrigin(loss, zero.risk, risk.slope(zero.gradient))
    state = start.state if start is not None else None
    if isinstance(state, State) and state.planes.origin.is_that_of(origin):
        other = risk.at(state.w, risk.scores(state.w))
        return state.planes.at(risk.C), min(zero, other, key=lambda point: point.objective)
    planes = Planes(origin, risk.C)
    planes.add(origin.slope, origin.risk)
    return planes, zero


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer bundle`."""
    return [Bundle]
