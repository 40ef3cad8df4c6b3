"""LaRank: a convex loss and a linear model, solved in the dual to a duality gap.

minimise P(w) = ½‖w‖² + C Σ_q v_q L_q(X_q w), with v_q the weight of query q and L_q ≥ 0 convex.

Bordes, Bottou, Gallinari & Weston (ICML 2007) solve max-margin problems with structured outputs
by visiting one example at a time: find its most violated output (ProcessNew), and re-balance the
dual variables of the outputs that are kept (ProcessOld, Optimize). For OWPC the outputs are the
pairs (σ, b) of Usunier, Buffoni & Gallinari (ICML 2009, eqs 4–7), and the most violated one comes
from one sort (their Prop. 3). Both are the tangent of the loss at the current scores: slope
d = Xᵀg and offset L(s) − g·s, so any convex loss is solved by the same lines.

With patterns p (tangents) of each query and dual variables β ≥ 0, Σ_{p of q} β_p ≤ C v_q:
w = −Σ β_p d_p and D(β) = Σ β_p offset_p − ½‖w‖². The gap is P(w) − D(β).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.data import RankingDataset
from owpc_ltr.errors import Refused
from owpc_ltr.interfaces import Certificate, Fit, Loss, Optimizer, Run, Vector
from owpc_ltr.kernels import BoundLoss, bind
from owpc_ltr.linear import linear_values
from owpc_ltr.models import LinearModel
from owpc_ltr_optimizers.dual import pass_over, refresh, start_dual, with_room


@dataclass(frozen=True)
class LaRank:
    """A dual solver for convex losses: few passes, a sparse dual, and a certificate."""

    name: ClassVar[str] = "larank"
    needs_convex: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = True

    C: float = 1.0
    tolerance: float = 1e-3
    passes: int = 500

    def __post_init__(self) -> None:
        if not (self.C > 0 and self.tolerance > 0 and self.passes > 0):
            raise ValueError("C, tolerance and passes must be positive")

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Visit queries in random order until gap ≤ tolerance · (P(0) − P(w))."""
        data = data.without_missing()
        bound = bind(loss)
        dual = start_dual(data, self.C, start)
        best = _Best(data, bound, self.C, run.threads)
        generator = run.generator()
        history: list[dict[str, float]] = []
        reason = f"stopped after {self.passes} passes"
        for number in range(1, self.passes + 1):
            dual = with_room(dual, data.n_queries)
            seen = pass_over(data, bound, dual, generator.permutation(data.n_queries))
            lower = refresh(dual)
            duals = int(np.count_nonzero(dual.beta))
            row = {"pass": number, "dual": lower, "nonzero_duals": duals}
            history.append(row)
            # The pass itself saw the gap, each query at its own moment: near the end, look closely.
            near = seen <= 2 * self.tolerance * best.gain
            if not (near or number % 10 == 0 or number in {1, self.passes}):
                continue
            best.consider(dual.w)
            gap = best.objective - lower
            row |= {"objective": best.objective, "gap": gap}
            run.progress(f"larank pass {number}, gap {gap:.3g}", None)
            nothing = 1e-9 * best.at_zero
            if gap <= max(self.tolerance * best.gain, nothing):
                reason = f"gap within {self.tolerance:g} of the gain"
                if best.gain <= nothing:
                    reason = "no model is better than the one that scores everything alike"
                break
        certificate = best.certificate(lower, number, duals, reason)
        model = LinearModel(data.feature_names, best.w * data.scales)
        return Fit(model, certificate, tuple(history), state=dual)


class _Best:
    """The best primal point seen, starting from w = 0."""

    def __init__(self, data: RankingDataset, bound: BoundLoss, C: float, threads: int) -> None:
        self.data, self.bound, self.C, self.threads = data, bound, C, threads
        self.w = np.zeros(data.n_features)
        self.risk = self.risk_at_zero = self._risk(self.w)
        self.objective = self.at_zero = C * self.risk

    @property
    def gain(self) -> float:
        """P(0) − P(w)."""
        return self.at_zero - self.objective

    def consider(self, w: Vector) -> None:
        """Keep w if it is better."""
        risk = self._risk(w)
        objective = 0.5 * float(w @ w) + self.C * risk
        if objective < self.objective:
            self.w, self.risk, self.objective = w.copy(), risk, objective

    def certificate(self, lower: float, passes: int, duals: int, reason: str) -> Certificate:
        """What is known of the best point, given a lower bound."""
        gap = max(self.objective - lower, 0.0)
        return Certificate(
            objective=self.objective,
            gap=gap,
            relative_gap=gap / self.gain if self.gain > 0 else float("inf"),
            passes=passes,
            nonzero_duals=duals,
            risk=self.risk,
            risk_at_zero=self.risk_at_zero,
            stop_reason=reason,
        )

    def _risk(self, w: Vector) -> float:
        values = linear_values(self.data, self.bound, w * self.data.scales, self.threads)
        if (values < 0).any():
            raise Refused(
                "larank needs a loss that is nowhere negative: add a constant to it, or use "
                "--optimizer gradient"
            )
        return float(values @ self.data.query_importance)


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer larank`."""
    return [LaRank]
