"""Linear models with their normalisers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import take_numbers
from owpc_ltr.models.model_file import (
    SavedRanker,
    model_matrix,
)


@dataclass(frozen=True)
class Normaliser:
    """How the engine changes one feature before the model: (value − shift) / scale.

    `kind` is the LTR plugin's own word: "standard" (shift = mean, scale = standard deviation) or
    "min_max" (shift = minimum, scale = maximum − minimum).
    """

    kind: str
    shift: float
    scale: float

    def __post_init__(self) -> None:
        if self.kind not in {"standard", "min_max"}:
            raise BadInput(f"a normaliser is standard or min_max, not '{self.kind}'")
        if not (np.isfinite(self.shift) and np.isfinite(self.scale) and self.scale > 0):
            raise BadInput(
                f"a normaliser needs a finite shift and a positive scale, not {self.shift}, "
                f"{self.scale}"
            )


@dataclass(frozen=True, eq=False)
class LinearModel(SavedRanker):
    """The weighted sum of the features; a missing one counts 0, as in every engine.

    `weights` (n_features,) is rounded to float32, which is what engines keep. A feature named in
    `normalisers` is normalised first (a missing one as if it were 0).
    """

    kind: ClassVar[str] = "linear"

    feature_names: tuple[str, ...]
    weights: Vector
    normalisers: dict[str, Normaliser] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):
            rounded = np.asarray(self.weights).astype(np.float32).astype(np.float64)
        if rounded.shape != (len(self.feature_names),):
            raise BadInput(
                f"a linear model of {len(self.feature_names)} features has {rounded.size} weights"
            )
        if not np.isfinite(rounded).all():
            name = self.feature_names[int(np.flatnonzero(~np.isfinite(rounded))[0])]
            raise BadInput(f"the weight of feature '{name}' is not a finite float32 number")
        unknown = set(self.normalisers) - set(self.feature_names)
        if unknown:
            raise BadInput(f"a normaliser is for a feature that is not there: {sorted(unknown)[0]}")
        object.__setattr__(self, "weights", rounded)
        with np.errstate(over="ignore", invalid="ignore"):
            folded, intercept = self.folded()
        if not (np.isfinite(folded).all() and np.isfinite(intercept)):
            raise BadInput("a normaliser makes a weight or the intercept larger than any number")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        weights, intercept = self.folded()
        if np.isnan(features).any():
            features = np.nan_to_num(features, nan=0.0, posinf=np.inf, neginf=-np.inf)
        scores: Vector = features @ weights + intercept
        return scores

    def feature_uses(self) -> dict[str, float]:
        """The weights, by feature."""
        return dict(zip(self.feature_names, self.weights.tolist(), strict=True))

    def folded(self) -> tuple[Vector, float]:
        """Weights for the features as they are, and the intercept: normalisers multiplied in."""
        weights, intercept = self.weights.copy(), 0.0
        for index, name in enumerate(self.feature_names):
            normaliser = self.normalisers.get(name)
            if normaliser is not None:
                weights[index] /= normaliser.scale
                intercept -= weights[index] * normaliser.shift
        return weights, intercept

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        return {
            "weights": [float(weight) for weight in self.weights],
            "normalisers": {
                name: {"kind": n.kind, "shift": n.shift, "scale": n.scale}
                for name, n in self.normalisers.items()
            },
        }

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> LinearModel:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        normalisers = {
            name: _normaliser(part) for name, part in content.get("normalisers", {}).items()
        }
        weights = take_numbers(content, "weights", "the linear model")
        return cls(names, weights, normalisers, record)


def _normaliser(content: Any) -> Normaliser:
    numbers = {"numbers": [content["shift"], content["scale"]]}
    shift, scale = take_numbers(numbers, "numbers", "a normaliser").tolist()
    return Normaliser(str(content["kind"]), shift, scale)
