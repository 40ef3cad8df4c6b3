"""Subgradient descent with steps of 1/t: an example of an optimizer.

P(w) = ½‖w‖² + C risk(w) is strongly convex, and the step 1/t is the one that its curvature of 1
asks for (Pegasos: Shalev-Shwartz, Singer & Srebro 2007). The same curvature gives a certificate:
with g a subgradient of P at w, no model has an objective below P(w) − ½‖g‖².
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import RankingDataset, hookimpl
from owpc_ltr.types import Certificate, Fit, LinearModel, Loss, Optimizer, Run, bind, linear_risk


@dataclass(frozen=True)
class Subgradient:
    """w ← w − (w + C ∇risk(w)) / t, not further than the optimum can be (Shalev-Shwartz 2007).

    The best of all steps is kept, w = 0 among them.
    """

    name: ClassVar[str] = "subgradient"
    needs_convex: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = True

    C: float = 1.0
    steps: int = 200

    def __post_init__(self) -> None:
        if not (self.C > 0 and self.steps > 0):
            raise ValueError(f"C and steps must be above 0, not {self.C} and {self.steps}")

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Descend from w = 0; where other settings ended (`start`) is of no use to these steps."""
        bound = bind(loss)
        w = best = np.zeros(data.n_features)
        lowest, lower, risk_at_best, at_zero = np.inf, -np.inf, np.nan, np.nan
        history: list[dict[str, float]] = []
        for step in range(1, self.steps + 1):
            risk, slope = linear_risk(data, bound, w, run.threads)
            objective = 0.5 * float(w @ w) + self.C * risk
            subgradient = w + self.C * slope
            if step == 1:
                at_zero = risk
            if objective < lowest:
                best, lowest, risk_at_best = w, objective, risk
            lower = max(lower, objective - 0.5 * float(subgradient @ subgradient))
            history.append({"pass": step, "objective": lowest, "gap": lowest - lower})
            run.progress(f"step {step}, objective {lowest:.6g}", step / self.steps)
            w = w - subgradient / step
            # No optimum is further away: risks are not below 0, and that of w = 0 is known.
            reach, length = np.sqrt(2.0 * self.C * at_zero), float(np.linalg.norm(w))
            w = w * (reach / length) if length > reach else w
        gap, gained = max(lowest - lower, 0.0), self.C * at_zero - lowest
        certificate = Certificate(
            objective=lowest,
            gap=gap,
            relative_gap=gap / gained if gained > 0 else float("nan"),
            passes=self.steps,
            risk=risk_at_best,
            risk_at_zero=at_zero,
            stop_reason=f"stopped after {self.steps} steps",
        )
        # The weights are for features times their scales; the model's, for features as they are.
        model = LinearModel(data.feature_names, best * data.scales)
        return Fit(model, certificate, tuple(history))


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer subgradient`."""
    return [Subgradient]
