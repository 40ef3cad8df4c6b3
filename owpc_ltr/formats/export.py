"""Models as the JSON that engines keep: one small converter a model family."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.value_bounds import always_matches
from owpc_ltr.formats.client_scored import store_for_client
from owpc_ltr.formats.emulator import rejection_reason
from owpc_ltr.formats.engine_versions import LINEAR, ServingProfile
from owpc_ltr.formats.joined_features import index_features
from owpc_ltr.formats.ltr_plugin_writer import plugin_definition
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.protocols import Model


def export_checked(
    model: Model, featureset: FeatureSet, name: str, profile: ServingProfile
) -> StoredModel:
    """The model as the LTR plugin of this version keeps it; Refused where it would not take it."""
    stored = export_model(model, featureset, name, "ltr-plugin", profile)
    fault = rejection_reason(
        stored.definition,
        stored.type,
        featureset.feature_names,
        profile,
        stored.feature_normalizers,
    )
    if fault:
        raise Refused(f"{profile} would not take '{name}' as {stored.type}: {fault}")
    return stored


def export_model(
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
    if isinstance(model, LinearModel):
        return export_linear(model, featureset, name)
    if store_kind == "plugin-free":
        return store_for_client(model, featureset, name)
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
    weights, normalisers = model.weights, model.normalisers
    _check_float32(weights, model.feature_names)
    return StoredModel(
        name,
        LINEAR,
        dict(zip(model.feature_names, map(float, weights), strict=True)),
        featureset,
        {feature: _normaliser(normaliser) for feature, normaliser in normalisers.items()},
    )


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


def _check_float32(weights: Any, names: tuple[str, ...]) -> None:
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(~np.isfinite(np.asarray(weights, dtype=np.float32)))
    if len(bad):
        raise Refused(
            f"the weight of '{names[bad[0]]}' is {weights[bad[0]]:g}, more than a float32 holds: "
            "scale the feature"
        )


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
