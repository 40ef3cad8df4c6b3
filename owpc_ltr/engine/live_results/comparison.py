"""Rankers searched live with the same queries, and measured side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.external_features.columns import tables_of
from owpc_ltr.data.judgments.grouping import JudgedQuery
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.engine.live_queries import LiveQueries
from owpc_ltr.engine.live_results.rankers import LiveRanker, LiveRankers, documents_of
from owpc_ltr.engine.search.live_evaluation import (
    THE_MODEL,
    LiveEvaluation,
    graded_lists,
    live_queries,
    measure_live,
)
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import query_alone
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.data_comparison import ComparisonRequest
from owpc_ltr.evaluation.query_choice import choose_queries
from owpc_ltr.evaluation.ranked_lists import (
    RankedLists,
    mean_known,
    within_window,
)
from owpc_ltr.evaluation.results import PerQueryResults, Resampling, measure_lists
from owpc_ltr.evaluation.rules import recall_doubts

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster


def compare_rankers(
    request: ComparisonRequest,
    live: LiveQueries,
    cluster: Cluster,
    **where: Any,
) -> RankerComparison:
    """The comparison; models that are not uploaded are in the cluster only meanwhile."""
    for metric in request.plan.metrics:
        within_window(metric, live.window)
    judged = live.judged
    with ExitStack() as kept:
        serving = _serving(request, live, kept, cluster, **where)
        rankers = {name: serving.of(ranker) for name, ranker in request.rankers.items()}
        records = {
            name: ranker.record
            for name, ranker in rankers.items()
            if isinstance(ranker, LiveRanker) and ranker.record is not None
        }
        chosen = choose_queries(records, judged, live.split)
        left = [judged[number] for number in chosen.queries.tolist()]
        for name, fold_of in chosen.folds.items():
            ranker = rankers[name]
            if isinstance(ranker, LiveRanker):
                rankers[name] = ranker.measured(fold_of)
        lists = _lists(rankers, left, live, request.plan.drawing)
    notes = [f"lists are of the whole index, their first {live.window} documents"]
    of = live_queries(
        left, chosen, live.query_template if _need_template(rankers) else "", notes=notes,
        unweighted=live.unweighted,
    )  # fmt: skip
    of = replace(of, warnings=(*of.warnings, *_recall(lists, live.window)))
    values = {name: measure_lists(one, request.plan) for name, one in lists.items()}
    return compare_results(PerQueryResults(values, request.plan, of))


def compare_with_query(
    request: ComparisonRequest,
    live: LiveQueries,
    cluster: Cluster,
    **where: Any,
) -> LiveEvaluation:
    """The only ranker, which is a model, compared with the query alone."""
    ((name, model),) = request.rankers.items()
    plan = request.plan
    with ExitStack() as kept:
        ranker = _serving(request, live, kept, cluster, **where).model(model)
        query = cluster.template(ranker.index, live.query_template)[0]
        question = live.question(
            ranker.index, query, plan.metrics, ranker.featureset, plan.drawing.seed
        )
        chosen = choose_queries({THE_MODEL: ranker.record or {}}, question.queries, live.split)
        asked = replace(
            question,
            queries=[question.queries[number] for number in chosen.queries.tolist()],
            smallest_gain=plan.smallest_gain,
        )
        before = query_alone(cluster.engine, cluster.store)
        after = ranker.measured(chosen.folds.get(THE_MODEL, {})).serve
        found = measure_live(asked, before, after, plan.drawing.progress, chosen=chosen)
    return replace(found, model=name)


def _serving(
    request: ComparisonRequest,
    live: LiveQueries,
    kept: ExitStack,
    cluster: Cluster,
    *,
    index: str | None = None,
    featureset: str | None = None,
    extra_features: Any = None,
) -> LiveRankers:
    return LiveRankers(
        cluster=cluster,
        query_template=live.query_template,
        judged=live.judged,
        kept=kept,
        index=index,
        featureset=featureset,
        tables=tables_of(extra_features),
        plugins=request.plugins,
    )


def _need_template(rankers: Mapping[str, LiveRanker | TrecRun]) -> bool:
    """Whether any ranker rescores what the query template brings."""
    return any(isinstance(one, LiveRanker) and one.of_template for one in rankers.values())


def _lists(
    rankers: Mapping[str, LiveRanker | TrecRun],
    judged: Sequence[JudgedQuery],
    live: LiveQueries,
    drawing: Resampling,
) -> dict[str, RankedLists]:
    """Each ranker's lists of these queries."""
    shared = SearchRequest("unasked", {}, {}, live.window, live.window)
    ranked = documents_of(list(rankers.values()), judged, shared, live.in_flight, drawing.progress)
    return {
        name: graded_lists(judged, documents, live.window)
        for name, documents in zip(rankers, ranked, strict=True)
    }


def _recall(lists: Mapping[str, RankedLists], window: int) -> list[str]:
    """Whether most relevant documents are in nobody's window."""
    recall = max(mean_known(one.recall) for one in lists.values())
    n_queries = len(next(iter(lists.values())).there)
    return [doubt.line for doubt in recall_doubts(recall, window, n_queries)]
