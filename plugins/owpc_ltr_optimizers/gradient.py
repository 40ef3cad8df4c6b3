"""Gradient: linear models, or a small network, for any loss, by the method that suits it.

Minimise P(w) = ½‖w‖² + C Σ_q v_q L_q(X_q w), with v_q the weight of query q.

- A conservative and smooth loss: L-BFGS (Liu & Nocedal 1989). P is 1-strongly convex where the
  loss is convex, so P(w) − min P ≤ ½‖∇P(w)‖²: that is the gap of the certificate.
- A convex loss with kinks: cutting planes, which is the optimizer `bundle`, with its gap.
- Any other loss, LambdaRank's above all, which is the gradient of nothing, and every network:
  Adam over batches of queries, without a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.data.partitioned.dataset import JudgedTable
from owpc_ltr.errors import Refused
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.risk import RiskOfWeights
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Optimizer, Run, relative_gap
from owpc_ltr_optimizers._adam import EpochSettings, minimise_by_batches
from owpc_ltr_optimizers.bundle import Bundle


@dataclass(frozen=True)
class Gradient:
    """Any loss: L-BFGS if it is smooth, cutting planes if convex, Adam over queries otherwise."""

    name: ClassVar[str] = "gradient"
    needs_convex: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = True

    C: float = 1.0
    tolerance: float = 1e-4
    passes: int = 2000
    model: Literal["linear", "network"] = "linear"
    hidden: int = 10
    epochs: int = 50
    batch: int = 4
    learning_rate: float = 0.01
    patience: int = 20

    def __post_init__(self) -> None:
        check_settings(self)
        if not (self.C > 0 and self.tolerance > 0 and self.learning_rate > 0):
            raise ValueError("C, tolerance and learning_rate must be positive")
        if min(self.passes, self.hidden, self.epochs, self.batch, self.patience) < 1:
            raise ValueError("passes, hidden, epochs, batch and patience must be 1 or more")

    def minimise(self, loss: Loss, data: JudgedTable, run: Run, start: Fit | None = None) -> Fit:
        """Fit by the method that the loss's claims allow."""
        data = data.without_missing()
        if self.model == "linear" and loss.conservative and loss.smooth:
            return _Descent(self, loss, data, run).fit(start)
        if self.model == "linear" and loss.convex:
            return Bundle(self.C, self.tolerance, self.passes).minimise(loss, data, run, start)
        hidden = self.hidden if self.model == "network" else 0
        batches = EpochSettings(
            C=self.C,
            hidden=hidden,
            epochs=self.epochs,
            batch=self.batch,
            learning_rate=self.learning_rate,
            patience=self.patience,
        )
        return minimise_by_batches(batches, loss, data.load(), run)

    def streams(self, loss: Loss) -> bool:
        """A linear model of a loss that is convex, or has a gradient of its own that is smooth."""
        return self.model == "linear" and (loss.convex or (loss.conservative and loss.smooth))


class _LbfgsState(NamedTuple):
    """What L-BFGS leaves for the next fit: where it ended."""

    w: Vector


class _Descent:
    """P, its gradient, and what L-BFGS has seen of them."""

    def __init__(self, settings: Gradient, loss: Loss, data: JudgedTable, run: Run) -> None:
        self.settings, self.loss, self.data, self.run = settings, loss, data, run
        self.of_weights = RiskOfWeights(loss, data, run.threads)
        self.w = np.zeros(data.n_features)
        self.gradient, self.risk = self.w, 0.0
        self.at_zero = self.value_and_gradient(self.w)[0]
        self.risk_at_zero = self.risk
        self.history: list[dict[str, float]] = []
        self.reason = ""

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """P(w) and ∇P(w), which are remembered."""
        risk, slope = self.of_weights.value_and_gradient(w)
        if not np.isfinite(risk):
            raise Refused(
                f"loss '{self.loss.name}' is {risk} at weights of size {np.linalg.norm(w):.3g}: "
                "use a smaller C, or --normalise scale"
            )
        self.w, self.risk, self.gradient = w.copy(), risk, w + self.settings.C * slope
        return 0.5 * float(w @ w) + self.settings.C * risk, self.gradient

    def fit(self, start: Fit | None) -> Fit:
        """Descend from w = 0, or from where a fit of neighbouring settings ended."""
        from scipy.optimize import minimize

        w = self._first(start)
        objective, _ = self.value_and_gradient(w)
        if not self._stops(objective):
            found = minimize(
                self.value_and_gradient,
                w,
                jac=True,
                method="L-BFGS-B",
                callback=self._after_pass,
                options={"maxiter": self.settings.passes, "maxfun": 20 * self.settings.passes}
                | {"ftol": 0.0, "gtol": 0.0, "maxcor": 20},
            )
            w = found.x
            objective, _ = self.value_and_gradient(w)
            self.reason = self.reason or self._why_it_ended()
        model = LinearModel(self.data.feature_names, w * self.data.scales)
        certificate = self._certificate(objective)
        return Fit(model, certificate, tuple(self.history), state=_LbfgsState(w))

    def _first(self, start: Fit | None) -> Vector:
        state = start.state if start is not None else None
        if isinstance(state, _LbfgsState) and state.w.shape == self.w.shape:
            return state.w
        if not self.loss.convex and not self.gradient.any():
            # All scores alike are a stationary point of losses that look at directions only.
            return 1e-3 * self.run.random().normal(size=self.data.n_features)
        return np.zeros(self.data.n_features)

    def _after_pass(self, intermediate_result: Any) -> None:
        if not np.array_equal(self.w, intermediate_result.x):
            self.value_and_gradient(intermediate_result.x)
        objective = float(intermediate_result.fun)
        stops = self._stops(objective)
        number = len(self.history) + 1
        self.history.append({"pass": number, "objective": objective, "gap": self._gap})
        self.run.progress(f"gradient pass {number}, objective {objective:.6g}", None)
        if stops:
            raise StopIteration

    @property
    def _gap(self) -> float:
        """½‖∇P‖²: a bound where the loss is convex, and what vanishes at the end anyway."""
        return 0.5 * float(self.gradient @ self.gradient)

    def _stops(self, objective: float) -> bool:
        gain = self.at_zero - objective
        if self.loss.convex and max(self._gap, gain) <= 1e-9 * abs(self.at_zero):
            self.reason = "no model is better than the one that scores everything alike"
        elif self._gap <= self.settings.tolerance * gain:
            what = "gap" if self.loss.convex else "half the squared gradient"
            self.reason = f"{what} within {self.settings.tolerance:g} of the gain"
        return bool(self.reason)

    def _why_it_ended(self) -> str:
        if len(self.history) >= self.settings.passes:
            return f"stopped after {self.settings.passes} passes"
        return "no step goes further down: rounding, or a gradient that is not that of the loss"

    def _certificate(self, objective: float) -> Certificate:
        gap = self._gap if self.loss.convex else float("nan")
        gain = self.at_zero - objective
        return Certificate(
            objective=objective,
            gap=gap,
            relative_gap=relative_gap(gap, gain),
            passes=len(self.history),
            risk=self.risk,
            risk_at_zero=self.risk_at_zero,
            stop_reason=self.reason,
        )


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer gradient`."""
    return [Gradient]
