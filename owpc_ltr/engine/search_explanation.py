"""Explained searches: a window as it was served, its features as they are logged, and why it is so.

The features of the hits come as in a feature log, as the proof of an upload asks for
them; nothing of a model is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from owpc_ltr.arrays import Fields
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.proof import logged
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.search import search_ranked, served_hits, titles_of
from owpc_ltr.engine.search.serving import (
    as_reordering,
    fields_of_hits,
    find_featureset,
    live_search,
    prepare,
)
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import Refused
from owpc_ltr.explanations.explanation import Explanation
from owpc_ltr.explanations.ranked_list import ServedList, explain_list
from owpc_ltr.formats.client_models import client_model, is_client_scored
from owpc_ltr.formats.engine_versions import LINEAR
from owpc_ltr.formats.ltr_plugin import import_linear
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.protocols import Model

_PATIENCE = 30.0


@dataclass(frozen=True)
class ExplainRequest:
    """What is to be explained: the best `size` hits, or one `document`.

    `query` is what to call the query, `title` the field to call documents by.
    """

    query: str
    size: int
    document: str | None = None
    title: str | None = None


def explain_ranked(
    engine: Engine,
    store: Store,
    request: SearchRequest,
    ranker: StoredModel | ReorderingModel,
    explained: ExplainRequest,
) -> Explanation:
    """Why the hits of a search with a stored model, or with a reranker, are where they are.

    Raises BadInput for a model that only the engine knows, Refused where the window changed in
    the meantime.
    """
    model: Model | ReorderingModel
    if isinstance(ranker, StoredModel):
        _refuse_replaced_set(store, ranker)
        model, name, featureset = _local(engine, store, ranker), ranker.name, ranker.featureset
        client = as_reordering(ranker) if is_client_scored(ranker) else None
    else:
        model = client = ranker
        name, featureset = f"the reranker {ranker.reranker}", find_featureset(store, ranker)
        prepare(ranker)
    ids: list[str]
    scores: list[float]
    ranks: list[int | None]
    fields: Fields = {}
    if client is not None:
        result = live_search(
            engine, store, request.showing_window(), client,
            featureset=featureset, deadline=_PATIENCE,
        )  # fmt: skip
        if not result.reordered and result.hits:
            raise Refused(f"the client could not reorder what it got: {result.reason}")
        hits = served_hits(result)
        ids, titles = [hit["_id"] for hit in hits], [*map(titles_of(hits, explained.title), hits)]
        scores = [hit.score for hit in result.hits]
        ranks = [hit.engine_rank for hit in result.hits]
        fields = fields_of_hits(client, ids, [hit.source for hit in result.hits])
    else:
        both = search_ranked(
            engine, store, request.showing_window(), ranker, title_field=explained.title
        )
        ids, titles = [hit.document_id for hit in both.after], [hit.title for hit in both.after]
        scores = [hit.score for hit in both.after]
        ranks = [hit.other_rank for hit in both.after]
    features = np.zeros((0, len(featureset.features)), np.float32)
    if ids:
        sample = {"params": request.params, "document_ids": ids}
        present, features = logged(engine, store, featureset, request.index, sample)
        if present != ids:
            gone = next(document for document in ids if document not in present)
            raise Refused(f"document '{gone}' went away while it was explained: ask again")
    served = ServedList(
        explained.query, name, doc_ids=ids, titles=titles, features=features.astype(np.float32),
        scores=np.array(scores, dtype=np.float64), ranks_before=ranks, fields=fields,
    )  # fmt: skip
    return explain_list(model, served, size=explained.size, document=explained.document)


def _refuse_replaced_set(store: Store, stored: StoredModel) -> None:
    """Refuse a model whose features the LTR plugin would log by another set than it scores by.

    It logs by the name of a set; without the plugin the model's own copy is logged.
    """
    copy = stored.featureset
    if store.kind == "ltr-plugin" and store.get_featureset(copy.name).hash != copy.hash:
        raise Refused(
            f"the feature set '{copy.name}' was replaced since '{stored.name}' was uploaded, and "
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
