"""Contributions of networks: DeepLIFT's rescale rule, from the document whose features are all 0.

Each neuron passes on what its input moved, times its own slope: output moved / input moved
(Shrikumar, Greenside & Kundaje 2017, section 3.5.1). The contributions add up to the score, less
that of the document of zeros, which is what a missing feature counts as. For one hidden layer and
a linear output they are the integrated gradients (Sundararajan, Taly & Yan 2017).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.explanations.contributions import Contributions, known
from owpc_ltr.models.network import NetworkModel
from owpc_ltr.models.ranklib_network import Layer, LogisticNetwork
from owpc_ltr.models.trees import logistic

METHOD = (
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
    return Contributions(rows * (moved @ outputs), float((zero @ outputs)[0]), METHOD)


def _slopes(inputs: Vector, outputs: Vector, derivatives: Vector) -> Vector:
    still = np.abs(inputs) < _LEAST
    return np.where(still, derivatives, outputs / np.where(still, 1.0, inputs))
