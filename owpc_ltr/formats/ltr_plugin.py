"""The LTR plugin's models: written for a version of it, read back, and scored as it scores them.

Trees are written as a dump of XGBoost, or as RankLib's where a version sends missing features
elsewhere; a network as RankLib's; a linear model by its weights and `feature_normalizers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet, refuse_by_client
from owpc_ltr.features.query_analysis import always_matches
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import Json, a_json, parse_json
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.stored_model import LINEAR, RANKLIB, XGBOOST, ServingProfile, StoredModel
from owpc_ltr.formats.xgboost_json import from_dump, to_dump
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.networks import LogisticNetwork
from owpc_ltr.models.trees import HIGHEST, ROUNDS_TO_FINITE, TreeModel, logistic
from owpc_ltr.protocols import Model

_NORMALISERS = {
    "standard": {"mean": 0.0, "standard_deviation": 0.0},
    "min_max": {"minimum": 0.0, "maximum": HIGHEST},
}
"""The settings of each kind, with what the plugin takes for those that are absent."""


def export_to_plugin(
    model: Model, featureset: FeatureSet, name: str, profile: ServingProfile
) -> StoredModel:
    """The model in the first form that the LTR plugin of this version scores exactly.

    Raises Refused, with the first form's reason, where there is none.
    """
    if isinstance(model, LinearModel):
        return export_linear(model, featureset, name)
    refuse_by_client(featureset)
    writers: dict[str, Callable[..., Any]] = {}
    if isinstance(model, TreeModel):
        writers = {XGBOOST: to_dump, RANKLIB: to_ranklib}
    elif isinstance(model, LogisticNetwork):
        writers = {RANKLIB: to_ranklib}
    always = {feature.name for feature in featureset.features if always_matches(feature)}
    reasons = []
    for model_type, write in writers.items():
        try:
            definition = write(model, featureset.feature_names, profile, always)
            return StoredModel(name, model_type, definition, featureset)
        except Refused as refusal:
            reasons.append(refusal)
    if reasons:
        raise reasons[0]
    raise Refused(
        f"the LTR plugin has no {model.kind} models: push its feature set (featureset push), and "
        "upload it, both with `store_kind='plugin-free'`, for the client to score"
    )


def export_linear(model: LinearModel, featureset: FeatureSet, name: str) -> StoredModel:
    """A linear model as `model/linear` with `feature_normalizers`."""
    refuse_by_client(featureset)
    if model.feature_names != featureset.feature_names:
        raise BadInput(
            f"the model's features are not those of '{featureset.name}', or in another order: use "
            "the feature set that it was trained on"
        )
    weights = dict(zip(model.feature_names, map(float, model.weights), strict=True))
    normalisers = {name: _written(name, own) for name, own in model.normalisers.items()}
    return StoredModel(name, LINEAR, weights, featureset, normalisers)


def _written(name: str, normaliser: Normaliser) -> dict[str, Any]:
    """The plugin's form. Both kinds compute (value − shift) / scale, in float32.

    The plugin takes no negative minimum, and computes the scale from minimum and maximum: where
    that loses digits, `standard` says the same exactly.
    """
    shift, scale = normaliser.shift, normaliser.scale
    if not (abs(shift) <= ROUNDS_TO_FINITE and scale <= ROUNDS_TO_FINITE and np.float32(scale)):
        raise Refused(
            f"the normaliser of '{name}' has {shift:g} and {scale:g}, more or less than a float32 "
            "holds: scale the feature"
        )
    low, high = np.float32(shift), np.float32(shift + scale)
    if normaliser.kind == "min_max" and low >= 0 and high - low == np.float32(scale):
        return {"min_max": {"minimum": float(low), "maximum": float(high)}}
    return {"standard": {"mean": shift, "standard_deviation": scale}}


def import_linear(stored: StoredModel) -> LinearModel:
    """The linear model that a store keeps. Refused for other types, BadInput where it is broken."""
    if stored.type != LINEAR:
        raise Refused(
            f"the model '{stored.name}' is a {stored.type}, and only {LINEAR} can run here: use a "
            "cluster with the LTR plugin"
        )
    try:
        return read_linear(
            stored.definition, stored.feature_normalizers, stored.featureset.feature_names, float
        )
    except BadInput as error:
        raise BadInput(f"the stored model '{stored.name}' is damaged: {error}") from error


_Rounding = Callable[[float], float | np.float32]
"""The precision of a normaliser's numbers: as they are written, or as the plugin keeps them."""


def read_linear(
    definition: Json, normalisers: Json, names: Sequence[str], rounding: _Rounding = np.float32
) -> LinearModel:
    """The linear model of a definition and its normalisers. Raises BadInput.

    A feature that the definition does not name has the weight 0, as in the plugin.
    """
    if isinstance(definition, str):
        definition = parse_json(definition, f"the {LINEAR} definition")
    if not isinstance(definition, dict):
        raise BadInput(f"a linear definition is an object of weights, not {a_json(definition)}")
    weights = dict.fromkeys(names, 0.0)
    for name, weight in definition.items():
        if name not in weights:
            raise BadInput(f"the linear model weighs an unknown feature {shown(name)}")
        if type(weight) not in (int, float) or not abs(weight) <= ROUNDS_TO_FINITE:
            raise BadInput(f"the weight of {shown(name)} is {a_json(weight)}, not a float32")
        weights[name] = weight
    numbers = np.array([*weights.values()], dtype=np.float64)
    return LinearModel(tuple(names), numbers, read_normalisers(normalisers, names, rounding))


def read_normalisers(
    content: Json, names: Sequence[str], rounding: _Rounding = np.float32
) -> dict[str, Normaliser]:
    """What the plugin makes of `feature_normalizers`. Raises BadInput where it refuses them."""
    if not isinstance(content, dict):
        raise BadInput(f"feature_normalizers is {a_json(content)}, not an object")
    unknown = sorted(set(content) - set(names))
    if unknown:
        raise BadInput(
            f"the normaliser of {shown(unknown[0])}: the feature set has no such feature"
        )
    return {
        name: _normaliser(value, f"the normaliser of {shown(name)}", rounding)
        for name, value in content.items()
    }


def _normaliser(value: Json, where: str, rounding: _Rounding) -> Normaliser:
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in _NORMALISERS:
        raise BadInput(f"{where} is {a_json(value)}, not one of {' or '.join(_NORMALISERS)}")
    kind, settings = next(iter(value.items()))
    defaults = _NORMALISERS[kind]
    if not isinstance(settings, dict) or set(settings) - set(defaults):
        raise BadInput(f"{where} has {a_json(settings)}, not {' and '.join(defaults)}")
    for key, number in settings.items():
        if type(number) not in (int, float) or not abs(number) <= ROUNDS_TO_FINITE:
            raise BadInput(f"{where}: '{key}' is {a_json(number)}, not a float32 number")
    first, second = (rounding(number) for number in (defaults | settings).values())
    if kind == "standard":
        if second <= 0:
            raise BadInput(f"{where}: the standard deviation {second} is not positive")
        return Normaliser(kind, float(first), float(second))
    # Newer versions of the plugin refuse a negative minimum, older ones have them.
    if not first < second:
        raise BadInput(f"{where}: needs minimum < maximum, not {first} and {second}")
    return Normaliser(kind, float(first), float(second - first))


def emulate(stored: StoredModel, features: Matrix, profile: ServingProfile) -> NDArray[np.float32]:
    """The engine's scores of a model as it is written here, in the engine's order of additions.

    `features` has one column a feature of the model's set, NaN where the query does not match.
    Raises BadInput for a definition that is not written here.
    """
    names = stored.featureset.feature_names
    if features.ndim != 2 or features.shape[1] != len(names):
        raise BadInput(
            f"the model's feature set has {len(names)} features, the data {features.shape[-1]}"
        )
    content = stored.definition
    if isinstance(content, str) and stored.type != RANKLIB:
        content = parse_json(content, f"the {stored.type} definition")
    model = _read(content, stored.type, names)
    rule = profile.missing if stored.type == XGBOOST else "zero"
    flagged = stored.type == XGBOOST and "missing_as_zero" in content
    if flagged and not profile.missing_as_zero:
        raise BadInput(f"{profile} does not know 'missing_as_zero': leave it out")
    as_zero = rule == "zero" or (flagged and content["missing_as_zero"])
    seen = np.array(features, dtype=np.float32, order="C")
    if as_zero:
        seen[np.isnan(seen)] = 0
    for name, own in read_normalisers(stored.feature_normalizers, names).items():
        column = names.index(name)
        seen[:, column] = (seen[:, column] - np.float32(own.shift)) / np.float32(own.scale)
    if not as_zero:
        _unsee_derived(seen, stored.featureset)
    if isinstance(model, TreeModel):
        return _tree_scores(model, seen, stored.type, rule)
    if isinstance(model, LinearModel):
        scores: NDArray[np.float32] = _linear_scores(seen, model.weights.astype(np.float32))
        return scores
    columns = [names.index(name) for name in model.feature_names]
    return model.score(seen[:, columns]).astype(np.float32)


def _read(content: Any, model_type: str, names: tuple[str, ...]) -> Model:
    if model_type == LINEAR:
        return read_linear(content, {}, names)
    if model_type == XGBOOST:
        return from_dump(content, names)
    if model_type != RANKLIB:
        raise BadInput(f"no model is written as {model_type}: use {LINEAR}, {XGBOOST}, {RANKLIB}")
    model = from_ranklib(content, names)
    if isinstance(model, LinearModel):
        raise BadInput(f"a linear model is written as {LINEAR}, not as {RANKLIB}")
    return model


def _tree_scores(
    model: TreeModel, seen: NDArray[np.float32], model_type: str, rule: str
) -> NDArray[np.float32]:
    forest = model.forest
    if rule == "right":
        forest = replace(forest, default_left=np.zeros_like(forest.default_left))
    # RankLib keeps its outputs in float64, and adds them in float32.
    margin = forest.score_single(seen, outputs=np.float64 if model_type == RANKLIB else np.float32)
    if model.link == "identity":
        return margin
    return logistic(margin.astype(np.float64)).astype(np.float32)


def _unsee_derived(seen: NDArray[np.float32], featureset: FeatureSet) -> None:
    """Take away what derives from a missing feature: it is missing too where that is not 0.

    Logging nevertheless counts it as 0, so that such a value was logged. A script that reads other
    features is not looked into.
    """
    names = featureset.feature_names
    for column, name in enumerate(names):
        if sources := featureset.derived_from.get(name):
            missing = np.isnan(seen[:, [names.index(source) for source in sources]]).any(axis=1)
            seen[missing, column] = np.nan


@compiled
def _linear_scores(
    features: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    scores = np.zeros(features.shape[0], dtype=np.float32)
    for row in range(features.shape[0]):
        total = np.float32(0)
        for column in range(features.shape[1]):
            total += weights[column] * features[row, column]
        scores[row] = total
    return scores
