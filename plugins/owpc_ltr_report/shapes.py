"""Shapes: what a model makes of each feature, on its own or in the mean over documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.models.additive import AdditiveModel
from owpc_ltr.models.average import AverageModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Model

STEPS = 24
"""Values of a feature at which a mean curve is taken."""
SAMPLE = 300
"""Documents over which a mean curve is the mean."""


@dataclass(frozen=True, eq=False)
class Shape:
    """What a model gives for values of one feature; `missing` for a missing one.

    The middle of the curve is 0: only differences rank.
    """

    feature: str
    values: Vector
    gives: Vector
    missing: float | None

    @property
    def given(self) -> Vector:
        """All that it gives, to a missing value too."""
        return self.gives if self.missing is None else np.append(self.gives, self.missing)

    @property
    def span(self) -> float:
        """From the lowest to the highest that it gives."""
        return float(np.ptp(self.given))


def has_own_curves(model: Model) -> bool:
    """Whether the curves are the model itself, and no means over documents."""
    return isinstance(model, AdditiveModel)


def shapes_of(model: Model, features: Matrix, seed: int = 0) -> list[Shape]:
    """The curves of the features that the model uses, the largest span first.

    Of an additive model its own curves. Of trees, averages and networks the mean score over some
    documents whose feature is set to each value in turn (partial dependence; Friedman 2001). Of a
    linear model none: its weights say it all.
    """
    if isinstance(model, LinearModel) or _all_linear(model):
        return []
    if isinstance(model, AdditiveModel):
        found = [_own(model, name) for name in model.feature_names if name in model.curves]
    else:
        found = _mean_curves(model, features, seed)
    return sorted((shape for shape in found if shape.span > 0), key=lambda shape: -shape.span)


def _all_linear(model: Model) -> bool:
    return isinstance(model, AverageModel) and all(
        isinstance(part, LinearModel) for part in model.parts
    )


def _own(model: AdditiveModel, name: str) -> Shape:
    curve = model.curves[name]
    middle = float(np.median(curve.values))
    return Shape(name, curve.knots, curve.values - middle, curve.missing - middle)


def _mean_curves(model: Model, features: Matrix, seed: int) -> list[Shape]:
    """Each feature in turn is set to each of its values, in all documents of the sample at once."""
    random = np.random.default_rng(seed)
    rows = random.choice(len(features), min(SAMPLE, len(features)), replace=False)
    sample = np.ascontiguousarray(features[np.sort(rows)])
    found = []
    for column, name in enumerate(model.feature_names):
        values = _values_of(features[:, column])
        gaps = bool(np.isnan(features[:, column]).any())
        if len(values) + gaps < 2:
            continue
        asked = np.append(values, np.nan) if gaps else values
        many = np.tile(sample, (len(asked), 1))
        many[:, column] = np.repeat(asked, len(sample)).astype(many.dtype)
        means = model.score(many).reshape(len(asked), len(sample)).mean(axis=1)
        middle = float(np.median(means[: len(values)]))
        missing = float(means[-1]) - middle if gaps else None
        found.append(Shape(name, values, means[: len(values)] - middle, missing))
    return found


def _values_of(column: Vector | Matrix) -> Vector:
    """Values that lie evenly among those of the documents, the lowest and the highest too."""
    known = column[np.isfinite(column)].astype(np.float64)
    if not len(known):
        return np.zeros(0)
    return np.asarray(np.unique(np.quantile(known, np.linspace(0.0, 1.0, STEPS))))
