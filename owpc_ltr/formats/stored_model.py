"""Models as an engine stores them, as JSON, and what its version does with them.

Models that the client scores, as a store keeps them, and models with joined features. No engine has
external (joined) features: a model goes there without them, or is refused.

What each version of each engine does with models: where it sends a missing feature.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from owpc_ltr.data.feature_sources import (
    KEY,
    ExternalSource,
    external_entry,
    external_names,
    in_words,
    sources_in,
)
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet, parse_featureset, stored_part
from owpc_ltr.files.input import shown
from owpc_ltr.models.analysis import features_used, without_last_columns
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.model_file import content_of, model_of, packed, unpacked, with_record
from owpc_ltr.models.networks import LogisticNetwork
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model, RankingModel
from owpc_ltr.text import ShortRepr
from owpc_ltr.version import Version, parse_version, version_text

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json


LINEAR = "model/linear"
RANKLIB = "model/ranklib"
XGBOOST = "model/xgboost+json"
XGBOOST_RAW = "model/xgboost+json+raw"

MissingRule = Literal["zero", "right", "default"]
"""Where a missing feature goes: as 0 would, always right, or as each split says."""


@dataclass(frozen=True, repr=False)
class ServingProfile(ShortRepr):
    """What an engine of one version does with models.

    `missing` is where XGBoost's trees send a missing feature; to linear models and to RankLib's it
    is 0 in every version. `missing_as_zero`: whether a dump may have the key of that name.
    """

    engine: str
    version: Version
    missing: MissingRule
    missing_as_zero: bool

    def __str__(self) -> str:
        return f"{self.engine} {version_text(self.version)}"


def serving_profile(engine: str, version: str) -> ServingProfile:
    """The profile of `opensearch` or `elasticsearch` with the LTR plugin. Raises UsageError."""
    number = parse_version(version)
    rules: dict[str, MissingRule] = {
        "opensearch": ("default" if number >= (3, 8) else "right" if number >= (3, 2) else "zero"),
        "elasticsearch": "default" if number >= (8, 11) else "zero",
    }
    if engine not in rules:
        raise UsageError(f"no profile of {engine[:40]!r}: choose from {', '.join(rules)}")
    knows_key = number >= (3, 8, 1) or (3, 6, 1) <= number < (3, 7)
    return ServingProfile(engine, number, rules[engine], knows_key and engine == "opensearch")


def positions(model_names: Sequence[str], featureset_names: Sequence[str]) -> list[int]:
    """The place of each feature of a model in the feature set. Raises Refused if one is absent."""
    places = {name: place for place, name in enumerate(featureset_names)}
    for name in model_names:
        if name not in places:
            raise Refused(
                f"the model needs the feature {shown(name)}, which the feature set has not: "
                "push the feature set that it was trained on"
            )
    return [places[name] for name in model_names]


_MEANING = {"zero": "as if it were 0", "right": "always right"}


def needs_zero_flag(
    model: TreeModel, rule: MissingRule, profile: ServingProfile, never_missing: Collection[str]
) -> bool:
    """Whether `missing_as_zero` must be written for an engine of this rule to do as the model does.

    Features in `never_missing` match every document, so their splits are safe under any rule.
    Raises Refused where the engine would send a missing feature another way.
    """
    if rule == "default":
        return False
    forest, splits = model.forest, model.splits
    safe = np.array([name in never_missing for name in model.feature_names], dtype=bool)
    splits = splits[~safe[forest.feature[splits]]]
    default_left = forest.default_left[splits]
    differs = default_left != (forest.threshold[splits] > 0)
    wrong = splits[differs if rule == "zero" else default_left]
    if not len(wrong):
        return False
    if rule == "right" and profile.missing_as_zero and not differs.any():
        return True
    name = model.feature_names[forest.feature[wrong[0]]]
    form = f", which goes in as {RANKLIB}" if rule == "right" else ""
    raise Refused(
        f"{len(wrong)} of {len(model.splits)} splits send a missing feature elsewhere than "
        f"{profile} does ({_MEANING[rule]}), the first on {shown(name)}: train with "
        f"`train(missing='zero')`{form}, or make the feature match every document"
    )


@dataclass(frozen=True, repr=False)
class StoredModel(ShortRepr):
    """A model as a store keeps it: the LTR plugin's type and definition."""

    name: str
    type: str
    definition: Any
    featureset: FeatureSet
    feature_normalizers: dict[str, Any] = field(default_factory=dict)


def model_source(model: StoredModel) -> dict[str, Any]:
    """A model with its own copy of the feature set."""
    return {
        "name": model.name,
        "feature_set": model.featureset.to_body()["featureset"],
        "model": ranker_source(model),
    }


def ranker_source(model: StoredModel) -> dict[str, Any]:
    """The part of a model that scores."""
    normalisers = model.feature_normalizers
    return {
        "type": model.type,
        "definition": model.definition,
        **({"feature_normalizers": normalisers} if normalisers else {}),
    }


def read_model(source: Json, place: str) -> StoredModel:
    """The model of a stored document."""
    content = stored_part(source, "model", place)
    ranker = stored_part(content, "model", place)
    featureset = parse_featureset(stored_part(content, "feature_set", place), place)
    try:
        return StoredModel(
            str(content["name"]),
            str(ranker["type"]),
            ranker["definition"],
            featureset,
            dict(ranker.get("feature_normalizers") or {}),
        )
    except (KeyError, TypeError) as error:
        raise BadInput(f"{place} is damaged: {type(error).__name__} {error}") from error


def same_model(first: StoredModel, second: StoredModel) -> bool:
    """Whether two models score alike: their features, definition and normalisers are equal."""
    return (
        first.type == second.type
        and first.featureset.hash == second.featureset.hash
        and first.feature_normalizers == second.feature_normalizers
        and _decoded(first.definition) == _decoded(second.definition)
    )


def _decoded(definition: Json) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(definition) if isinstance(definition, str) else definition
    return definition


def body_text(body: dict[str, Any]) -> str:
    """JSON that people can read, ending in a line break."""
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


_TYPE = "owpc-ltr/"
LEFT_OUT = "joined_left_out"
"""Where a record names the joined features that a model had, and made nothing of."""


def is_client_scored(stored: StoredModel) -> bool:
    """Whether the client scores the model, and no engine."""
    return stored.type.startswith(_TYPE)


def elsewhere(stored: StoredModel) -> str:
    """Where an engine may run a model that the client scores here, in words."""
    kind = stored.type.removeprefix(_TYPE)
    if kind in {LinearModel.kind, TreeModel.kind, LogisticNetwork.kind}:
        return "a cluster with the LTR plugin may run it"
    scripted = "an engine that allows inline scripts runs it: upload it there"
    return scripted if kind == AdditiveModel.kind else f"no engine runs models of the kind {kind}"


def store_for_client(model: Model, featureset: FeatureSet, name: str) -> StoredModel:
    """A model of any kind as our own JSON, without its record.

    Where it reads joined features, that is said beside: who scores it must have their values.
    """
    definition = {key: part for key, part in content_of(model).items() if key != "record"}
    definition |= external_entry(joined_sources(model))
    return StoredModel(name, _TYPE + model.kind, definition, featureset)


def client_model(stored: StoredModel) -> Model:
    """The model that the client scores. Raises BadInput where the stored one is damaged."""
    if not isinstance(stored.definition, dict):
        raise BadInput(f"the stored model '{stored.name}' is damaged: it is not an object")
    model = model_of(stored.definition, Path(f"the stored model '{stored.name}'"))
    joined = external_names(joined_in(stored))
    if model.feature_names != stored.featureset.feature_names + joined:
        raise BadInput(f"the stored model '{stored.name}' is damaged: it reads other features")
    return model


def joined_in(stored: StoredModel) -> tuple[ExternalSource, ...]:
    """Where the joined features of a stored model are from; nothing of one that an engine runs."""
    if not is_client_scored(stored) or not isinstance(stored.definition, dict):
        return ()
    return sources_in(stored.definition, f"the stored model '{stored.name}'")


def joined_words(stored: StoredModel) -> str:
    """The joined features of a stored model, and where they are from; empty where it has none."""
    sources = joined_in(stored)
    return in_words(external_names(sources), sources) if sources else ""


def check_features(model: Model, featureset: FeatureSet) -> None:
    """Refuse a feature set that is not the one the model was trained on, joined columns apart."""
    names = index_features(model)
    if names != featureset.feature_names:
        missing = sorted(set(names) - set(featureset.feature_names))
        what = f"lacks '{missing[0]}'" if missing else "has others, or another order"
        raise BadInput(
            f"feature set '{featureset.name}' {what}: use the one that the model was trained on"
        )
    trained = model.record.get("featureset_hash")
    if trained and trained != featureset.hash:
        raise Refused(
            f"feature set '{featureset.name}' has changed since the model's features were logged "
            f"(hash {featureset.hash[:12]}, then {trained[:12]}): log and train again, or push the "
            "old feature set"
        )


def joined_sources(model: RankingModel) -> tuple[ExternalSource, ...]:
    """Where the model's joined features are from. Raises BadInput where its record is damaged."""
    sources = sources_in(model.record, "the model's record")
    names = external_names(sources)
    if names and model.feature_names[-len(names) :] != names:
        raise BadInput("the model's record is damaged: its external features are not its last ones")
    return sources


def index_features(model: RankingModel) -> tuple[str, ...]:
    """The features that an index has: all but the joined ones, which are the last."""
    joined = len(external_names(joined_sources(model)))
    return model.feature_names[: len(model.feature_names) - joined]


def joined_used(model: Model) -> tuple[str, ...]:
    """The joined features that can change a score of the model."""
    used = features_used(model)
    return tuple(name for name in external_names(joined_sources(model)) if name in used)


def for_engine(model: Model) -> Model:
    """The model without joined features, of which it makes nothing; itself where it has none.

    Raises Refused, naming them, where it reads some: no engine has their values.
    """
    sources = joined_sources(model)
    names = external_names(sources)
    used = joined_used(model)
    if used:
        raise Refused(
            f"the model reads {in_words(used, sources)}, which is in no index, so that no engine "
            "can run it: train without it, or let the client score the model: "
            "`upload(client_scored=True)`"
        )
    if not names:
        return model
    return with_record(without_last_columns(model, names), _record(model, names))


def samples_of_columns(
    samples: Iterable[dict[str, Any]], width: int, columns: Sequence[int]
) -> list[dict[str, Any]]:
    """Samples of `width` features with these columns of them; some samples have no features."""

    def narrowed(sample: dict[str, Any]) -> dict[str, Any]:
        rows = unpacked(sample["features"], len(sample["document_ids"]), width)
        return {**sample, "features": packed(rows[:, list(columns)])}

    return [narrowed(sample) if "features" in sample else sample for sample in samples]


def _record(model: Model, names: Sequence[str]) -> dict[str, Any]:
    record = {key: part for key, part in model.record.items() if key != KEY}
    width, joined = len(model.feature_names), len(names)
    if record.get("probes"):
        record["probes"] = samples_of_columns(record["probes"], width, range(width - joined))
    if record.get("feature_ranges"):
        record["feature_ranges"] = [ends[: width - joined] for ends in record["feature_ranges"]]
    return {**record, LEFT_OUT: list(names)}
