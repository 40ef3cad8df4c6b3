"""RankLib's networks: layers of logistic neurons (RankNet, LambdaRank, ListNet)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.models.forest import ROUNDS_TO_FINITE
from owpc_ltr.models.linear import SavedRanker
from owpc_ltr.models.matrix import model_matrix
from owpc_ltr.models.trees import logistic

LARGEST_NETWORK = 1_000_000  # weights


@dataclass(frozen=True, eq=False)
class Layer:
    """Neurons that see all of the layer before: `weights` (n_out, n_in) and `bias` (n_out,)."""

    weights: NDArray[np.float64]
    bias: Vector


@dataclass(frozen=True, eq=False)
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
        features = model_matrix(self, features)
        values = np.nan_to_num(features.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        for layer in self.layers:
            values = logistic(values @ layer.weights.T + layer.bias)
        scores: Vector = values[:, 0]
        return scores

    def sizes(self) -> dict[str, object]:
        """The neurons of each layer."""
        return {"layers": ", ".join(str(len(layer.bias)) for layer in self.layers)}

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        return {
            "layers": [
                {"weights": layer.weights.tolist(), "bias": layer.bias.tolist()}
                for layer in self.layers
            ]
        }

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> LogisticNetwork:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        layers = tuple(
            Layer(
                np.array(layer["weights"], dtype=np.float64).reshape(len(layer["bias"]), -1),
                np.array(layer["bias"], dtype=np.float64),
            )
            for layer in content["layers"]
        )
        return cls(names, layers, record)
