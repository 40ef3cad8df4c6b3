"""Explained searches: a window as it was served, its features as they are logged, and why it is so.

The features of the hits come as in a feature log, as the proof of an upload asks for
them; nothing of a model is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from owpc_ltr.arrays import Fields
from owpc_ltr.data.external_features.columns import ExternalColumns, columns_for, refuse_unused
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.proof import logged
from owpc_ltr.engine.search.client_rerank import (
    fields_of_hits,
    find_featureset,
    live_search,
    prepare,
)
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.search import search_stored, served_hits, titles_of
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import Refused
from owpc_ltr.explanations.explanation import Explanation
from owpc_ltr.explanations.ranked_list import ServedList, explain_list
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.engine_versions import LINEAR
from owpc_ltr.formats.model_conversion import (
    client_model,
    import_linear,
    is_client_scored,
    joined_in,
    joined_sources,
)
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.protocols import Model

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable

_PATIENCE = 30.0


@dataclass(frozen=True)
class ExplainRequest:
    """What is to be explained: the best `size` hits, or one `document`, and what it is to pass.

    `query` is what to call the query, `title` the field to call documents by; `tables` have
    features that are in no index.
    """

    query: str
    size: int
    document: str | None = None
    above: str | None = None
    title: str | None = None
    tables: Sequence[ExternalTable] = field(default=(), repr=False)


def explain_stored(
    engine: Engine, store: Store, request: SearchRequest, stored: StoredModel, asked: ExplainRequest
) -> Explanation:
    """Why the hits of a search with a stored model are where they are.

    Raises BadInput for a model that only the engine knows, Refused where the window changed in
    the meantime.
    """
    whose = f"the model '{stored.name}'"
    _refuse_replaced_set(store, stored)
    refuse_unused(joined_in(stored), asked.tables, whose)
    joined = columns_for(joined_in(stored), asked.tables, whose)
    model = _local(engine, store, stored)
    if is_client_scored(stored):
        base = ReorderingModel(client_model(stored), "", None)
        window = _by_client(
            engine, store, request, base, featureset=stored.featureset, joined=joined, asked=asked
        )
    else:
        window = _by_engine(engine, store, request, stored, asked)
    return _explained(
        engine,
        store,
        request=request,
        ranker=model,
        name=stored.name,
        featureset=stored.featureset,
        joined=joined,
        window=window,
        asked=asked,
    )


def explain_reordered(
    engine: Engine,
    store: Store,
    request: SearchRequest,
    ranker: ReorderingModel,
    name: str,
    asked: ExplainRequest,
) -> Explanation:
    """Why the hits of a search that the client reorders are where they are; `name` is shown."""
    sources = joined_sources(ranker)
    refuse_unused(sources, asked.tables, "the reranker")
    joined = columns_for(sources, asked.tables, "the reranker")
    featureset = find_featureset(store, ranker)
    prepare(ranker)
    window = _by_client(
        engine, store, request, ranker, featureset=featureset, joined=joined, asked=asked
    )
    return _explained(
        engine,
        store,
        request=request,
        ranker=ranker,
        name=name,
        featureset=featureset,
        joined=joined,
        window=window,
        asked=asked,
    )


@dataclass(frozen=True)
class _Window:
    """The hits of a window, best first, as they were served."""

    doc_ids: Sequence[str]
    titles: Sequence[str]
    scores: Sequence[float]
    ranks_before: Sequence[int | None]
    fields: Fields = field(default_factory=dict)


def _refuse_replaced_set(store: Store, stored: StoredModel) -> None:
    """Refuse a model whose features the LTR plugin would log by another set than it scores by.

    It logs by the name of a set; without the plugin the model's own copy is logged.
    """
    own = stored.featureset
    if store.kind == "ltr-plugin" and store.get_featureset(own.name).hash != own.hash:
        raise Refused(
            f"the feature set '{own.name}' was replaced since '{stored.name}' was uploaded, and "
            "what it logs now is not what the model scores: push the former set again, or train "
            "and upload by the one that is there"
        )


def _local(engine: Engine, store: Store, stored: StoredModel) -> Model:
    """The model as it was proved, else as the store tells it."""
    deployments = DeploymentRecords(engine, store)
    deployment = deployments.find(stored.name)
    if deployment is not None:
        return deployment.ranker()
    if is_client_scored(stored):
        return client_model(stored)
    return import_linear(stored) if stored.type == LINEAR else deployments.get(stored.name).ranker()


def _by_engine(
    engine: Engine, store: Store, request: SearchRequest, stored: StoredModel, asked: ExplainRequest
) -> _Window:
    whole = request.showing_window()
    found = search_stored(engine, store, whole, stored, title_field=asked.title).after
    return _Window(
        [hit.document_id for hit in found],
        [hit.title for hit in found],
        [hit.score for hit in found],
        [hit.other_rank for hit in found],
    )


def _by_client(
    engine: Engine,
    store: Store,
    request: SearchRequest,
    ranker: ReorderingModel,
    featureset: FeatureSet,
    joined: ExternalColumns | None,
    asked: ExplainRequest,
) -> _Window:
    found = live_search(
        engine, store, request.showing_window(), ranker,
        featureset=featureset, joined=joined, deadline=_PATIENCE,
    )  # fmt: skip
    if not found.reordered and found.hits:
        raise Refused(f"the client could not reorder what it got: {found.reason}")
    ids, sources = [hit.document_id for hit in found.hits], [hit.source for hit in found.hits]
    hits = served_hits(found)
    return _Window(
        ids,
        list(map(titles_of(hits, asked.title), hits)),
        [hit.score for hit in found.hits],
        [hit.engine_rank for hit in found.hits],
        fields_of_hits(ranker, ids, sources),
    )


def _explained(
    engine: Engine,
    store: Store,
    request: SearchRequest,
    ranker: Model | ReorderingModel,
    name: str,
    featureset: FeatureSet,
    joined: ExternalColumns | None,
    window: _Window,
    asked: ExplainRequest,
) -> Explanation:
    sample = {"params": request.params, "document_ids": list(window.doc_ids)}
    features = np.zeros((0, len(featureset.features)), np.float32)
    if window.doc_ids:
        ids, features = logged(engine, store, featureset, request.index, sample)
        if ids != list(window.doc_ids):
            gone = next(one for one in window.doc_ids if one not in ids)
            raise Refused(f"document '{gone}' went away while it was explained: ask again")
    if joined is not None:
        values = joined.of_query(request.query_id, request.params)
        features = np.hstack([features, values(list(window.doc_ids))])
    listed = ServedList(
        asked.query,
        name,
        doc_ids=window.doc_ids,
        titles=window.titles,
        features=features.astype(np.float32),
        scores=np.array(window.scores, dtype=np.float64),
        ranks_before=window.ranks_before,
        fields=window.fields,
    )
    return explain_list(ranker, listed, size=asked.size, document=asked.document, above=asked.above)
