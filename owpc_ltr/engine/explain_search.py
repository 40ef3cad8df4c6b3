"""`explain`: why documents are where they are, in a live search or by a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import Memory
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
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import Documents, IdField
from owpc_ltr.explanations.explain import ExplainedDocument, explain
from owpc_ltr.host.commands import ConnectsWith, Plugins
from owpc_ltr.signatures import Argument, Help, Reads, job, option_name

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.explanations.explanation import Explanation


@job
def explain_ranking(
    ranker: Annotated[
        str,
        Reads(
            "MODEL.json or feature:NAME; with --search an uploaded name, or a reranker's file.",
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
    query_id: Annotated[str | None, Help("The id of the query in --data.", metavar="ID")] = None,
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

    The query is one of a dataset (--data, --query-id), or a live search (--search). Shows the best
    documents, with what each feature adds to their scores; or one document in full. Documents
    without ids are called by their row within the query, from 1. Of a live search, warns if the
    contributions do not add up to the score that was served.
    """
    local: Any = {
        "data": data, "query_id": query_id, "documents": documents, "id_field": id_field,
        "memory": memory,
    }  # fmt: skip
    live: Any = {
        "index": index, "query_template": query_template, "params": params, "window": window,
        "title_field": title_field,
    }  # fmt: skip
    for name, value in (live if cluster is None else local).items():
        if value:
            where = "without" if cluster is None else "with"
            raise UsageError(
                f"{option_name(name)} has no effect {where} {option_name('keywords')}: leave it out"
            )
    if cluster is not None:
        live["reranker" if Path(ranker).is_file() else "model"] = ranker
        return cluster.explain(str(keywords), document, size=size, plugins=plugins, **live)
    if data is None or query_id is None:
        raise UsageError(
            "which query? give --data FILE and --query-id ID, or --search QUERY for a live search"
        )
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
    from owpc_ltr.engine.search.request import search_request
    from owpc_ltr.engine.search.search import named_ranker
    from owpc_ltr.engine.search_explanation import ExplainRequest, explain_ranked

    store, ranker, where = named_ranker(cluster, model, reranker, index, plugins)
    request = search_request(
        cluster, keywords, index=where, query_template=query_template, params=params, size=size,
        window=window,
    )  # fmt: skip
    explained = ExplainRequest(keywords, request.size, document, title=title_field)
    return explain_ranked(cluster.engine, store, request, ranker, explained)
