"""A model as the request that makes it in an engine with the LTR plugin, and what it scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.files.strict_json import parse_json, take, take_object
from owpc_ltr.formats.engine_versions import ServingProfile, version_text
from owpc_ltr.formats.export import export_checked
from owpc_ltr.formats.request_body import body_text
from owpc_ltr.formats.stored_model import StoredModel, ranker_source
from owpc_ltr.names import check_name
from owpc_ltr.protocols import ExportedFile, Model


def ltr_plugin_file(
    model: Model, name: str, profile: ServingProfile, featureset: FeatureSet | None = None
) -> ExportedFile:
    """The body of `_createmodel`; Refused where the plugin of this version cannot score it so."""
    check_name("model", name)
    known = featureset or _unknown(model.feature_names)
    stored = export_checked(model, known, name, profile)
    body = {"model": {"name": name, "model": ranker_source(stored)}}
    where = featureset.name if featureset is not None else "FEATURESET"
    request = f"POST /_ltr/_featureset/{where}/_createmodel"
    return ExportedFile(body_text(body), stored.type, request, version_text(profile.version))


def ltr_plugin_scores(
    exported: ExportedFile, feature_names: Sequence[str], features: Matrix, profile: ServingProfile
) -> Vector:
    """The plugin's scores by the file alone. Raises BadInput where it would refuse it."""
    from owpc_ltr.formats.emulator import emulate

    where = "the request's body"
    model = take_object(parse_json(exported.text, where), "model", where)
    ranker = take_object(model, "model", where)
    kind = take(ranker, "type", where)
    if kind != exported.type:
        raise BadInput(f"{where} makes a {kind}, and is said to make a {exported.type}")
    stored = StoredModel(
        str(take(model, "name", where)),
        kind,
        take(ranker, "definition", where),
        _unknown(tuple(feature_names)),
        ranker.get("feature_normalizers") or {},
    )
    return emulate(stored, features, profile).astype(np.float64)


def _unknown(names: tuple[str, ...]) -> FeatureSet:
    """Features of these names, of which nothing else is known."""
    return FeatureSet("unknown", tuple(Feature(name, (), "") for name in names))
