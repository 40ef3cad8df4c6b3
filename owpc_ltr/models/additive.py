"""AdditiveModel: the sum of one curve a feature, each of straight pieces between knots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.models.model_file import SavedRanker, model_matrix
from owpc_ltr.models.trees import HIGHEST


@dataclass(frozen=True, eq=False)
class Curve:
    """What a feature gives: `values` at the ascending `knots`, straight between, level beyond.

    Where the feature is missing it gives `missing`.
    """

    knots: Vector
    values: Vector
    missing: float = 0.0

    def __post_init__(self) -> None:
        knots, values = (np.asarray(part, dtype=np.float64) for part in (self.knots, self.values))
        if not len(knots) or knots.shape != values.shape or knots.ndim != 1:
            raise BadInput(f"a curve of {knots.size} knots has {values.size} values")
        if not (np.abs(np.concatenate([knots, values, [self.missing]])) <= HIGHEST).all():
            raise BadInput("a curve has a number that is not a finite float32 number")
        if (np.diff(knots) <= 0).any():
            raise BadInput("the knots of a curve do not ascend")
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "values", values)

    def at(self, feature: Vector) -> Vector:
        """What each value of the feature gives."""
        # A missing value would be what interpolation makes of it.
        found = np.interp(feature, self.knots, self.values)
        return np.where(np.isnan(feature), self.missing, found)

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest that it gives, to a missing value too."""
        return (
            min(float(self.values.min()), self.missing),
            max(float(self.values.max()), self.missing),
        )

    def as_dict(self) -> dict[str, Any]:
        """The curve as JSON."""
        return {
            "knots": self.knots.tolist(),
            "values": self.values.tolist(),
            "missing": self.missing,
        }


@dataclass(frozen=True, eq=False)
class AdditiveModel(SavedRanker):
    """The sum of the features' `curves`; a feature without one gives nothing."""

    kind: ClassVar[str] = "additive"

    feature_names: tuple[str, ...]
    curves: Mapping[str, Curve]
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.curves) - set(self.feature_names))
        if unknown:
            raise BadInput(f"a curve is of '{unknown[0]}', which is no feature of the model")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        total = np.zeros(features.shape[0])
        for column, name in enumerate(self.feature_names):
            if name in self.curves:
                total += self.curves[name].at(features[:, column].astype(np.float64))
        return total

    def sizes(self) -> dict[str, object]:
        """Curves and knots."""
        knots = sum(len(curve.knots) for curve in self.curves.values())
        return {"curves": len(self.curves), "knots": knots}

    def feature_uses(self) -> dict[str, float]:
        """From the lowest to the highest that each curve gives."""
        ends = {name: curve.ends for name, curve in self.curves.items()}
        return {name: high - low for name, (low, high) in ends.items()}

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        return {"curves": {name: curve.as_dict() for name, curve in self.curves.items()}}

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> AdditiveModel:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        curves = {
            str(name): Curve(
                np.array([float(knot) for knot in each["knots"]]),
                np.array([float(value) for value in each["values"]]),
                float(each["missing"]),
            )
            for name, each in content["curves"].items()
        }
        return cls(names, curves, record)
