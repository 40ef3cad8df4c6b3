"""Contributions of linear models, additive models and networks to their scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.networks import Layer, LogisticNetwork, NetworkModel
from owpc_ltr.models.trees import logistic


@dataclass(frozen=True, eq=False)
class Contributions:
    """`baseline` plus a document's row of `amounts` (n_documents, n_features) is its score.

    `method` says in words how the scores were shared out.
    """

    amounts: Vector
    baseline: float
    method: str

    @property
    def scores(self) -> Vector:
        """What they add up to."""
        return np.asarray(self.baseline + self.amounts.sum(axis=1))

    def times(self, share: float) -> Contributions:
        """Those of the scores times a number."""
        return Contributions(share * self.amounts, share * self.baseline, self.method)


def known(features: Matrix) -> Vector:
    """The features in float64, a missing one as 0."""
    return np.nan_to_num(features.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)


LINEAR_METHOD = "weight × value, and the intercept as the baseline"


def of_linear(model: LinearModel, features: Matrix) -> Contributions:
    """What each feature adds; a missing one nothing beside the intercept."""
    weights, intercept = model.folded()
    return Contributions(known(features) * weights, intercept, LINEAR_METHOD)


def weights_in_words(model: LinearModel) -> tuple[str, ...]:
    """The weight of each feature as it comes."""
    return tuple(f"weight {weight:.4g}" for weight in model.folded()[0].tolist())


CURVES_METHOD = "each feature's curve at its value"


def of_curves(model: AdditiveModel, features: Matrix) -> Contributions:
    """What each curve gives; a missing value what the curve gives to it."""
    amounts = np.zeros(features.shape)
    for column, name in enumerate(model.feature_names):
        if name in model.curves:
            amounts[:, column] = model.curves[name].at(features[:, column].astype(np.float64))
    return Contributions(amounts, 0.0, CURVES_METHOD)


def curves_in_words(model: AdditiveModel) -> tuple[str, ...]:
    """The size of each feature's curve."""
    knots = [len(model.curves[n].knots) if n in model.curves else 0 for n in model.feature_names]
    return tuple(f"curve, {count} knots" if count else "no curve" for count in knots)


NETWORK_METHOD = (
    "DeepLIFT's rescale rule, from the document whose features are all 0, which is the baseline"
)
_LEAST = 1e-6
"""An input that moved less moves the output by its derivative, to all digits that there are."""


def of_network(model: NetworkModel | LogisticNetwork, features: Matrix) -> Contributions:
    """What each feature moved the score by, from the score of the document of zeros."""
    rows = known(features)
    if isinstance(model, NetworkModel):
        layers = [Layer(model.weights, model.biases)]
        return _rescaled(rows, layers, np.tanh, lambda y: 1 - y * y, model.outputs)
    return _rescaled(rows, model.layers, logistic, lambda y: y * (1 - y), np.ones(1))


def _rescaled(
    rows: Vector,
    layers: list[Layer] | tuple[Layer, ...],
    neuron: Callable[[Vector], Vector],
    derivative: Callable[[Vector], Vector],
    outputs: Vector,
) -> Contributions:
    """The rule for layers of one kind of neuron, of which `outputs` weighs the last."""
    values, zero = rows, np.zeros((1, rows.shape[1]))
    # What a unit of each feature moves each value by: the identity, to begin with.
    moved = np.broadcast_to(np.eye(rows.shape[1]), (len(rows), rows.shape[1], rows.shape[1]))
    for layer in layers:
        inputs, at_zero = (each @ layer.weights.T + layer.bias for each in (values, zero))
        values, zero = neuron(inputs), neuron(at_zero)
        slopes = _slopes(inputs - at_zero, values - zero, derivative(zero))
        moved = (moved @ layer.weights.T) * slopes[:, None, :]
    return Contributions(rows * (moved @ outputs), float((zero @ outputs)[0]), NETWORK_METHOD)


def _slopes(inputs: Vector, outputs: Vector, derivatives: Vector) -> Vector:
    still = np.abs(inputs) < _LEAST
    return np.where(still, derivatives, outputs / np.where(still, 1.0, inputs))
