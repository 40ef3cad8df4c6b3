"""Networks: of the LambdaRank papers (two layers), and RankLib's layers of logistic neurons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.models.model_file import SavedRanker, model_matrix
from owpc_ltr.models.trees import ROUNDS_TO_FINITE, logistic
from owpc_ltr.text import ShortRepr

_LARGEST = float(np.finfo(np.float32).max)  # products of these stay finite
_ARRAYS = ("weights", "biases", "outputs")
_ROWS = 8192  # scored at a time, so that the float64 copy of the features stays small


def missing_as_zero(features: NDArray[Any]) -> Vector:
    """The features in float64, a missing one as 0."""
    return np.nan_to_num(features.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class NetworkModel(SavedRanker):
    """Σ_k outputs_k · tanh(weights_k · features + biases_k) (Burges, Ragno & Le 2006, section 5).

    `weights` is (n_hidden, n_features), `biases` and `outputs` (n_hidden,). A missing feature
    counts 0.
    """

    kind: ClassVar[str] = "network"

    feature_names: tuple[str, ...]
    weights: NDArray[np.float64]
    biases: Vector
    outputs: Vector
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        hidden = len(self.biases)
        shapes = (self.weights.shape, self.outputs.shape)
        if shapes != ((hidden, len(self.feature_names)), (hidden,)):
            raise BadInput(
                f"a network of {hidden} hidden units over {len(self.feature_names)} features has "
                f"weights of shape {shapes[0]} and outputs of shape {shapes[1]}"
            )
        for name in _ARRAYS:
            if not (np.abs(getattr(self, name)) <= _LARGEST).all():
                raise BadInput(f"a network's {name} hold a number that is not a finite float32")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        scores = np.empty(len(features))
        for first in range(0, len(features), _ROWS):
            rows = missing_as_zero(features[first : first + _ROWS])
            hidden = np.tanh(rows @ self.weights.T + self.biases)
            scores[first : first + _ROWS] = hidden @ self.outputs
        return scores

    def sizes(self) -> dict[str, object]:
        """The hidden units."""
        return {"hidden units": len(self.biases)}

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        return {name: getattr(self, name).tolist() for name in _ARRAYS}

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> NetworkModel:
        """The network whose `as_dict` gave `content`. Raises BadInput."""
        weights, biases, outputs = (np.array(content[name], np.float64) for name in _ARRAYS)
        return cls(names, weights.reshape(-1, len(names)), biases, outputs, record)


LARGEST_NETWORK = 1_000_000  # weights


@dataclass(frozen=True, eq=False, repr=False)
class Layer(ShortRepr):
    """Neurons that see all of the layer before: `weights` (n_out, n_in) and `bias` (n_out,)."""

    weights: NDArray[np.float64]
    bias: Vector


@dataclass(frozen=True, eq=False, repr=False)
class LogisticNetwork(SavedRanker):
    """Layers of logistic neurons, the last of them one; a missing feature counts 0."""

    kind: ClassVar[str] = "logistic-network"

    feature_names: tuple[str, ...]
    layers: tuple[Layer, ...]
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        width = len(self.feature_names)
        for number, layer in enumerate(self.layers):
            if layer.weights.ndim != 2 or layer.weights.shape[1] != width:
                raise BadInput(f"layer {number} of the network does not take {width} inputs")
            if layer.bias.shape != layer.weights.shape[:1]:
                raise BadInput(f"layer {number} of the network has a bias of the wrong length")
            numbers = np.append(np.abs(layer.weights).ravel(), np.abs(layer.bias))
            if not (numbers <= ROUNDS_TO_FINITE).all():
                raise BadInput(f"layer {number} of the network has a weight that is not finite")
            width = layer.weights.shape[0]
        if not self.layers or width != 1:
            raise BadInput("the network does not end in one neuron")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        values = missing_as_zero(model_matrix(self, features))
        for layer in self.layers:
            values = logistic(values @ layer.weights.T + layer.bias)
        scores: Vector = values[:, 0]
        return scores

    def sizes(self) -> dict[str, object]:
        """The neurons of each layer."""
        return {"layers": ", ".join(str(len(layer.bias)) for layer in self.layers)}

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        layers = [(layer.weights.tolist(), layer.bias.tolist()) for layer in self.layers]
        return {"layers": [{"weights": weights, "bias": bias} for weights, bias in layers]}

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> LogisticNetwork:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        layers = []
        for layer in content["layers"]:
            weights, bias = (np.array(layer[name], np.float64) for name in ("weights", "bias"))
            layers.append(Layer(weights.reshape(len(layer["bias"]), -1), bias))
        return cls(names, tuple(layers), record)
