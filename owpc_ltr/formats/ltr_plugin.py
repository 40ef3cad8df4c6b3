"""The LTR plugin's models: read exactly as one version of the plugin reads them, and scored so.

`emulate` gives the engine's scores, in float32 and in its order of additions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.expressions import expression_variables
from owpc_ltr.features.feature_set import DERIVED, FeatureSet
from owpc_ltr.files.strict_json import a_json, parse_json, shown, take, take_object, take_strings
from owpc_ltr.formats.engine_versions import (
    LINEAR,
    RANKLIB,
    XGBOOST,
    XGBOOST_RAW,
    ServingProfile,
    link_of,
)
from owpc_ltr.formats.ranklib import (
    Ensembles,
    Parsed,
    Sum,
    check_columns,
    parse_ranklib,
    to_ranklib,
)
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.formats.xgboost_json import from_dump, read_trees, to_dump, to_raw
from owpc_ltr.models.networks import LogisticNetwork
from owpc_ltr.models.trees import HIGHEST, ROUNDS_TO_FINITE, Forest, TreeModel, logistic
from owpc_ltr.protocols import Model

_KINDS = {"standard": ("mean", "standard_deviation"), "min_max": ("minimum", "maximum")}
_DEFAULTS = {"standard": (0.0, 0.0), "min_max": (0.0, HIGHEST)}
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class PluginNormaliser:
    """(value − shift) / scale of one column, each step rounded to float32."""

    column: int
    shift: np.float32
    scale: np.float32

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The normalised values."""
        return np.asarray((values - self.shift) / self.scale, dtype=np.float32)


@dataclass(frozen=True)
class PluginTrees:
    """Trees over the columns of the set; `zero_flag` is the definition's `missing_as_zero`."""

    forest: Forest
    link: str
    zero_flag: bool


def rejection_reason(stored: StoredModel, profile: ServingProfile) -> str | None:
    """Why the engine would refuse the model, or fail every search with it; None if it would not.

    It is stricter than the engine where the engine takes what it then scores wrongly.
    """
    names = stored.featureset.feature_names
    try:
        read_definition(stored.definition, stored.type, names, profile)
        read_normalisers(stored.feature_normalizers, names)
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
    if isinstance(model, np.ndarray):
        scores: Scores = _linear_scores(seen, model)
        return scores
    if not isinstance(model, PluginTrees):
        return _ranklib_scores(seen, model)
    forest = model.forest
    if rule == "right":
        forest = replace(forest, default_left=np.zeros_like(forest.default_left))
    margin = forest.score_single(seen)
    if model.link == "identity":
        return margin
    return logistic(margin.astype(np.float64)).astype(np.float32)


def plugin_definition(
    model: Model,
    featureset_names: Sequence[str],
    profile: ServingProfile,
    never_missing: Collection[str] = (),
) -> tuple[str, Any]:
    """The type and definition of a tree or network model: the first format that scores it exactly.

    Features in `never_missing` match every document. Raises Refused, with the first format's
    reason, where none does.
    """
    writers: list[tuple[str, Callable[..., Any]]] = []
    if isinstance(model, TreeModel):
        writers = [(XGBOOST, to_dump), (XGBOOST_RAW, to_raw), (RANKLIB, to_ranklib)]
    elif isinstance(model, LogisticNetwork):
        writers = [(RANKLIB, to_ranklib)]
    reasons = [
        f"the LTR plugin has no {model.kind} models: push its feature set (featureset push), and "
        "upload it, both with --store-kind plugin-free, for the client to score"
    ]
    for model_type, write in writers:
        try:
            return model_type, write(model, featureset_names, profile, never_missing)
        except Refused as error:
            reasons.append(str(error))
    raise Refused(reasons[min(1, len(reasons) - 1)])


def read_definition(
    definition: Any, model_type: str, names: Sequence[str], profile: ServingProfile
) -> Scores | PluginTrees | Parsed:
    """What the plugin of this version makes of a definition. Raises BadInput where it refuses.

    Of a linear model: the weights, one a feature of the set.
    """
    if model_type not in profile.missing:
        raise BadInput(f"{profile} does not take {model_type}: use {', '.join(profile.formats)}")
    if model_type == RANKLIB:
        if not isinstance(definition, str):
            raise BadInput(f"a RankLib definition is a text, not {a_json(definition)}")
        _, parsed = parse_ranklib(definition)
        check_columns(parsed, len(names))
        return parsed
    content = definition
    if isinstance(definition, str):
        content = parse_json(definition, f"the {model_type} definition")
    if model_type == LINEAR:
        return read_linear(content, names)
    if model_type == XGBOOST:
        return _read_dump(content, names, profile)
    if model_type == XGBOOST_RAW:
        return _read_raw(content, names, profile)
    raise BadInput(f"{profile} is not served by the LTR plugin: write its files instead")


def read_linear(content: Any, names: Sequence[str]) -> Scores:
    """The weights of a linear definition, 0 for a feature that it does not name."""
    if not isinstance(content, dict):
        raise BadInput(f"a linear definition is an object of weights, not {a_json(content)}")
    weights = dict.fromkeys(names, 0.0)
    for name, weight in content.items():
        if name not in weights:
            raise BadInput(f"the linear model weighs an unknown feature '{shown(name)}'")
        if type(weight) not in (int, float) or not abs(weight) <= ROUNDS_TO_FINITE:
            raise BadInput(f"the weight of '{shown(name)}' is {a_json(weight)}, not a float32")
        weights[name] = weight
    return np.array([*weights.values()], dtype=np.float32)


def _read_dump(content: Any, names: Sequence[str], profile: ServingProfile) -> PluginTrees:
    options = content if isinstance(content, dict) else {}
    if "missing_as_zero" in options and not profile.missing_as_zero:
        raise BadInput(f"{profile} does not know 'missing_as_zero': leave it out")
    if "objective" in options:
        _check_objective(options["objective"], XGBOOST, profile)
    # The Elasticsearch plugin unboxes the missing node's number whether it is there or not.
    needs_missing = profile.engine == "elasticsearch" and profile.missing[XGBOOST] == "default"
    model = from_dump(content, tuple(names), statistics=False, needs_missing=needs_missing)
    return PluginTrees(model.forest, model.link, bool(options.get("missing_as_zero")))


def _read_raw(content: Any, names: Sequence[str], profile: ServingProfile) -> PluginTrees:
    where = "the raw XGBoost definition"
    learner = take_object(content, "learner", where)
    columns = take_strings(learner, "feature_names", where)
    types = take_strings(learner, "feature_types", where)
    unknown = [name for name in columns if name not in names]
    if unknown:
        raise BadInput(f"{where} has an unknown feature '{shown(unknown[0])}'")
    if len(columns) != len(types):
        raise BadInput(f"{where} has {len(columns)} feature names and {len(types)} feature types")
    for kind in types:
        if kind != "float":
            raise BadInput(f"{where} has a feature of type '{shown(kind)}': all must be float")
    booster = take_object(learner, "gradient_booster", where)
    inner = take_object(booster, "model", f"the {a_json(booster.get('name'))} booster")
    objective = take(take_object(learner, "objective", where), "name", "the objective")
    link = _check_objective(objective, XGBOOST_RAW, profile)
    forest = read_trees(inner, "base_weights").forest(where)
    width = len(names) if profile.raw_by_number else len(columns)
    if int(forest.feature.max()) >= width:
        raise BadInput(f"{where} splits on column {forest.feature.max()} of {width}")
    if not profile.raw_by_number:
        places = np.array([*(names.index(name) for name in columns), -1], dtype=np.int32)
        forest = replace(forest, feature=places[forest.feature])
    flag = content.get("missing_as_zero", False)
    if profile.missing_as_zero and not isinstance(flag, bool):
        raise BadInput(f"'missing_as_zero' is {a_json(flag)}, not true or false")
    # An older plugin skips the keys that it does not know.
    return PluginTrees(forest, link, bool(flag) and profile.missing_as_zero)


def _check_objective(objective: Any, model_type: str, profile: ServingProfile) -> str:
    link = link_of(objective)
    accepted = profile.objectives[model_type]
    if objective not in accepted:
        raise BadInput(
            f"{profile} refuses the objective '{objective}': name it one of "
            f"{', '.join(sorted(accepted))}"
        )
    return link


def read_normalisers(content: Any, names: Sequence[str]) -> list[PluginNormaliser]:
    """What the plugin makes of `feature_normalizers`. Raises BadInput where it refuses them."""
    if not isinstance(content, dict):
        raise BadInput(f"feature_normalizers is {a_json(content)}, not an object")
    return [_read_normaliser(name, value, names) for name, value in content.items()]


def _read_normaliser(name: str, value: Any, names: Sequence[str]) -> PluginNormaliser:
    where = f"the normaliser of '{shown(name)}'"
    if name not in names:
        raise BadInput(f"{where}: the feature set has no such feature")
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in _KINDS:
        raise BadInput(f"{where} is {a_json(value)}, not one of {' or '.join(_KINDS)}")
    kind, settings = next(iter(value.items()))
    keys = _KINDS[kind]
    if not isinstance(settings, dict) or set(settings) - set(keys):
        raise BadInput(f"{where} has {a_json(settings)}, not {' and '.join(keys)}")
    numbers = [settings.get(key, d) for key, d in zip(keys, _DEFAULTS[kind], strict=True)]
    for key, number in zip(keys, numbers, strict=True):
        if type(number) not in (int, float) or not abs(number) <= ROUNDS_TO_FINITE:
            raise BadInput(f"{where}: '{key}' is {a_json(number)}, not a float32 number")
    first, second = (np.float32(number) for number in numbers)
    if kind == "standard":
        if second <= 0:
            raise BadInput(f"{where}: the standard deviation {second} is not positive")
        return PluginNormaliser(names.index(name), first, second)
    if not 0 <= first < second:
        raise BadInput(f"{where}: needs 0 ≤ minimum < maximum, not {first} and {second}")
    return PluginNormaliser(names.index(name), first, np.float32(second - first))


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

    Logging nevertheless counts it as 0, so that such a value was logged. A script that reads other
    features is not looked into.
    """
    names = featureset.feature_names
    for column, feature in enumerate(featureset.features):
        if feature.template_language == DERIVED:
            sources = expression_variables(str(feature.template)) & set(names)
            missing = np.isnan(seen[:, [names.index(name) for name in sources]]).any(axis=1)
            seen[missing, column] = np.nan


def _ranklib_scores(seen: NDArray[np.float32], model: Parsed) -> Scores:
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
def _linear_scores(features: Any, weights: Any) -> Any:
    scores = np.zeros(features.shape[0], dtype=np.float32)
    for row in range(features.shape[0]):
        total = np.float32(0)
        for column in range(features.shape[1]):
            total += weights[column] * features[row, column]
        scores[row] = total
    return scores
