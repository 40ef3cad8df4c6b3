"""Models as the JSON that engines keep, as files for other engines, and for the client to score.

No engine has external (joined) features: a model goes there without them, or is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.external_features.sources import (
    KEY,
    ExternalSource,
    external_entry,
    external_names,
    in_words,
    sources_in,
)
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet, refuse_by_client
from owpc_ltr.features.query_analysis import always_matches
from owpc_ltr.formats.engine_versions import LINEAR, ServingProfile
from owpc_ltr.formats.ltr_plugin import plugin_definition, rejection_reason
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.feature_use import features_used, without_last_columns
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import content_of, model_of, packed, unpacked, with_record
from owpc_ltr.models.trees import ROUNDS_TO_FINITE
from owpc_ltr.protocols import Model, RankingModel

_TYPE = "owpc-ltr/"
LEFT_OUT = "joined_left_out"
"""Where a record names the joined features that a model had, and made nothing of."""


def is_client_scored(stored: StoredModel) -> bool:
    """Whether the client scores the model, and no engine."""
    return stored.type.startswith(_TYPE)


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
        raise BadInput(f"the stored model '{stored.name}' is damaged: it is no object")
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


def export_checked(
    model: Model, featureset: FeatureSet, name: str, profile: ServingProfile
) -> StoredModel:
    """The model as the LTR plugin of this version keeps it; Refused where it would not take it."""
    stored = to_stored_model(model, featureset, name, "ltr-plugin", profile)
    fault = rejection_reason(stored, profile)
    if fault:
        raise Refused(f"{profile} would not take '{name}' as {stored.type}: {fault}")
    return stored


def to_stored_model(
    model: Model,
    featureset: FeatureSet,
    name: str,
    store_kind: str,
    profile: ServingProfile | None = None,
) -> StoredModel:
    """The model as a store of this kind keeps it. Refused where such a store cannot run it.

    What the LTR plugin makes of anything but a linear model depends on its version: `profile`.
    Without the plugin, anything but a linear model is scored by the client.
    """
    if store_kind == "plugin-free" and not isinstance(model, LinearModel):
        return store_for_client(model, featureset, name)
    refuse_by_client(featureset)
    if isinstance(model, LinearModel):
        return export_linear(model, featureset, name)
    if profile is None:
        raise Refused(
            f"a {model.kind} model cannot run in a {store_kind} store of an unknown version: only "
            "linear ones are exported"
        )
    always = {feature.name for feature in featureset.features if always_matches(feature)}
    model_type, definition = plugin_definition(model, featureset.feature_names, profile, always)
    return StoredModel(name, model_type, definition, featureset)


def export_linear(model: LinearModel, featureset: FeatureSet, name: str) -> StoredModel:
    """A linear model as `model/linear` with `feature_normalizers`."""
    if model.feature_names != featureset.feature_names:
        raise BadInput(
            f"the model's features are not those of '{featureset.name}', or in another order: use "
            "the feature set that it was trained on"
        )
    weights = dict(zip(model.feature_names, map(float, model.weights), strict=True))
    for feature, weight in weights.items():
        if not abs(weight) <= ROUNDS_TO_FINITE:
            raise Refused(
                f"the weight of '{feature}' is {weight:g}, more than a float32 holds: scale the "
                "feature"
            )
    normalisers = {name: _normaliser(normaliser) for name, normaliser in model.normalisers.items()}
    return StoredModel(name, LINEAR, weights, featureset, normalisers)


def import_linear(stored: StoredModel) -> LinearModel:
    """The linear model that a store keeps. Refused for other types, BadInput where it is broken.

    A feature that the definition does not name has the weight 0, as in the plugin.
    """
    if stored.type != LINEAR:
        raise Refused(
            f"the model '{stored.name}' is a {stored.type}, and only {LINEAR} can run here: use a "
            "cluster with the LTR plugin"
        )
    names = stored.featureset.feature_names
    try:
        definition = stored.definition
        definition = json.loads(definition) if isinstance(definition, str) else definition
        unknown = sorted(set(definition) - set(names))
        if unknown:
            raise BadInput(f"the model '{stored.name}' weighs '{unknown[0]}', which is no feature")
        weights = np.array([float(definition.get(name, 0.0)) for name in names])
        normalisers = {
            name: _parsed(content) for name, content in stored.feature_normalizers.items()
        }
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise BadInput(f"the stored model '{stored.name}' is damaged: {error}") from error
    return LinearModel(names, weights, normalisers)


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
            "can run it: train without it, or let the client score the model: upload "
            "--client-scored"
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


def _normaliser(normaliser: Normaliser) -> dict[str, Any]:
    """The plugin's form. Both kinds compute (value − shift) / scale, in float32.

    The plugin takes no negative minimum, and computes the scale from minimum and maximum: where
    that loses digits, `standard` says the same exactly.
    """
    low, high = np.float32(normaliser.shift), np.float32(normaliser.shift + normaliser.scale)
    exact = low >= 0 and high - low == np.float32(normaliser.scale)
    if normaliser.kind == "min_max" and exact:
        return {"min_max": {"minimum": float(low), "maximum": float(high)}}
    return {"standard": {"mean": normaliser.shift, "standard_deviation": normaliser.scale}}


def _parsed(content: dict[str, Any]) -> Normaliser:
    ((kind, values),) = content.items()
    if kind == "standard":
        return Normaliser(kind, float(values["mean"]), float(values["standard_deviation"]))
    if kind == "min_max":
        low, high = float(values["minimum"]), float(values["maximum"])
        return Normaliser(kind, low, high - low)
    raise ValueError(f"unknown normaliser '{kind}'")


def _record(model: Model, names: Sequence[str]) -> dict[str, Any]:
    record = {key: part for key, part in model.record.items() if key != KEY}
    width, joined = len(model.feature_names), len(names)
    if record.get("probes"):
        record["probes"] = samples_of_columns(record["probes"], width, range(width - joined))
    if record.get("feature_ranges"):
        record["feature_ranges"] = [ends[: width - joined] for ends in record["feature_ranges"]]
    return {**record, LEFT_OUT: list(names)}
