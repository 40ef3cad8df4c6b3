"""OpenSearch with the LTR plugin: a model as the body of `_createmodel`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.files.strict_json import parse_json, take, take_object
from owpc_ltr.formats.ltr_plugin import emulate, export_to_plugin
from owpc_ltr.formats.stored_model import StoredModel, body_text, ranker_source, serving_profile
from owpc_ltr.names import check_name
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model
from owpc_ltr.version import version_text


@dataclass(frozen=True)
class OpenSearch:
    """OpenSearch with the LTR plugin: trees, linear models and RankLib's networks."""

    name: ClassVar[str] = "opensearch"
    versions: ClassVar[tuple[str, ...]] = ("1.0", "3.2", "3.6.1", "3.7", "3.8", "3.8.1")

    def export(
        self, model: Model, name: str, version: str, featureset: FeatureSet | None = None
    ) -> ExportedFile:
        """The body of `_createmodel`, in the first format that scores as the model does."""
        profile = serving_profile(self.name, version)
        check_name("model", name)
        known = featureset or _unknown(model.feature_names)
        stored = export_to_plugin(model, known, name, profile)
        body = {"model": {"name": name, "model": ranker_source(stored)}}
        where = featureset.name if featureset is not None else "FEATURESET"
        request = f"POST /_ltr/_featureset/{where}/_createmodel"
        return ExportedFile(body_text(body), stored.type, request, version_text(profile.version))

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """In float32 and in the plugin's order of additions."""
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
        profile = serving_profile(self.name, exported.version)
        return emulate(stored, features, profile).astype(np.float64)


def _unknown(names: tuple[str, ...]) -> FeatureSet:
    """Features of these names, of which nothing else is known."""
    return FeatureSet("unknown", tuple(Feature(name, (), "") for name in names))


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for opensearch`."""
    return [OpenSearch]
