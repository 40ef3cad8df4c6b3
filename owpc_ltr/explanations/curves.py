"""Contributions of additive models: each feature's curve at its value."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Matrix
from owpc_ltr.explanations.contributions import Contributions
from owpc_ltr.models.additive import AdditiveModel

METHOD = "each feature's curve at its value"


def of_curves(model: AdditiveModel, features: Matrix) -> Contributions:
    """What each curve gives; a missing value what the curve gives to it."""
    amounts = np.zeros(features.shape)
    for column, name in enumerate(model.feature_names):
        if name in model.curves:
            amounts[:, column] = model.curves[name].at(features[:, column].astype(np.float64))
    return Contributions(amounts, 0.0, METHOD)


def curves_in_words(model: AdditiveModel) -> tuple[str, ...]:
    """The size of each feature's curve."""
    knots = [len(model.curves[n].knots) if n in model.curves else 0 for n in model.feature_names]
    return tuple(f"curve, {count} knots" if count else "no curve" for count in knots)
