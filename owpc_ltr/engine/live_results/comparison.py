"""Rankers searched live with the same queries, and measured side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import share_by_clicks
from owpc_ltr.data.external_features.columns import tables_of
from owpc_ltr.data.judgments.grouping import JudgedQuery, Weighed, importance_of
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.data.splits import query_text
from owpc_ltr.engine.live_queries import LiveQueries
from owpc_ltr.engine.live_results.rankers import LiveRanker, LiveRankers
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import serve_all
from owpc_ltr.evaluation.comparison import (
    ComparedQueries,
    ComparisonRequest,
    Drawing,
    side_by_side,
    with_query_doubts,
)
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.judged_data import UNUSED
from owpc_ltr.evaluation.live_lists import (
    LiveLists,
    list_doubts,
    live_lists,
    mean_known,
    measure_lists,
    recall_doubts,
    within_window,
)
from owpc_ltr.evaluation.query_choice import choose_queries
from owpc_ltr.metrics import uneven

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster


def compare_rankers(
    request: ComparisonRequest,
    live: LiveQueries,
    cluster: Cluster,
    *,
    index: str | None = None,
    featureset: str | None = None,
    extra_features: Any = None,
) -> RankerComparison:
    """The comparison; models that are not uploaded are in the cluster only meanwhile."""
    for metric in request.how.metrics:
        within_window(metric, live.window)
    judged = live.judged()
    with ExitStack() as kept:
        serving = LiveRankers(
            cluster=cluster,
            query_template=live.query_template,
            judged=judged,
            kept=kept,
            index=index,
            featureset=featureset,
            tables=tables_of(extra_features),
            plugins=request.plugins,
        )
        rankers = {name: serving.of(ranker) for name, ranker in request.rankers.items()}
        records = {
            name: ranker.record
            for name, ranker in rankers.items()
            if isinstance(ranker, LiveRanker) and ranker.record is not None
        }
        chosen = choose_queries(records, judged, live.split)
        left = [judged[number] for number in chosen.queries.tolist()]
        lists = _lists(rankers, left, live, request.how.drawing)
    of = ComparedQueries(
        pa.array([query.query_id for query in left], pa.string()),
        pa.array([query_text(query.params) for query in left], pa.string()),
        None if live.unweighted else _weights(left),
        chosen.side,
        notes=(*chosen.notes, f"lists are of the whole index, their first {live.window} documents"),
        warnings=(*chosen.warnings, *_unused(left), *_recall(lists, live.window)),
    )
    values = {
        name: measure_lists(one, request.how.metrics, request.how.unjudged)
        for name, one in lists.items()
    }
    found = side_by_side(values, None, of, request.how)
    by_clicks = share_by_clicks(left)
    for a, b in combinations(lists, 2):
        doubts = list_doubts({a: lists[a], b: lists[b]}, by_clicks=by_clicks)
        found = found.with_doubts(doubts, a, b)
    return with_query_doubts(found, chosen, left)


def _lists(
    rankers: Mapping[str, LiveRanker | TrecRun],
    judged: Sequence[JudgedQuery],
    live: LiveQueries,
    drawing: Drawing,
) -> dict[str, LiveLists]:
    """Each ranker's lists of these queries; a query is asked of all rankers in turn."""
    serving = {name: one for name, one in rankers.items() if isinstance(one, LiveRanker)}
    # Each way fills in its own index and query.
    shared = SearchRequest("unasked", {}, {}, live.window, live.window)
    requests = [replace(shared, params=dict(q.params), query_id=q.query_id) for q in judged]
    ways = [one.serve for one in serving.values()]
    answers: list[Any] = []
    if ways:
        answers = serve_all(ways, requests, live.in_flight, drawing.progress)
    ranked: dict[str, list[Sequence[str]]] = {
        name: [one.doc_ids for one in of_way] for name, of_way in zip(serving, answers, strict=True)
    }
    for name, run in rankers.items():
        if isinstance(run, TrecRun):
            listed = run.lists()
            ranked[name] = [listed.get(query.query_id, ()) for query in judged]
    grades = [dict(zip(query.doc_ids, map(float, query.grades), strict=True)) for query in judged]
    return {name: live_lists(ranked[name], grades, live.window) for name in rankers}


def _recall(lists: Mapping[str, LiveLists], window: int) -> list[str]:
    """Whether most relevant documents are in nobody's window."""
    recall = max(mean_known(one.recall) for one in lists.values())
    n_queries = len(next(iter(lists.values())).there)
    return [doubt.line for doubt in recall_doubts(recall, window, n_queries)]


def _unused(judged: Sequence[JudgedQuery]) -> list[str]:
    return [UNUSED] if Weighed.among(judged).documents else []


def _weights(judged: Sequence[JudgedQuery]) -> Vector | None:
    return uneven(np.array([importance_of(query) for query in judged], np.float64))
