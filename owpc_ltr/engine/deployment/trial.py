"""A model on trial: in the cluster for as long as it is tried, and under no name that is used."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.immutable import immutable_name
from owpc_ltr.engine.deployment.store_form import export_for
from owpc_ltr.engine.search.serving import Serve, with_reordering, with_stored
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.export import is_client_scored, store_for_client
from owpc_ltr.formats.external_features import for_engine, joined_used
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.protocols import Model

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import JoinedTable

PREFIX = "owpc-ltr-trial-"
"""How the names of models on trial begin: what is left of a killed process can be taken out."""


@contextmanager
def on_trial(
    engine: Engine,
    store: Store,
    model: Model | ReorderingModel,
    featureset: FeatureSet | None,
    tables: Sequence[JoinedTable] = (),
) -> Iterator[Serve]:
    """How users would be served with a model that is not uploaded; nothing stays behind.

    Where the cluster cannot run it, the client scores the window, and looks up in the `tables` what
    is in no index. A reordering is always the client's; without `featureset` its own is looked for
    in the store.
    """
    if isinstance(model, ReorderingModel):
        yield with_reordering(engine, store, model, featureset, tables)
        return
    if featureset is None:
        raise TypeError("a model that is no reordering is tried with its feature set")
    with searchable(store, exported(engine, store, model, featureset)) as stored:
        yield with_stored(engine, store, stored, tables=tables)


@contextmanager
def searchable(store: Store, model: StoredModel) -> Iterator[StoredModel]:
    """A model that is not uploaded, as searches can name it; nothing stays behind.

    The LTR plugin runs only stored models, so that it is stored meanwhile. Without the plugin a
    search carries the whole model, and there is nothing to store.
    """
    if store.kind != "ltr-plugin" or is_client_scored(model):
        yield model
        return
    # The hash of its content proves to `models prune` that what a killed process left is ours.
    name = immutable_name(f"{PREFIX}{uuid.uuid4().hex[:12]}", model)
    with _kept(store, replace(model, name=name)) as kept:
        yield kept


def exported(engine: Engine, store: Store, model: Model, featureset: FeatureSet) -> StoredModel:
    """The model as this store keeps it, for the client to score where the engine cannot run it."""
    if joined_used(model):
        return store_for_client(model, featureset, "trial")
    model = for_engine(model)
    try:
        return export_for(engine, store, model, featureset, "trial")
    except Refused:
        return store_for_client(model, featureset, "trial")


@contextmanager
def _kept(store: Store, model: StoredModel) -> Iterator[StoredModel]:
    try:
        store.put_model(model)
        yield model
    except BaseException:
        # What has gone wrong is told; that the model could not be taken out as well is not more.
        with suppress(OwpcLtrError):
            _take_out(store, model.name)
        raise
    _take_out(store, model.name)


def _take_out(store: Store, name: str) -> None:
    try:
        store.delete_model(name)
    except BadInput:
        return
    except OwpcLtrError as fault:
        raise EngineUnavailable(
            f"the model that was tried could not be taken out again ({fault}): take it out later: "
            f"owpc-ltr models prune {name}"
        ) from fault
