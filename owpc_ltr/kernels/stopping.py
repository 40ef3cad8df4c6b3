"""When LaRank and the bundle method stop, by the duality gap, and what is certified then.

P(w) = ½‖w‖² + C R(w), R(w) = Σ_q v_q L_q(X_q w), with v_q the weight of query q and L_q convex.
Any tangent of R lies below it, so a maximum of tangents bounds P from below: the gap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import PluginError
from owpc_ltr.kernels.risk import Point
from owpc_ltr.protocols import Certificate, Loss, Run, relative_gap

NOTHING_TO_GAIN = "no model is better than the one that scores everything alike"


class Passes:
    """The passes of an optimizer with `tolerance` and `passes`: what each found, when it stops."""

    def __init__(self, optimizer: Any, loss: Loss, zero: Point, run: Run) -> None:
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
                f"by {-gap:.3g}: fix the claim or the gradient, or use --optimizer gradient"
            )
        number, most = len(self.history) + 1, self.optimizer.passes
        self.history.append(
            {
                "pass": number,
                "dual": lower,
                "objective": best.objective,
                "gap": gap,
                "nonzero_duals": int(np.count_nonzero(duals)),
            }
        )
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
