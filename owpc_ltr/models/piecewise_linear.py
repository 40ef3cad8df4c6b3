"""Piecewise-linear models: each feature as several columns, of which a linear model is a curve.

Between two neighbouring knots, which are quantiles of the feature in the training queries, a column
rises from 0 to 1; its weight is what the curve rises there. A feature that is missing somewhere has
one more column, 1 where it is there. A loss that is convex in a linear model stays so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import UsageError
from owpc_ltr.models.linear import AdditiveModel, Curve, LinearModel
from owpc_ltr.protocols import Model


@dataclass(frozen=True)
class PiecewiseLinearColumns:
    """The knots of each feature, and which features are missing somewhere in the training data."""

    feature_names: tuple[str, ...]
    knots: tuple[Vector, ...]
    gaps: tuple[bool, ...]

    def expanded(self, data: RankingDataset) -> RankingDataset:
        """The dataset with a column between each two knots, float32, none missing."""
        names = [
            f"{name} {number}"
            for name, knots, gap in zip(self.feature_names, self.knots, self.gaps, strict=True)
            for number in range(_columns(knots, gap))
        ]
        features = np.empty((data.n_documents, len(names)), dtype=np.float32)
        place = 0
        for column, (knots, gap) in enumerate(zip(self.knots, self.gaps, strict=True)):
            for values in _rises(data.features[:, column], knots, gap):
                features[:, place] = values
                place += 1
        return replace(data, features=features, feature_names=tuple(names))

    def model_of(self, model: Model) -> AdditiveModel:
        """The curves that a linear model of the columns is. Raises UsageError for another kind."""
        if not isinstance(model, LinearModel):
            raise UsageError(
                "a piecewise-linear model needs an optimizer of linear models, and this one made a "
                f"model of kind '{model.kind}': use the optimizer larank"
            )
        weights, _ = model.folded()
        curves = {}
        for name, knots, gap in zip(self.feature_names, self.knots, self.gaps, strict=True):
            own, weights = np.split(weights, [_columns(knots, gap)])
            if own.any():
                curves[name] = _curve(knots, own, gap=gap)
        return AdditiveModel(self.feature_names, curves)


def piecewise_linear_columns(data: RankingDataset, knots: int) -> PiecewiseLinearColumns:
    """Columns between so many quantiles of each feature, or fewer where these are equal.

    Raises UsageError where no feature differs between documents.
    """
    found, gaps = [], []
    for column in range(data.n_features):
        values = data.features[:, column]
        known = values[~np.isnan(values)]
        gaps.append(len(known) < len(values))
        found.append(_quantiles(known, knots))
    if not any(map(_columns, found, gaps)):
        raise UsageError("no feature differs between documents: there is nothing to learn from")
    return PiecewiseLinearColumns(data.feature_names, tuple(found), tuple(gaps))


def _quantiles(values: Matrix, count: int) -> Vector:
    if not len(values):
        return np.zeros(0)
    shares = np.linspace(0.0, 1.0, count)
    return np.unique(np.quantile(values, shares, method="nearest")).astype(np.float64)


def _columns(knots: Vector, gap: bool) -> int:
    """How many columns a feature has: one of its own for being there, where that says something."""
    return max(len(knots) - 1, 0) + (gap and len(knots) > 0)


def _rises(values: Matrix, knots: Vector, gap: bool) -> Iterator[Vector]:
    missing = np.isnan(values)
    known = np.where(missing, 0.0, values.astype(np.float64))
    for low, high in pairwise(knots.tolist()):
        yield np.where(missing, 0.0, np.clip((known - low) / (high - low), 0.0, 1.0))
    if _columns(knots, gap) > max(len(knots) - 1, 0):
        yield np.where(missing, 0.0, 1.0)


def _curve(knots: Vector, weights: Vector, *, gap: bool) -> Curve:
    rises = weights[: len(knots) - 1]
    start = float(weights[-1]) if gap else 0.0
    values = start + np.concatenate([[0.0], np.cumsum(rises)])
    # What was never missing is taken for 0 where it is, as in every linear model.
    missing = 0.0 if gap else float(np.interp(0.0, knots, values))
    return Curve(knots, values, missing)
