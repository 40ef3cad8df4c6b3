"""Models that the client scores, in clusters that cannot run them: kept in the store all the same.

A search then brings the window with its features in one request, and the client reorders it.
"""

from __future__ import annotations

from pathlib import Path

from owpc_ltr.data.joined_tables.source import JoinedSource, as_joined, joined_features, sources_in
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.joined_features import joined_sources
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.linear import content_of, model_of
from owpc_ltr.protocols import Model

_TYPE = "owpc-ltr/"


def is_client_scored(stored: StoredModel) -> bool:
    """Whether no engine runs the model, but whoever searches."""
    return stored.type.startswith(_TYPE)


def store_for_client(model: Model, featureset: FeatureSet, name: str) -> StoredModel:
    """A model of any kind as our own JSON, without its record.

    Where it reads joined features, that is said beside: who scores it must have their values.
    """
    definition = {key: part for key, part in content_of(model).items() if key != "record"}
    definition |= as_joined(joined_sources(model))
    return StoredModel(name, _TYPE + model.kind, definition, featureset)


def client_model(stored: StoredModel) -> Model:
    """The model that the client scores. Raises BadInput where the stored one is damaged."""
    if not isinstance(stored.definition, dict):
        raise BadInput(f"the stored model '{stored.name}' is damaged: it is no object")
    model = model_of(stored.definition, Path(f"the stored model '{stored.name}'"))
    joined = joined_features(joined_in(stored))
    if model.feature_names != stored.featureset.feature_names + joined:
        raise BadInput(f"the stored model '{stored.name}' is damaged: it reads other features")
    return model


def joined_in(stored: StoredModel) -> tuple[JoinedSource, ...]:
    """Where the joined features of a stored model are from; nothing of one that an engine runs."""
    if not is_client_scored(stored) or not isinstance(stored.definition, dict):
        return ()
    return sources_in(stored.definition, f"the stored model '{stored.name}'")
