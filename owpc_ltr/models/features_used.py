"""Which features a model looks at, and the model without columns that it does not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from owpc_ltr.models.additive import AdditiveModel
from owpc_ltr.models.average import AverageModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model


def features_used(model: Model) -> frozenset[str]:
    """The features that can change a score: of kinds that mix their features, all of them."""
    names = np.array(model.feature_names)
    if isinstance(model, LinearModel):
        return frozenset(names[model.weights != 0].tolist())
    if isinstance(model, TreeModel):
        forest = model.forest
        return frozenset(names[np.unique(forest.feature[~forest.is_leaf])].tolist())
    if isinstance(model, AdditiveModel):
        return frozenset(model.curves)
    if isinstance(model, AverageModel):
        return frozenset().union(*map(features_used, model.parts))
    return frozenset(model.feature_names)


def without_last_columns(model: Model, columns: Collection[str]) -> Model:
    """The same scores from a matrix without its last columns, at which the model does not look.

    Raises ValueError where it does, or they are not the last.
    """
    if not columns:
        return model
    kept = model.feature_names[: -len(columns)]
    if set(model.feature_names[len(kept) :]) != set(columns):
        raise ValueError("only columns that are last can be left out so")
    return with_features(model, kept)


def with_features(model: Model, kept: Sequence[str]) -> Model:
    """The same scores from a matrix of these columns alone, in this order.

    Raises ValueError where the model looks at others, or is of a kind that uses all of them.
    """
    names = tuple(kept)
    if not features_used(model) <= {*names}:
        raise ValueError("only columns that are not used can be left out")
    places = [model.feature_names.index(name) for name in names]
    if isinstance(model, LinearModel):
        normalisers = {name: own for name, own in model.normalisers.items() if name in names}
        weights = model.weights[places]
        return replace(model, feature_names=names, weights=weights, normalisers=normalisers)
    if isinstance(model, AverageModel):
        parts = tuple(with_features(part, names) for part in model.parts)
        return replace(model, feature_names=names, parts=parts)
    if isinstance(model, TreeModel):
        moved = np.zeros(len(model.feature_names), np.int32)
        moved[places] = np.arange(len(places))
        forest = model.forest
        feature = np.where(forest.is_leaf, forest.feature, moved[forest.feature])
        forest = replace(forest, feature=feature.astype(np.int32))
        return replace(model, feature_names=names, forest=forest)
    if isinstance(model, AdditiveModel):
        return replace(model, feature_names=names)
    raise ValueError(f"a {model.kind} model uses all of its features")
