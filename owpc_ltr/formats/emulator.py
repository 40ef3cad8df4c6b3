"""The emulator of engines: whether one takes a stored model, and the scores that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import BadInput
from owpc_ltr.features.expressions import expression_variables
from owpc_ltr.features.feature_set import DERIVED, FeatureSet
from owpc_ltr.formats.engine_versions import ServingProfile
from owpc_ltr.formats.ltr_plugin import (
    PluginLinear,
    PluginNormaliser,
    PluginTrees,
    read_definition,
    read_normalisers,
)
from owpc_ltr.formats.ranklib import Ensembles, Parsed, Sum
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.networks import LogisticNetwork
from owpc_ltr.models.trees import logistic

Scores = NDArray[np.float32]


def rejection_reason(
    definition: Any,
    model_type: str,
    featureset_names: Sequence[str],
    profile: ServingProfile,
    feature_normalizers: Mapping[str, Any] | None = None,
) -> str | None:
    """Why the engine would refuse the model, or fail every search with it; None if it would not.

    It is stricter than the engine where the engine takes what it then scores wrongly.
    """
    try:
        read_definition(definition, model_type, featureset_names, profile)
        read_normalisers(dict(feature_normalizers or {}), featureset_names)
    except BadInput as error:
        return str(error)
    return None


def emulate(stored: StoredModel, features: Matrix, profile: ServingProfile) -> Scores:
    """The engine's scores, in float32 and in its order of additions.

    `features` has one column a feature of the model's set, NaN where the query does not match.
    Raises BadInput where the engine would refuse the model.
    """
    names = stored.featureset.feature_names
    if features.ndim != 2 or features.shape[1] != len(names):
        raise BadInput(
            f"the model's feature set has {len(names)} features, the data {features.shape[-1]}"
        )
    model = read_definition(stored.definition, stored.type, names, profile)
    normalisers = read_normalisers(stored.feature_normalizers, names)
    rule = profile.missing[stored.type]
    as_zero = rule == "zero" or (isinstance(model, PluginTrees) and model.zero_flag)
    seen = _as_seen(features, normalisers, as_zero)
    if not as_zero:
        _unsee_derived(seen, stored.featureset)
    if isinstance(model, PluginLinear):
        scores: Scores = _linear(seen, model.weights.astype(np.float32))
        return scores
    if isinstance(model, PluginTrees):
        return _trees(seen, model, rule == "right")
    return _ranklib(seen, model)


def _as_seen(
    features: Matrix, normalisers: list[PluginNormaliser], as_zero: bool
) -> NDArray[np.float32]:
    """The values that reach the model: missing ones filled first, then normalised."""
    seen = np.array(features, dtype=np.float32, order="C")
    if as_zero:
        seen[np.isnan(seen)] = 0
    for normaliser in normalisers:
        seen[:, normaliser.column] = normaliser(seen[:, normaliser.column])
    return seen


def _unsee_derived(seen: NDArray[np.float32], featureset: FeatureSet) -> None:
    """Take away what derives from a missing feature: it is missing too where that is not 0.

    Logging counts it as 0 all the same, so that such a value was logged. A script that reads other
    features is not looked into.
    """
    names = featureset.feature_names
    for column, feature in enumerate(featureset.features):
        if feature.template_language == DERIVED:
            sources = expression_variables(str(feature.template)) & set(names)
            missing = np.isnan(seen[:, [names.index(name) for name in sources]]).any(axis=1)
            seen[missing, column] = np.nan


def _trees(seen: NDArray[np.float32], model: PluginTrees, always_right: bool) -> Scores:
    forest = model.forest
    if always_right:
        forest = replace(forest, default_left=np.zeros_like(forest.default_left))
    margin = forest.score_single(seen)
    if model.link == "identity":
        return margin
    return logistic(margin.astype(np.float64)).astype(np.float32)


def _ranklib(seen: NDArray[np.float32], model: Parsed) -> Scores:
    if isinstance(model, Sum):
        total = np.full(len(seen), model.intercept)
        for column, weight in zip(model.columns, model.weights, strict=True):
            total += weight * seen[:, column].astype(np.float64)
        return total.astype(np.float32)
    if isinstance(model, Ensembles):
        if not model.single:
            return model.forests[0].score(seen).astype(np.float32)
        total = np.zeros(len(seen))
        for forest in model.forests:
            total += forest.score_single(seen, outputs=np.float64)
        return (total / len(model.forests)).astype(np.float32)
    names = tuple(map(str, range(len(model.columns))))
    network = LogisticNetwork(names, model.layers)
    return network.score(seen[:, list(model.columns)]).astype(np.float32)


@compiled
def _linear(features: Any, weights: Any) -> Any:
    scores = np.zeros(features.shape[0], dtype=np.float32)
    for row in range(features.shape[0]):
        total = np.float32(0)
        for column in range(features.shape[1]):
            total += weights[column] * features[row, column]
        scores[row] = total
    return scores
