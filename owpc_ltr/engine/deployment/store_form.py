"""The form in which a store keeps a model, and a version of an engine runs it."""

from __future__ import annotations

from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.store.base import Store
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.interop.engine_versions import serving_profile
from owpc_ltr.interop.export import export_checked, export_model
from owpc_ltr.interop.stored_model import StoredModel
from owpc_ltr.protocols import Model


def export_for(
    engine: Engine, store: Store, model: Model, featureset: FeatureSet, name: str
) -> StoredModel:
    """The model as this store keeps it, in the form that this version of the engine runs.

    Raises Refused, before anything is sent, where the engine would not take it.
    """
    if store.kind != "ltr-plugin":
        return export_model(model, featureset, name, store.kind)
    identity = engine.identity()
    profile = serving_profile(identity.distribution, identity.version)
    return export_checked(model, featureset, name, profile)
