"""A model as the file that an engine takes by itself: its text, and how to send it."""

from __future__ import annotations

from collections.abc import Mapping

from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.export import check_features
from owpc_ltr.formats.joined_features import for_engine
from owpc_ltr.host.registry import Registry, installed
from owpc_ltr.host.settings import configure
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model


def export_file(
    model: Model,
    target: str,
    name: str,
    version: str,
    featureset: FeatureSet | None = None,
    registry: Registry | None = None,
    settings: Mapping[str, str] | None = None,
) -> ExportedFile:
    """The model for one version of an engine, scored there as here.

    `target` is the name of an installed export target. Without the feature set it is not known
    which features match every document. Raises PluginError for a target that there is not,
    Refused where the engine cannot score the model so, UsageError where it needs the set's queries.
    """
    found = registry if registry is not None else installed()
    made: ExportTarget = configure(found.find("export-target", target), settings or {})
    if featureset is not None:
        check_features(model, featureset)
    return made.export(for_engine(model), name, version, featureset)
