"""Contributions of linear models: weight × value, normalisers folded into the weights."""

from __future__ import annotations

from owpc_ltr.arrays import Matrix
from owpc_ltr.explanations.contributions import Contributions, known
from owpc_ltr.models.linear import LinearModel

METHOD = "weight × value, and the intercept as the baseline"


def of_linear(model: LinearModel, features: Matrix) -> Contributions:
    """What each feature adds; a missing one nothing beside the intercept."""
    weights, intercept = model.folded()
    return Contributions(known(features) * weights, intercept, METHOD)


def weights_in_words(model: LinearModel) -> tuple[str, ...]:
    """The weight of each feature as it comes."""
    return tuple(f"weight {weight:.4g}" for weight in model.folded()[0].tolist())
