"""Adam over batches of queries (Kingma & Ba 2015), for linear models and two-layer networks.

It follows the gradient that a loss gives, whether or not it is the gradient of anything, as
LambdaRank needs (Burges, Ragno & Le 2006). Step sizes fall to 0 along half a cosine. The iterate
of the best validation metric is kept where there are validation queries, else the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import Refused
from owpc_ltr.kernels.kernel import BoundLoss, bind, call_kernel
from owpc_ltr.kernels.linear import add_rows, losses_of_scores, score_rows
from owpc_ltr.metrics.training_metrics import Judge
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.networks import NetworkModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Model, Run

_ROWS = 8192
_SMALLEST = 2.0**-30


@dataclass(frozen=True)
class EpochSettings:
    """How to walk: `hidden` units (0 for a linear model), queries a batch, patience in epochs."""

    C: float
    hidden: int
    epochs: int
    batch: int
    learning_rate: float
    patience: int


def minimise_by_batches(how: EpochSettings, loss: Loss, data: RankingDataset, run: Run) -> Fit:
    """Walk until the validation metric has not risen for `patience` epochs, or to the last one."""
    bound, random = bind(loss), run.random()
    shape = _shape_of(data, how.hidden)
    walk = _Walk.begin(_first(shape, random))
    judge: Judge[Vector] = Judge(run, how.patience)
    history: list[dict[str, float]] = []
    reason = f"stopped after {how.epochs} epochs"
    for epoch in range(1, how.epochs + 1):
        order = random.permutation(data.n_queries)
        risk = _epoch(how=how, bound=bound, data=data, shape=shape, walk=walk, order=order)
        if not (np.isfinite(risk) and np.isfinite(walk.theta).all()):
            raise Refused(
                f"loss '{loss.name}' became {risk} in epoch {epoch}: use a smaller "
                "learning_rate, or --normalise scale"
            )
        row = {"pass": epoch, "risk": risk} | judge.see(
            walk.theta.copy(), shape.model(walk.theta).score
        )
        history.append(row)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in row.items() if name != "pass")
        run.progress(f"epoch {epoch} of {how.epochs}, {shown}", epoch / how.epochs)
        if judge.lost_patience:
            reason = f"{judge.verdict} epoch {judge.best_number}"
            break
    assert judge.best is not None  # noqa: S101 - there is one epoch at least
    model, certificate = _finish(
        C=how.C, loss=loss, bound=bound, data=data, shape=shape, theta=judge.best
    )
    certificate = replace(certificate, passes=len(history), stop_reason=reason)
    return Fit(model, certificate, tuple(history))


class _NetworkShape(NamedTuple):
    """What the parameters θ mean: hidden weights (hidden, n_features), biases, output weights.

    Secret units see (feature · scale − mean) · inverse deviation, which is folded into weights
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


class _Walk(NamedTuple):
    """The parameters, Adam's running means of the gradient and its square, and its steps."""

    theta: Vector
    mean: Vector
    square: Vector
    steps: NDArray[np.int64]

    @classmethod
    def begin(cls, theta: Vector) -> _Walk:
        return cls(theta, np.zeros_like(theta), np.zeros_like(theta), np.zeros(1, np.int64))


def _epoch(
    how: EpochSettings,
    bound: BoundLoss,
    data: RankingDataset,
    shape: _NetworkShape,
    walk: _Walk,
    order: NDArray[np.int64],
) -> float:
    """One pass over the queries in this order; the mean loss that it saw."""
    rows = (data.features, data.labels, data.weights, data.query_importance, data.offsets)
    total = max(float(data.query_importance.sum()), np.finfo(float).tiny)
    batches = -(-data.n_queries // how.batch)
    risk: float = _walk_over(
        bound.address,
        bound.parameters,
        rows,
        order,
        how.batch,
        shape.hidden,
        shape.scale,
        shape.shift,
        walk,
        data.n_queries / total,
        1.0 / (how.C * total),
        how.learning_rate,
        batches * how.epochs,
    )
    bound.raise_failure()
    return risk / total


@compiled
def _walk_over(
    address: int,
    parameters: Any,
    rows: Any,
    order: Any,
    batch: int,
    hidden: int,
    scale: Any,
    shift: Any,
    walk: Any,
    weight: float,
    decay: float,
    learning_rate: float,
    all_steps: int,
) -> float:
    """Adam steps on P / (C Σ v), a batch of queries at a time."""
    offsets = rows[4]
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
            risk += _add_query(
                address, parameters, rows, query, hidden, scale, shift, walk.theta, gradient, room
            )
        gradient *= weight / len(chosen)
        gradient += decay * walk.theta
        progress = walk.steps[0] / all_steps
        rate = learning_rate * 0.5 * (1.0 + np.cos(np.pi * progress))
        _adam_step(walk, gradient, rate)
    return risk


@compiled
def _adam_step(walk: Any, gradient: Any, rate: float) -> None:
    walk.steps[0] += 1
    first, second = 1.0 - 0.9 ** walk.steps[0], 1.0 - 0.999 ** walk.steps[0]
    for k in range(len(gradient)):
        walk.mean[k] = 0.9 * walk.mean[k] + 0.1 * gradient[k]
        walk.square[k] = 0.999 * walk.square[k] + 0.001 * gradient[k] ** 2
        walk.theta[k] -= rate * walk.mean[k] / first / (np.sqrt(walk.square[k] / second) + 1e-12)


@compiled
def _add_query(
    address: int,
    parameters: Any,
    rows: Any,
    query: int,
    hidden: int,
    scale: Any,
    shift: Any,
    theta: Any,
    gradient: Any,
    room: Any,
) -> float:
    """Add one query's gradient in θ; its weighted loss."""
    features, labels, weights, importance, offsets = rows
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
    found, at_zero = risk(scores), risk(np.zeros(data.n_documents))
    while loss.conservative and found > at_zero and factor > _SMALLEST:
        factor *= 0.5
        found = risk(factor * scores)
    theta = shape.shrunk(theta, factor)
    objective = 0.5 * float(theta @ theta) + C * found
    if not loss.conservative:
        found = at_zero = float("nan")
    return shape.model(theta), Certificate(objective, risk=found, risk_at_zero=at_zero)
