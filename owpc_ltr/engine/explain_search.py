"""`explain`: why documents are where they are, in a live search or by a dataset.

A live search is explained as it was served. The features of its hits come as in a feature log, as
the proof of an upload asks for them; nothing of a model is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from owpc_ltr.data.options import Memory
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.options import (
    Keywords,
    Params,
    QueryTemplate,
    Reranker,
    SearchIndex,
    Size,
    TitleField,
    UploadedModel,
    Window,
)
from owpc_ltr.engine.search.client_scoring import (
    as_reordering,
    fields_of_hits,
    find_featureset,
    live_search,
    prepare,
)
from owpc_ltr.engine.search.request import SearchRequest, search_request
from owpc_ltr.engine.search.search import named_ranker, search_ranked, served_hits, titles_of
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.options import Documents, IdField
from owpc_ltr.explanations.explain import ExplainedDocument, explain
from owpc_ltr.explanations.explanation import Explanation, ServedList, explain_list
from owpc_ltr.formats.ltr_plugin import import_linear
from owpc_ltr.formats.stored_model import LINEAR, StoredModel, client_model, is_client_scored
from owpc_ltr.host.commands import ConnectsWith, Plugins
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.signatures import Argument, Help, Reads, job

if TYPE_CHECKING:
    from owpc_ltr.arrays import Fields
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.stores import Store
    from owpc_ltr.protocols import Model


_PATIENCE = 30.0
"""Seconds in which the client reorders what is explained."""


@job
def explain_ranking(
    ranker: Annotated[
        str,
        Reads(
            "MODEL.json or feature:NAME; with `keywords` an uploaded name, or a reranker's file.",
            unless="feature:",
            absent=None,
        ),
    ],
    document: ExplainedDocument = None,
    *,
    data: Annotated[
        Path | str | None,
        Reads("The query is one of this dataset: Parquet, LETOR text or a folder of parts."),
        Argument.DATA,
    ] = None,
    query_id: Annotated[str | None, Help("The id of the query in `data`.", metavar="ID")] = None,
    keywords: Annotated[
        str | None, Help("The query is this live search.", flag="--search", metavar="QUERY")
    ] = None,
    size: Size = None,
    documents: Documents = None,
    id_field: IdField = None,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    params: Params = None,
    window: Window = None,
    title_field: TitleField = None,
    memory: Memory = None,
    plugins: Plugins = (),
    cluster: Annotated[Cluster | None, ConnectsWith("keywords")] = None,
) -> Explanation:
    """Explain how a ranker orders a query's documents.

    The query is one of a dataset (`data`, `query_id`), or a live search (`keywords`). Shows the
    best documents, with what each feature adds to their scores; or one document in full. Documents
    without ids are called by their row within the query, from 1. Of a live search, warns if the
    contributions do not add up to the score that was served.
    """
    local: Any = {
        "data": data,
        "query_id": query_id,
        "documents": documents,
        "id_field": id_field,
        "memory": memory,
    }
    live: Any = {
        "index": index,
        "query_template": query_template,
        "params": params,
        "window": window,
        "title_field": title_field,
    }
    for name, value in (live if cluster is None else local).items():
        if value:
            where = "without" if cluster is None else "with"
            raise UsageError(f"`{name}` has no effect {where} `keywords`: leave it out")
    if cluster is not None:
        live["reranker" if Path(ranker).is_file() else "model"] = ranker
        return cluster.explain(str(keywords), document, size=size, plugins=plugins, **live)
    if data is None or query_id is None:
        raise UsageError("which query? give `data` and `query_id`, or `keywords` for a live search")
    return explain(ranker, document=document, size=size or 10, plugins=plugins, **local)


@job
def explain_search(
    cluster: Cluster,
    keywords: Keywords,
    document: ExplainedDocument = None,
    *,
    model: UploadedModel = None,
    reranker: Reranker = None,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    params: Params = None,
    size: Size = None,
    window: Window = None,
    title_field: TitleField = None,
    plugins: Plugins = (),
) -> Explanation:
    """Explain the results of a live search.

    Shows the best results, with what each feature adds to their scores; or one document in full.
    Warns if the contributions do not add up to the score that was served.

    Raises UsageError for a document that is not in the window, Refused for a model of a kind
    that is not known, BadInput for one of which only the engine knows what it is.
    """
    store, ranker, where = named_ranker(cluster, model, reranker, index, plugins)
    request = search_request(
        cluster,
        keywords,
        index=where,
        query_template=query_template,
        params=params,
        size=size,
        window=window,
    )
    explained = ExplainRequest(keywords, request.size, document, title=title_field)
    return explain_ranked(cluster.engine, store, request, ranker, explained)


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
            engine,
            store,
            request.showing_window(),
            client,
            featureset=featureset,
            deadline=_PATIENCE,
        )
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
        present, features = store.logged(featureset, request.index, sample)
        if present != ids:
            gone = next(document for document in ids if document not in present)
            raise Refused(f"document '{gone}' went away while it was explained: ask again")
    served = ServedList(
        explained.query,
        name,
        doc_ids=ids,
        titles=titles,
        features=features.astype(np.float32),
        scores=np.array(scores, dtype=np.float64),
        ranks_before=ranks,
        fields=fields,
    )
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
