"""The two-layer network of the LambdaRank papers: hyperbolic tangents between two linear maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.models.linear import SavedRanker
from owpc_ltr.models.matrix import model_matrix

_LARGEST = float(np.finfo(np.float32).max)  # products of these stay finite
_ROWS = 8192  # scored at a time, so that the float64 copy of the features stays small


@dataclass(frozen=True, eq=False)
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
        for name in ("weights", "biases", "outputs"):
            if not (np.abs(getattr(self, name)) <= _LARGEST).all():
                raise BadInput(f"a network's {name} hold a number that is no finite float32")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        scores = np.empty(len(features))
        for first in range(0, len(features), _ROWS):
            rows = np.nan_to_num(
                features[first : first + _ROWS].astype(np.float64),
                nan=0.0,
                posinf=np.inf,
                neginf=-np.inf,
            )
            scores[first : first + _ROWS] = (
                np.tanh(rows @ self.weights.T + self.biases) @ self.outputs
            )
        return scores

    def sizes(self) -> dict[str, object]:
        """The hidden units."""
        return {"hidden units": len(self.biases)}

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        return {
            "weights": self.weights.tolist(),
            "biases": self.biases.tolist(),
            "outputs": self.outputs.tolist(),
        }

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> NetworkModel:
        """The network whose `as_dict` gave `content`. Raises BadInput."""
        weights = np.array(content["weights"], dtype=np.float64).reshape(-1, len(names))
        biases, outputs = (
            np.array(content[name], dtype=np.float64) for name in ("biases", "outputs")
        )
        return cls(names, weights, biases, outputs, record)
