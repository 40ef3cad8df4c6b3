"""Elasticsearch with the LTR plugin: a model as the body of `_createmodel`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.engine_versions import serving_profile
from owpc_ltr.formats.model_conversion import ltr_plugin_file, ltr_plugin_scores
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model


@dataclass(frozen=True)
class Elasticsearch:
    """Elasticsearch with the LTR plugin: trees, linear models and RankLib's networks."""

    name: ClassVar[str] = "elasticsearch"
    versions: ClassVar[tuple[str, ...]] = ("7.0", "8.11", "8.15", "8.17.2", "9.0.8")

    def export(
        self, model: Model, name: str, version: str, featureset: FeatureSet | None = None
    ) -> ExportedFile:
        """The first of the plugin's formats that this version scores as the model does."""
        return ltr_plugin_file(model, name, serving_profile(self.name, version), featureset)

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """In float32 and in the plugin's order of additions."""
        profile = serving_profile(self.name, exported.version)
        return ltr_plugin_scores(exported, feature_names, features, profile)


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for elasticsearch`."""
    return [Elasticsearch]
