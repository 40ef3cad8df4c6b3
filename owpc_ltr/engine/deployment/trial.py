"""Models on trial, for live comparisons: in the cluster only while they are tried."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.deployment_record import immutable_name
from owpc_ltr.engine.search.client_scoring import Serve, Served, with_reordering, with_stored
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.stored_model import (
    StoredModel,
    for_engine,
    is_client_scored,
    joined_used,
    store_for_client,
)
from owpc_ltr.models.combined import FoldOf, ReorderingModel, fold_model
from owpc_ltr.protocols import Model

PREFIX = "owpc-ltr-trial-"
"""How the names of models on trial begin, also of those that killed processes left."""


@contextmanager
def on_trial(
    engine: Engine,
    store: Store,
    model: Model | ReorderingModel,
    featureset: FeatureSet | None,
) -> Iterator[Serve]:
    """How searches are answered with a model that is not uploaded; nothing stays behind.

    Where the cluster cannot run it, the client scores the window. A reranker always runs on the
    client; without `featureset` its own is looked up in the store.
    """
    if isinstance(model, ReorderingModel):
        yield with_reordering(engine, store, model, featureset)
        return
    if featureset is None:
        raise TypeError("a model is tried with its feature set; only a reranker knows its own")
    with searchable(store, exported(store, model, featureset)) as stored:
        yield with_stored(engine, store, stored)


@contextmanager
def by_folds(
    engine: Engine,
    store: Store,
    serve: Serve,
    record: Mapping[str, Any],
    featureset: FeatureSet | None,
    fold_of: FoldOf,
) -> Iterator[Serve]:
    """The same service, where models of folds, on trial, rank what their model learned from."""
    with ExitStack() as kept:
        ways = {
            number: kept.enter_context(
                on_trial(engine, store, fold_model(record, number), featureset)
            )
            for number in sorted({*fold_of.values()})
        }

        def ask(request: SearchRequest) -> Served:
            number = fold_of.get(request.query_id or "")
            return (serve if number is None else ways[number])(request)

        yield ask if ways else serve


@contextmanager
def searchable(store: Store, model: StoredModel) -> Iterator[StoredModel]:
    """A model that is not uploaded, as searches refer to it; nothing stays behind.

    The LTR plugin runs only stored models, so the model is stored meanwhile. Without the plugin a
    search carries the whole model.
    """
    if store.kind != "ltr-plugin" or is_client_scored(model):
        yield model
        return
    # By the hash of its content `models delete` knows what a killed process left as ours.
    stored = replace(model, name=immutable_name(f"{PREFIX}{uuid.uuid4().hex[:12]}", model))
    try:
        store.put_model(stored)
        yield stored
    except BaseException:
        # The first error is raised; that the model could not be deleted either adds nothing.
        with suppress(OwpcLtrError):
            _delete(store, stored.name)
        raise
    _delete(store, stored.name)


def exported(store: Store, model: Model, featureset: FeatureSet) -> StoredModel:
    """The model as this store keeps it; the client scores it where the engine cannot run it."""
    if joined_used(model):
        return store_for_client(model, featureset, "trial")
    model = for_engine(model)
    try:
        return store.export(model, featureset, "trial")
    except Refused:
        return store_for_client(model, featureset, "trial")


def _delete(store: Store, name: str) -> None:
    try:
        store.delete_model(name)
    except BadInput:
        return
    except OwpcLtrError as fault:
        raise EngineUnavailable(
            f"the model on trial could not be deleted ({fault}): delete it later: "
            f"`models_delete('{name}', yes=True)`"
        ) from fault
