"""Contributions of features to the scores of a model of any kind, and by what they act."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import Refused
from owpc_ltr.explanations.trees import (
    Contributions,
    TreePath,
    heaviest_paths,
    of_trees,
    splits_in_words,
    thresholds_met,
)
from owpc_ltr.models.average import AverageModel
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.networks import Layer, LogisticNetwork, NetworkModel, missing_as_zero
from owpc_ltr.models.trees import TreeModel, logistic
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
        weights, intercept = model.folded()
        return Contributions(missing_as_zero(features) * weights, intercept, _LINEAR)
    if isinstance(model, AdditiveModel):
        return of_curves(model, features)
    if isinstance(model, TreeModel):
        return of_trees(model, features, features if background is None else background)
    if isinstance(model, AverageModel):
        return _of_average(model, features, background)
    if isinstance(model, NetworkModel | LogisticNetwork):
        return of_network(model, features)
    # A run is a ranker, and no model.
    kind = getattr(model, "kind", "run")
    raise Refused(
        f"a ranker of kind '{kind}' cannot be explained: linear, additive and tree models, "
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
        return tuple(f"weight {weight:.4g}" for weight in model.folded()[0].tolist())
    if isinstance(model, AdditiveModel):
        curves = (model.curves.get(name) for name in model.feature_names)
        return tuple(f"curve, {len(one.knots)} knots" if one else "no curve" for one in curves)
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


_LINEAR = "weight × value, and the intercept as the baseline"
_CURVES = "each feature's curve at its value"


def of_curves(model: AdditiveModel, features: Matrix) -> Contributions:
    """What each curve gives; a missing value what the curve gives to it."""
    amounts = np.zeros(features.shape)
    for column, name in enumerate(model.feature_names):
        if name in model.curves:
            amounts[:, column] = model.curves[name].at(features[:, column].astype(np.float64))
    return Contributions(amounts, 0.0, _CURVES)


_NETWORK = (
    "DeepLIFT's rescale rule, from the document whose features are all 0, which is the baseline"
)
_LEAST = 1e-6
"""An input that moved less moves the output by its derivative, to all digits that there are."""


def of_network(model: NetworkModel | LogisticNetwork, features: Matrix) -> Contributions:
    """What each feature moved the score by, from the score of the document of zeros."""
    rows = missing_as_zero(features)
    if isinstance(model, NetworkModel):
        layers = [Layer(model.weights, model.biases)]
        return _rescaled(rows, layers, np.tanh, lambda y: 1 - y * y, model.outputs)
    return _rescaled(rows, model.layers, logistic, lambda y: y * (1 - y), np.ones(1))


def _rescaled(
    rows: Vector,
    layers: list[Layer] | tuple[Layer, ...],
    neuron: Callable[[Vector], Vector],
    derivative: Callable[[Vector], Vector],
    outputs: Vector,
) -> Contributions:
    """The rule for layers of one kind of neuron, of which `outputs` weighs the last."""
    values, zero = rows, np.zeros((1, rows.shape[1]))
    # What a unit of each feature moves each value by: the identity, to begin with.
    moved = np.broadcast_to(np.eye(rows.shape[1]), (len(rows), rows.shape[1], rows.shape[1]))
    for layer in layers:
        inputs, at_zero = (each @ layer.weights.T + layer.bias for each in (values, zero))
        values, zero = neuron(inputs), neuron(at_zero)
        slopes = _slopes(inputs - at_zero, values - zero, derivative(zero))
        moved = (moved @ layer.weights.T) * slopes[:, None, :]
    return Contributions(rows * (moved @ outputs), float((zero @ outputs)[0]), _NETWORK)


def _slopes(inputs: Vector, outputs: Vector, derivatives: Vector) -> Vector:
    still = np.abs(inputs) < _LEAST
    return np.where(still, derivatives, outputs / np.where(still, 1.0, inputs))
