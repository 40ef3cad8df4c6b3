"""Contributions of a model of any kind, and by what its features act."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import Refused
from owpc_ltr.explanations.contributions import (
    Contributions,
    curves_in_words,
    of_curves,
    of_linear,
    of_network,
    weights_in_words,
)
from owpc_ltr.explanations.trees import (
    TreePath,
    heaviest_paths,
    of_trees,
    splits_in_words,
    thresholds_met,
)
from owpc_ltr.models.average import AverageModel
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.networks import LogisticNetwork, NetworkModel
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model

PATHS = 3
"""How many of the heaviest trees are gone through."""


def contributions(
    model: Model, features: Matrix, background: Matrix | None = None
) -> Contributions:
    """What each feature adds to each document's score; float32 features, NaN where missing.

    Trees are explained against the documents of `background`, by default all that are given.
    Raises Refused for a kind of model that is not known.
    """
    if isinstance(model, LinearModel):
        return of_linear(model, features)
    if isinstance(model, AdditiveModel):
        return of_curves(model, features)
    if isinstance(model, TreeModel):
        return of_trees(model, features, features if background is None else background)
    if isinstance(model, AverageModel):
        return _of_average(model, features, background)
    if isinstance(model, NetworkModel | LogisticNetwork):
        return of_network(model, features)
    raise Refused(
        f"a model of kind '{model.kind}' cannot be explained: linear, additive and tree models, "
        "networks, and averages of them can"
    )


def _of_average(model: AverageModel, features: Matrix, background: Matrix | None) -> Contributions:
    """The weighted sum of the parts' contributions."""
    found = [
        contributions(part, features, background).times(float(weight))
        for weight, part in zip(model.weights, model.parts, strict=True)
    ]
    methods = "; ".join(dict.fromkeys(one.method for one in found))
    amounts = np.sum([one.amounts for one in found], axis=0)
    baseline = float(sum(one.baseline for one in found))
    return Contributions(amounts, baseline, f"the mean of its parts' contributions: {methods}")


def in_words(model: Model, row: Vector) -> tuple[str, ...]:
    """By what each feature acts on this document: a weight, a curve, so many splits."""
    if isinstance(model, LinearModel):
        return weights_in_words(model)
    if isinstance(model, AdditiveModel):
        return curves_in_words(model)
    if isinstance(model, TreeModel):
        return splits_in_words(model, row)
    if isinstance(model, AverageModel):
        parts = [in_words(part, row) for part in model.parts]
        return tuple(", ".join(dict.fromkeys(words)) for words in zip(*parts, strict=True))
    return ("all neurons",) * len(model.feature_names)


def paths(model: Model, row: Vector, background: Matrix, most: int = PATHS) -> tuple[TreePath, ...]:
    """The ways of a document down the heaviest trees; none of a model without trees."""
    if isinstance(model, TreeModel):
        return tuple(heaviest_paths(model, row, background, most))
    if not isinstance(model, AverageModel):
        return ()
    found = [
        replace(
            path,
            tree=f"{path.tree} of part {number}",
            output=weight * path.output,
            mean_output=weight * path.mean_output,
        )
        for number, (weight, part) in enumerate(zip(model.weights, model.parts, strict=True), 1)
        for path in paths(part, row, background, most)
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.output - one.mean_output))[:most])


def breakpoints(model: Model, row: Matrix, column: int) -> Sequence[Vector] | None:
    """Where the score of a document, as a function of one feature, bends or jumps.

    It is straight between. None where it bends everywhere, as a network's does.
    """
    if isinstance(model, LinearModel):
        return []
    if isinstance(model, AdditiveModel):
        curve = model.curves.get(model.feature_names[column])
        return [] if curve is None else [curve.knots]
    if isinstance(model, TreeModel):
        return [thresholds_met(model, row, column)]
    if isinstance(model, AverageModel):
        parts = [breakpoints(part, row, column) for part in model.parts]
        return None if None in parts else [one for part in parts if part for one in part]
    return None
