"""When LaRank and the bundle method stop, by the duality gap, and what is certified then.

P(w) = ½‖w‖² + C R(w), R(w) = Σ_q v_q L_q(X_q w), with v_q the weight of query q and L_q convex.
Any tangent of R lies below it, so a maximum of tangents bounds P from below: the gap.
"""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import PluginError
from owpc_ltr.kernels.risk import Point
from owpc_ltr.protocols import Certificate, Loss, relative_gap

NOTHING_TO_GAIN = "no model is better than the one that scores everything alike"


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
