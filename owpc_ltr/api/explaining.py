"""`explain`: why documents are where they are, in a dataset or in a cluster's live lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.defaults import tables_of, the_index, the_name

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.explanations.explanation import Explanation
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model


def explain(
    model: Model | ReorderingModel | Path | str,
    data: RankingDataset | PartitionedDataset,
    document: str | None = None,
    *,
    query_id: str,
    size: int | None = None,
    above: str | None = None,
    documents: Path | str | None = None,
    id_field: str | None = None,
    plugins: Sequence[Path | str] = (),
) -> Explanation:
    """Why a ranker puts the documents of a query where it does: what each feature contributes.

    `model` is a model, a reordering, their file, or `feature:NAME`. Of all documents of the query
    the best `size` are listed; or one `document` fully, with what would bring it above the next, or
    above the document `above`. Documents without ids are called by their row within the query,
    from 1. `documents` is the file that was indexed, for rerankers that read fields of documents.

    Raises UsageError for a query or a document that is not there, BadInput for data with other
    features, Refused for a kind of model that is not known.
    """
    import numpy as np

    from owpc_ltr.api.evaluation import ranker_of
    from owpc_ltr.data.document_fields import fields_of, with_document_fields
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.errors import UsageError
    from owpc_ltr.evaluation.evaluate import model_data
    from owpc_ltr.explanations.ranked_list import ServedList, explain_list
    from owpc_ltr.models.reordering import ReorderingModel, dataset_scores

    ranker = ranker_of(model, data, [Path(plugin) for plugin in plugins])
    if isinstance(ranker, TrecRun):
        raise UsageError("a run has no features to explain it by: give the model that made it")
    query_id = str(query_id)
    judged = _query_of(model_data(ranker, data, "all").data, query_id)
    named = None if documents is None else Path(documents)
    needed = ranker.field_names if isinstance(ranker, ReorderingModel) else ()
    judged = with_document_fields(judged, needed, named, id_field)
    scores = dataset_scores(ranker, judged)
    order = np.argsort(-scores, kind="stable")
    ids = _ids(judged)
    listed = ServedList(
        query=query_id,
        model=str(model) if isinstance(model, Path | str) else f"the {ranker.kind} model",
        document_ids=[ids[row] for row in order],
        titles=[ids[row] for row in order],
        features=judged.features[order],
        scores=scores[order],
        ranks_before=[None] * len(order),
        fields={name: [each[row] for row in order] for name, each in fields_of(judged).items()},
    )
    return explain_list(ranker, listed, size=size, document=document, above=above)


def explain_search(
    cluster: Cluster,
    keywords: str,
    document: str | None = None,
    *,
    model: str | None = None,
    reranker: ReorderingModel | None = None,
    index: str | None = None,
    above: str | None = None,
    title: str | None = None,
    join: Any = None,
    **asked: Any,
) -> Explanation:
    """Why the hits of a search are where they are: what each feature contributes to each score.

    All as for `search`. The best `size` of the window are listed; or one `document` fully, with
    what would bring it above the next, or above the document `above`. The features are logged
    as for training; where their contributions do not add up to what was served, it warns.

    Raises UsageError for a document that is not in the window, Refused for a model of a kind
    that is not known, BadInput for one of which only the engine knows what it is.
    """
    from owpc_ltr.engine.explained import Asked, explain_reordered, explain_search
    from owpc_ltr.errors import UsageError
    from owpc_ltr.names import check_index

    if model is not None and reranker is not None:
        raise UsageError("give one of model and reranker: a search is ranked by one")
    if index is not None:
        check_index(index)
    name, store = "", cluster.store
    if reranker is None:
        called = the_name(cluster.engine, cluster.stores, model)
        store, name = cluster.holding(called).store, cluster.models.resolve(called)
        where = cluster.index_of(name, index)
    else:
        where = the_index(cluster.engine, index)
    request = cluster.request(keywords, index=where, **asked)
    wanted = Asked(keywords, request.size, document, above, title, tables_of(join))
    if reranker is not None:
        called = f"the reranker {reranker.reranker}"
        return explain_reordered(cluster.engine, cluster.store, request, reranker, called, wanted)
    return explain_search(cluster.engine, store, request, store.get_model(name), wanted)


def _query_of(data: RankingDataset | PartitionedDataset, query_id: str) -> RankingDataset:
    """The one query of this id. Raises UsageError where there is none."""
    import numpy as np

    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.errors import UsageError

    ids = data.query_ids.to_pylist()
    if query_id not in ids:
        known = ", ".join(ids[:5])
        raise UsageError(f"no query of the data has the id '{query_id}': there are {known} …")
    chosen = data.select(np.array([ids.index(query_id)]))
    return chosen.load() if isinstance(chosen, PartitionedDataset) else chosen


def _ids(data: RankingDataset) -> list[str]:
    if data.document_ids is None:
        return [str(row) for row in range(1, data.n_documents + 1)]
    return [str(one) for one in data.document_ids.to_pylist()]
