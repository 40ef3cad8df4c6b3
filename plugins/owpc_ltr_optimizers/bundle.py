"""Bundle: a convex loss and a linear model, solved by cutting planes of the whole risk.

minimise P(w) = ½‖w‖² + C R(w), R(w) = Σ_q v_q L_q(X_q w), with v_q the weight of query q.

Any tangent a·w + b of the convex risk lies below it. Teo, Vishwanathan, Smola & Le (JMLR 2010,
BMRM) minimise ½‖w‖² + C max_i (a_i·w + b_i), whose dual over the simplex is
D(α) = C b·α − ½C²‖Σ α_i a_i‖² with w = −C Σ α_i a_i, and add the tangent found there. As in
Franc & Sonnenburg (JMLR 2009, OCAS), the best point so far moves by an exact line search towards
the new one, and the next plane touches the risk just behind it. The search runs on two cached
vectors of scores: the matrix is read twice a pass, for the scores and for the plane's slope.

Nothing is asked of the loss but that it is convex: it may be negative. The gap is P(w) − D(α).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.data import RankingDataset
from owpc_ltr.errors import PluginError, Refused
from owpc_ltr.interfaces import Certificate, Fit, Loss, Optimizer, Run, Vector
from owpc_ltr.kernels import bind
from owpc_ltr.linear import add_rows, losses_of_scores, query_blocks, run_blocks, score_rows
from owpc_ltr.models import LinearModel
from owpc_ltr_optimizers.planes import Origin, Planes

_BEHIND = 0.1  # where a new plane touches: this share of the way from the best point on
_NOTHING_TO_GAIN = "no model is better than the one that scores everything alike"
_BLOCKS = 16  # of queries; their sums are added in order, whatever the number of threads


@dataclass(frozen=True)
class Bundle:
    """Cutting planes of the whole risk with line search: any convex loss, and a certificate."""

    name: ClassVar[str] = "bundle"
    needs_convex: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = True

    C: float = 1.0
    tolerance: float = 1e-3
    passes: int = 2000

    def __post_init__(self) -> None:
        if not (self.C > 0 and self.tolerance > 0 and self.passes > 0):
            raise ValueError("C, tolerance and passes must be positive")

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Add planes until gap ≤ tolerance · (P(0) − P(w))."""
        risk = _Risk(loss, data.without_missing(), self.C, run.threads)
        zero = risk.at(np.zeros(data.n_features), np.zeros(data.n_documents))
        planes, best = _start(start, risk, loss, zero)
        history: list[dict[str, float]] = []
        reason, gap = "", abs(zero.objective)
        while not reason:
            lower, w = planes.solve(1e-4 * gap)
            scores = risk.scores(w)
            best = _search(risk, best, w, scores, 0.1 * gap)
            gap = best.objective - lower
            _check_below(loss, gap, best.objective)
            history.append(_row(len(history) + 1, lower, best, planes))
            run.progress(f"bundle pass {len(history)}, gap {gap:.3g}", None)
            reason = self._reason_to_stop(gap, zero.objective, best.objective, len(history))
            touch = risk.at(
                best.w + _BEHIND * (w - best.w), best.scores + _BEHIND * (scores - best.scores)
            )
            slope = risk.slope(touch.gradient)
            planes.add(slope, touch.risk - float(slope @ touch.w))
        if reason == _NOTHING_TO_GAIN:
            best = zero
        # Scores were moved along lines: what is certified is measured afresh.
        best = risk.at(best.w, risk.scores(best.w))
        certificate = _certificate(zero, best, history, reason)
        model = LinearModel(data.feature_names, best.w * data.scales)
        return Fit(model, certificate, tuple(history), state=_State(planes, best.w))

    def _reason_to_stop(self, gap: float, at_zero: float, objective: float, passes: int) -> str:
        """Why it is time to stop; empty where it is not."""
        gain = at_zero - objective
        if max(gap, gain) <= 1e-9 * abs(at_zero):
            return _NOTHING_TO_GAIN
        if gap <= max(self.tolerance * gain, 1e-12 * abs(at_zero)):
            return f"gap within {self.tolerance:g} of the gain"
        return f"stopped after {passes} passes" if passes == self.passes else ""


class _Point(NamedTuple):
    """Weights, their scores, and the risk there with its gradient in the scores."""

    w: Vector
    scores: Vector
    risk: float
    gradient: Vector
    objective: float


class _Risk:
    """R(w) through scores, so that a move along a line costs no read of the matrix."""

    def __init__(self, loss: Loss, data: RankingDataset, C: float, threads: int) -> None:
        self.data, self.C, self.threads = data, C, threads
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

    def at(self, w: Vector, scores: Vector) -> _Point:
        """The point of these weights and their scores."""
        values, gradient, _ = losses_of_scores(self.data, self.bound, scores, self.threads)
        risk = float(values @ self.data.query_importance)
        if not np.isfinite(risk):
            raise Refused(
                f"loss '{self.name}' is {risk} at weights of size {np.linalg.norm(w):.3g}: use a "
                "smaller C, or --normalise scale"
            )
        if self.importance is not None:
            gradient *= self.importance
        return _Point(w, scores, risk, gradient, 0.5 * float(w @ w) + self.C * risk)

    def slope(self, gradient: Vector) -> Vector:
        """The gradient in the weights, from that in the scores; one read of the matrix."""
        slopes = np.zeros((len(self.cuts) - 1, self.data.n_features))

        def block(index: int) -> None:
            rows = slice(self.cuts[index], self.cuts[index + 1])
            add_rows(self.data.features[rows], gradient[rows], slopes[index])

        run_blocks(block, len(self.cuts) - 1, self.threads)
        total: Vector = slopes.sum(axis=0) * self.data.scales
        return total


def _search(risk: _Risk, best: _Point, w: Vector, scores: Vector, accuracy: float) -> _Point:
    """The minimum of P on the ray from the best point through w, to the accuracy asked.

    Between a point where P falls and one where it rises, the tangents of R there bound P from
    below: the next point is the minimum of that bound.
    """
    step, along = w - best.w, scores - best.scores
    square, linear = float(step @ step), float(best.w @ step)
    left = _Tangent(0.0, best.risk, float(best.gradient @ along))
    right: _Tangent | None = None
    if square == 0.0 or linear + risk.C * left.slope >= 0:
        return best
    origin, k = best, 1.0
    half_norm = 0.5 * float(origin.w @ origin.w)
    for _ in range(12):
        point = risk.at(origin.w + k * step, origin.scores + k * along)
        best = min(best, point, key=lambda p: p.objective)
        tangent = _Tangent(k, point.risk, float(point.gradient @ along))
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


class _Tangent(NamedTuple):
    """A line below the risk on a ray: where it touches, the risk and the slope there."""

    at: float
    risk: float
    slope: float

    def value(self, k: float) -> float:
        return self.risk + (k - self.at) * self.slope

    def meets(self, other: _Tangent) -> float:
        """Where two tangents cross."""
        if other.slope <= self.slope:
            return other.at
        return (self.value(0) - other.value(0)) / (other.slope - self.slope)


class _State(NamedTuple):
    """What a fit leaves for the next one: planes bound the risk whatever C is."""

    planes: Planes
    w: Vector


def _start(start: Fit | None, risk: _Risk, loss: Loss, zero: _Point) -> tuple[Planes, _Point]:
    """The planes and the point to begin with: those of a fit of the same risk, or of w = 0."""
    origin = Origin(loss, zero.risk, risk.slope(zero.gradient))
    state = start.state if start is not None else None
    if isinstance(state, _State) and state.planes.origin.is_that_of(origin):
        other = risk.at(state.w, risk.scores(state.w))
        return state.planes.at(risk.C), min(zero, other, key=lambda point: point.objective)
    planes = Planes(origin, risk.C)
    planes.add(origin.slope, origin.risk)
    return planes, zero


def _row(number: int, lower: float, best: _Point, planes: Planes) -> dict[str, float]:
    return {
        "pass": number,
        "dual": lower,
        "objective": best.objective,
        "gap": best.objective - lower,
        "nonzero_duals": int(np.count_nonzero(planes.alpha)),
    }


def _certificate(
    zero: _Point, best: _Point, history: list[dict[str, float]], reason: str
) -> Certificate:
    last, gain = history[-1], zero.objective - best.objective
    gap = max(best.objective - last["dual"], 0.0)
    return Certificate(
        objective=best.objective,
        gap=gap,
        relative_gap=gap / gain if gain > 0 else float("inf"),
        passes=len(history),
        nonzero_duals=int(last["nonzero_duals"]),
        risk=best.risk,
        risk_at_zero=zero.risk,
        stop_reason=reason,
    )


def _check_below(loss: Loss, gap: float, objective: float) -> None:
    """Refuse a loss whose tangents pass above it: it is not convex."""
    if gap < -1e-7 * max(abs(objective), 1e-300):
        raise PluginError(
            f"loss '{loss.name}' claims to be convex, but a tangent of it passes above it by "
            f"{-gap:.3g}: mend the claim or the gradient, or use --optimizer gradient"
        )


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer bundle`."""
    return [Bundle]
