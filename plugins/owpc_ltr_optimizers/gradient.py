"""Gradient: linear models, or a small network, for any loss, by the method that suits it.

Minimise P(w) = ½‖w‖² + C Σ_q v_q L_q(X_q w), with v_q the weight of query q.

- A conservative and smooth loss: L-BFGS (Liu & Nocedal 1989). P is 1-strongly convex where the
  loss is convex, so P(w) − min P ≤ ½‖∇P(w)‖²: that is the gap of the certificate.
- A convex loss with kinks: cutting planes, which is the optimizer `bundle`, with its gap.
- Any other loss, LambdaRank's above all, which is the gradient of nothing (Burges, Ragno & Le
  2006), and every network: Adam over batches of queries (Kingma & Ba 2015), without a gap. Step
  sizes fall to 0 along half a cosine. The iterate of the best validation metric is kept where there
  are validation queries, else the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.errors import Refused
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.kernel import (
    BoundKernel,
    BoundLoss,
    Queries,
    add_rows,
    bind,
    call_kernel,
    losses_of_scores,
    score_rows,
)
from owpc_ltr.kernels.risk import NOTHING_TO_GAIN, RiskOfWeights, check_finite
from owpc_ltr.metrics.training_metrics import Judge
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.networks import NetworkModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Model, Optimizer, Run, relative_gap
from owpc_ltr_optimizers.bundle import Bundle

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


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
        return _by_batches(self, loss, data.load(), run)

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
        check_finite(self.loss.name, risk, w)
        self.w, self.risk, self.gradient = w.copy(), risk, w + self.settings.C * slope
        return 0.5 * float(w @ w) + self.settings.C * risk, self.gradient

    def fit(self, start: Fit | None) -> Fit:
        """Descend from w = 0, or from where a fit of neighbouring settings ended."""
        from scipy.optimize import minimize

        w = self._first(start)
        objective, _ = self.value_and_gradient(w)
        if not self._stops(objective):
            most = {"maxiter": self.settings.passes, "maxfun": 20 * self.settings.passes}
            w = minimize(
                self.value_and_gradient,
                w,
                jac=True,
                method="L-BFGS-B",
                callback=self._after_pass,
                options={**most, "ftol": 0.0, "gtol": 0.0, "maxcor": 20},
            ).x
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

    def _after_pass(self, intermediate_result: OptimizeResult) -> None:
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
            self.reason = NOTHING_TO_GAIN
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


_ROWS = 8192
_SMALLEST = 2.0**-30


def _by_batches(settings: Gradient, loss: Loss, data: RankingDataset, run: Run) -> Fit:
    """Adam until the validation metric has not risen for `patience` epochs, or to the last one."""
    bound, random = bind(loss), run.random()
    shape = _shape_of(data, settings.hidden if settings.model == "network" else 0)
    theta = _first(shape, random)
    walk = _Walk(theta, np.zeros_like(theta), np.zeros_like(theta), np.zeros(1, np.int64))
    rows = (data.features, data.labels, data.weights, data.query_importance, data.offsets)
    total = max(float(data.query_importance.sum()), np.finfo(float).tiny)
    steps = -(-data.n_queries // settings.batch) * settings.epochs
    decay = 1.0 / (settings.C * total)
    rates = (data.n_queries / total, decay, settings.learning_rate, steps)
    judge: Judge[Vector] = Judge(run, settings.patience)
    history: list[dict[str, float]] = []
    reason = f"stopped after {settings.epochs} epochs"
    for epoch in range(1, settings.epochs + 1):
        order = random.permutation(data.n_queries)
        kernel, layout = (bound.address, bound.parameters), shape[1:]
        seen = _walk_over(kernel, rows, order, settings.batch, layout, walk, rates)
        bound.raise_failure()
        risk = seen / total
        if not (np.isfinite(risk) and np.isfinite(walk.theta).all()):
            raise Refused(
                f"loss '{loss.name}' became {risk} in epoch {epoch}: use a smaller "
                "learning_rate, or `normalise='scale'`"
            )
        row = {"pass": epoch, "risk": risk} | judge.see(
            walk.theta.copy(), shape.model(walk.theta).score
        )
        history.append(row)
        figures = ", ".join(f"{name} {value:.4g}" for name, value in row.items() if name != "pass")
        run.progress(f"epoch {epoch} of {settings.epochs}, {figures}", epoch / settings.epochs)
        if judge.lost_patience:
            reason = f"{judge.verdict} epoch {judge.best_number}"
            break
    assert judge.best is not None  # noqa: S101 - there is one epoch at least
    model, certificate = _finish(
        C=settings.C, loss=loss, bound=bound, data=data, shape=shape, theta=judge.best
    )
    certificate = replace(certificate, passes=len(history), stop_reason=reason)
    return Fit(model, certificate, tuple(history))


class _NetworkShape(NamedTuple):
    """What the parameters θ mean: hidden weights (hidden, n_features), biases, output weights.

    Hidden units see (feature · scale − mean) · inverse deviation, which is folded into weights
    for the features as they are. A linear model has no hidden units, and θ is its weights.
    """

    names: tuple[str, ...]
    hidden: int
    scale: Vector
    shift: Vector

    def parts(self, theta: Vector) -> tuple[NDArray[np.float64], Vector, Vector]:
        """Views of the hidden weights, the hidden biases and the output weights."""
        inside = self.hidden * len(self.names)
        weights = theta[:inside].reshape(self.hidden, len(self.names))
        return weights, theta[inside : inside + self.hidden], theta[inside + self.hidden :]

    def shrunk(self, theta: Vector, factor: float) -> Vector:
        """The parameters whose scores are those of θ times a factor."""
        smaller = theta.copy()
        smaller[-self.hidden or None :] *= factor
        return smaller

    def model(self, theta: Vector) -> Model:
        """The model of these parameters, for the features as they are."""
        if not self.hidden:
            return LinearModel(self.names, theta * self.scale)
        weights, biases, outputs = self.parts(theta)
        return NetworkModel(
            self.names, weights * self.scale, biases - weights @ self.shift, outputs.copy()
        )


def _shape_of(data: RankingDataset, hidden: int) -> _NetworkShape:
    if not hidden:
        return _NetworkShape(data.feature_names, 0, data.scales, np.zeros(data.n_features))
    mean, deviation = (part * data.scales for part in _moments(data.features))
    # What is left of a constant feature is rounding, not signal.
    varies = deviation > 1e-7 * np.abs(mean)
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return _NetworkShape(data.feature_names, hidden, data.scales * inverse, mean * inverse)


def _moments(features: Matrix) -> tuple[Vector, Vector]:
    """Mean and standard deviation of each column, without a float64 copy of them all."""
    blocks = np.array_split(features, max(1, len(features) // _ROWS))
    mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / len(features)
    squares = sum(((block - mean) ** 2).sum(axis=0) for block in blocks)
    return mean, np.sqrt(squares / len(features))


def _first(shape: _NetworkShape, random: np.random.Generator) -> Vector:
    """Scores of 0: a linear model's weights, or a network's output weights, are 0.

    Its hidden weights are random, of the size that Glorot & Bengio (2010) advise.
    """
    features = len(shape.names)
    if not shape.hidden:
        return np.zeros(features)
    weights = random.normal(size=(shape.hidden, features)) * np.sqrt(2 / (features + 1))
    return np.concatenate((weights.ravel(), np.zeros(2 * shape.hidden)))


Layout = tuple[int, Vector, Vector]
"""Hidden units, the scale of each feature, and its shift."""


class _Walk(NamedTuple):
    """The parameters, Adam's running means of the gradient and its square, and its steps."""

    theta: Vector
    mean: Vector
    square: Vector
    steps: NDArray[np.int64]


@compiled
def _walk_over(
    kernel: BoundKernel,
    rows: Queries,
    order: IntVector,
    batch: int,
    layout: Layout,
    walk: _Walk,
    rates: tuple[float, float, float, int],
) -> float:
    """Adam steps on P / (C Σ v), a batch of queries at a time."""
    weight, decay, learning_rate, all_steps = rates
    offsets, hidden = rows[4], layout[0]
    longest = 0
    for query in range(len(offsets) - 1):
        longest = max(longest, offsets[query + 1] - offsets[query])
    room = np.empty((hidden + 2, longest))
    gradient = np.empty_like(walk.theta)
    risk = 0.0
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        gradient[:] = 0.0
        for query in chosen:
            risk += _add_query(kernel, rows, query, layout, walk.theta, gradient, room)
        gradient *= weight / len(chosen)
        gradient += decay * walk.theta
        progress = walk.steps[0] / all_steps
        rate = learning_rate * 0.5 * (1.0 + np.cos(np.pi * progress))
        _adam_step(walk, gradient, rate)
    return risk


@compiled
def _adam_step(walk: _Walk, gradient: Vector, rate: float) -> None:
    walk.steps[0] += 1
    first, second = 1.0 - 0.9 ** walk.steps[0], 1.0 - 0.999 ** walk.steps[0]
    for k in range(len(gradient)):
        walk.mean[k] = 0.9 * walk.mean[k] + 0.1 * gradient[k]
        walk.square[k] = 0.999 * walk.square[k] + 0.001 * gradient[k] ** 2
        walk.theta[k] -= rate * walk.mean[k] / first / (np.sqrt(walk.square[k] / second) + 1e-12)


@compiled
def _add_query(
    kernel: BoundKernel,
    rows: Queries,
    query: int,
    layout: Layout,
    theta: Vector,
    gradient: Vector,
    room: NDArray[np.float64],
) -> float:
    """Add one query's gradient in θ; its weighted loss."""
    address, parameters = kernel
    features, labels, weights, importance, offsets = rows
    hidden, scale, shift = layout
    start, end = offsets[query], offsets[query + 1]
    X, m, d = features[start:end], end - start, features.shape[1]
    scores, slopes, nothing = room[hidden, :m], room[hidden + 1, :m], np.empty(0)
    if hidden == 0:
        score_rows(X, theta * scale, scores)
    else:
        scores[:] = 0.0
        for unit in range(hidden):
            inner, outer = theta[unit * d : (unit + 1) * d], theta[hidden * (d + 1) + unit]
            active = room[unit, :m]
            score_rows(X, inner * scale, active)
            bias = theta[hidden * d + unit] - np.sum(inner * shift)
            for row in range(m):
                active[row] = np.tanh(active[row] + bias)
                scores[row] += outer * active[row]
    risk: float = importance[query] * call_kernel(
        address, scores, labels[start:end], weights[start:end], parameters, slopes, nothing
    )
    slopes *= importance[query]
    total = np.empty(d)
    if hidden == 0:
        total[:] = 0.0
        add_rows(X, slopes, total)
        gradient += total * scale
    for unit in range(hidden):
        outer, active = theta[hidden * (d + 1) + unit], room[unit, :m]
        gradient[hidden * (d + 1) + unit] += np.sum(slopes * active)
        active[:] = slopes * outer * (1.0 - active**2)
        total[:] = 0.0
        add_rows(X, active, total)
        bias = np.sum(active)
        gradient[unit * d : (unit + 1) * d] += total * scale - bias * shift
        gradient[hidden * d + unit] += bias
    return risk


def _finish(
    C: float,
    loss: Loss,
    bound: BoundLoss,
    data: RankingDataset,
    shape: _NetworkShape,
    theta: Vector,
) -> tuple[Model, Certificate]:
    """The model, and its objective and risk without a bound.

    A metric does not see the size of scores, by which the epoch that it chose may be worse than
    scoring everything 0: such scores are halved until they are not. The value of a loss that is
    no cost (LambdaRank's) says nothing of that: its risk is NaN.
    """

    def risk(scores: Vector) -> float:
        return float(losses_of_scores(data, bound, scores)[0] @ data.query_importance)

    scores, factor = shape.model(theta).score(data.features), 1.0
    reached, at_zero = risk(scores), risk(np.zeros(data.n_documents))
    while loss.conservative and reached > at_zero and factor > _SMALLEST:
        factor *= 0.5
        reached = risk(factor * scores)
    theta = shape.shrunk(theta, factor)
    objective = 0.5 * float(theta @ theta) + C * reached
    if not loss.conservative:
        reached = at_zero = float("nan")
    return shape.model(theta), Certificate(objective, risk=reached, risk_at_zero=at_zero)


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer gradient`."""
    return [Gradient]
