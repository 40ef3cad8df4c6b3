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
from typing import ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.cutting_planes import (
    NOTHING_TO_GAIN,
    Origin,
    Point,
    Risk,
    certificate,
    check_below,
    reason_to_stop,
    row,
    search,
)
from owpc_ltr.kernels.risk import OverParts
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Fit, Loss, Optimizer, Run
from owpc_ltr_optimizers.bundle.planes import Planes, State
from owpc_ltr_optimizers.bundle.streamed import Aim, solve_by_passes

_BEHIND = 0.1  # where a new plane touches: this share of the way from the best point on


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
        check_settings(self)
        if not (self.C > 0 and self.tolerance > 0 and self.passes > 0):
            raise ValueError("C, tolerance and passes must be positive")

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Add planes until gap ≤ tolerance · (P(0) − P(w))."""
        risk = Risk(loss, data.without_missing(), self.C, run.threads)
        zero = risk.at_zero()
        planes, best = _start(start, risk, loss, zero)
        history: list[dict[str, float]] = []
        reason, gap = "", abs(zero.objective)
        while not reason:
            lower, w = planes.solve(1e-4 * gap)
            scores = risk.scores(w)
            best = search(risk, best, w, scores, 0.1 * gap)
            gap = best.objective - lower
            check_below(loss, gap, best.objective)
            history.append(row(len(history) + 1, lower, best, planes.alpha))
            run.progress(f"bundle pass {len(history)}, gap {gap:.3g}", None)
            reason = reason_to_stop(gap, zero, best, self.tolerance)
            if not reason and len(history) == self.passes:
                reason = f"stopped after {self.passes} passes"
            touch = risk.at(
                best.w + _BEHIND * (w - best.w), best.scores + _BEHIND * (scores - best.scores)
            )
            slope = risk.slope(touch.gradient)
            planes.add(slope, touch.risk - float(slope @ touch.w))
        if reason == NOTHING_TO_GAIN:
            best = zero
        # Scores were moved along lines: what is certified is measured afresh.
        best = risk.at(best.w, risk.scores(best.w))
        model = LinearModel(data.feature_names, best.w * data.scales)
        found = certificate(zero, best, history, reason)
        return Fit(model, found, tuple(history), state=State(planes, best.w))

    def streams(self, loss: Loss) -> bool:
        """Every convex loss is a sum over parts."""
        return loss.convex

    def minimise_parts(
        self, loss: Loss, data: PartitionedDataset, run: Run, start: Fit | None = None
    ) -> Fit:
        """The same over a folder of parts: its gap is that of all of them."""
        risk = OverParts(loss, data, run.threads)
        aim = Aim(self.C, self.tolerance, self.passes)
        found = solve_by_passes(aim, loss, risk, run, start)
        model = LinearModel(data.feature_names, found.state.w * data.scales)
        return Fit(model, found.certificate, found.history, found.state)


def _start(start: Fit | None, risk: Risk, loss: Loss, zero: Point) -> tuple[Planes, Point]:
    """The planes and the point to begin with: those of a fit of the same risk, or of w = 0."""
    origin = Origin(loss, zero.risk, risk.slope(zero.gradient))
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
