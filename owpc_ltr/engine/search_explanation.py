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
    search = _Search(engine, store, request, asked, featureset=stored.featureset, joined=joined)
    if is_client_scored(stored):
        window = search.by_client(ReorderingModel(client_model(stored), "", None))
    else:
        window = search.by_engine(stored)
    return search.explained(model, stored.name, window)


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
    search = _Search(engine, store, request, asked, featureset=featureset, joined=joined)
    prepare(ranker)
    return search.explained(ranker, name, search.by_client(ranker))


@dataclass(frozen=True)
class _Window:
    """The hits of a window, best first, as they were served."""

    doc_ids: Sequence[str]
    titles: Sequence[str]
    scores: Sequence[float]
    ranks_before: Sequence[int | None]
    fields: Fields = field(default_factory=dict)


@dataclass(frozen=True)
class _Search:
    """A search that is explained, with the feature set of its ranker and the joined features."""

    engine: Engine
    store: Store
    request: SearchRequest
    asked: ExplainRequest
    featureset: FeatureSet
    joined: ExternalColumns | None

    def by_engine(self, stored: StoredModel) -> _Window:
        """The window as the engine ranks it with a stored model."""
        whole, title = self.request.showing_window(), self.asked.title
        found = search_stored(self.engine, self.store, whole, stored, title_field=title).after
        return _Window(
            [hit.document_id for hit in found],
            [hit.title for hit in found],
            [hit.score for hit in found],
            [hit.other_rank for hit in found],
        )

    def by_client(self, ranker: ReorderingModel) -> _Window:
        """The window as the client reorders it."""
        found = live_search(
            self.engine, self.store, self.request.showing_window(), ranker,
            featureset=self.featureset, joined=self.joined, deadline=_PATIENCE,
        )  # fmt: skip
        if not found.reordered and found.hits:
            raise Refused(f"the client could not reorder what it got: {found.reason}")
        ids, sources = [hit.document_id for hit in found.hits], [hit.source for hit in found.hits]
        hits = served_hits(found)
        return _Window(
            ids,
            list(map(titles_of(hits, self.asked.title), hits)),
            [hit.score for hit in found.hits],
            [hit.engine_rank for hit in found.hits],
            fields_of_hits(ranker, ids, sources),
        )

    def explained(self, ranker: Model | ReorderingModel, name: str, window: _Window) -> Explanation:
        """Why the documents of the window are where they are."""
        asked, request, ids = self.asked, self.request, list(window.doc_ids)
        features = np.zeros((0, len(self.featureset.features)), np.float32)
        if ids:
            sample = {"params": request.params, "document_ids": ids}
            found, features = logged(
                self.engine, self.store, self.featureset, request.index, sample
            )
            if found != ids:
                gone = next(one for one in ids if one not in found)
                raise Refused(f"document '{gone}' went away while it was explained: ask again")
        if self.joined is not None:
            values = self.joined.of_query(request.query_id, request.params)
            features = np.hstack([features, values(ids)])
        listed = ServedList(
            asked.query,
            name,
            doc_ids=ids,
            titles=window.titles,
            features=features.astype(np.float32),
            scores=np.array(window.scores, dtype=np.float64),
            ranks_before=window.ranks_before,
            fields=window.fields,
        )
        return explain_list(
            ranker, listed, size=asked.size, document=asked.document, above=asked.above
        )


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
