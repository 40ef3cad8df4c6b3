"""Rankers compared by the lists that users get: every one ranks the whole index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from owpc_ltr.api.live import judged_queries, with_params
from owpc_ltr.api.live_rankers import LiveRanker, LiveRankers, LiveSearch
from owpc_ltr.arrays import Vector
from owpc_ltr.data.judgments.topics import query_text
from owpc_ltr.data.judgments.types import JudgedQuery, share_by_clicks
from owpc_ltr.data.judgments.weights import Weighed, importance_of
from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.engine.cluster import connect
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import serve_all
from owpc_ltr.evaluation.comparison import RankerComparison
from owpc_ltr.evaluation.comparison_statistics import (
    ComparedQueries,
    ComparisonPlan,
    Drawing,
    side_by_side,
)
from owpc_ltr.evaluation.held_out import choose_queries
from owpc_ltr.evaluation.judged_data import Data, read_data
from owpc_ltr.evaluation.judgment_checks import UNUSED, list_doubts, mean_known, recall_doubts
from owpc_ltr.evaluation.live_lists import LiveLists, live_lists, measure_lists, within_window
from owpc_ltr.evaluation.offline_comparison import (
    ComparisonRequest,
    check_baseline,
    check_unjudged,
    named_rankers,
)
from owpc_ltr.evaluation.options import METRICS, RESAMPLES
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import Metric, parse_metric, uneven
from owpc_ltr.signatures import Progress, silent

__all__ = ["LiveSearch", "compare_live"]


def compare_live(
    rankers: Sequence[Any] | Mapping[str, Any],
    *,
    data: Data | Path | str,
    live: LiveSearch | None = None,
    metrics: Sequence[Any] | str = METRICS,
    baseline: str | None = None,
    split: str = "auto",
    unjudged: str = "zero",
    unweighted: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
    plugins: Sequence[Path | str] = (),
    progress: Progress = silent,
) -> RankerComparison:
    """Rankers compared by their live results: every one ranks the whole index.

    Also `live:NAME@INDEX`, an uploaded model, and `live:QUERY.json`, an application's query; `live`
    says where and how. Models that are not uploaded are in the cluster only meanwhile. For the
    other parameters see `compare`.
    """
    named = named_rankers(rankers)
    check_baseline(baseline, named)
    check_unjudged(unjudged)
    files = tuple(map(Path, plugins))
    registry = load(files)
    listed = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
    parsed = tuple(dict.fromkeys(parse_metric(one, registry) for one in listed))
    plan = ComparisonPlan(parsed, unjudged, baseline, Drawing(seed, resamples, progress))
    request = ComparisonRequest(named, plan, split, not unweighted, files)
    return _compare_live(request, data, live or LiveSearch())


def _compare_live(
    asked: ComparisonRequest, data: Data | Path | str, search: LiveSearch
) -> RankerComparison:
    """The comparison; models that are not uploaded are in the cluster only meanwhile."""
    given = data
    if isinstance(given, Path | str):
        given = read_data(given, topics=search.topics, asked=True)
    if isinstance(given, PartitionedDataset):
        given = in_memory(given, "a live comparison")
    for metric in asked.how.metrics:
        within_window(metric, search.window)
    judged = with_params(judged_queries(given), search.params)
    with ExitStack() as kept:
        serving = LiveRankers(search, search.cluster or connect(), judged, asked.plugins, kept)
        rankers = {name: serving.of(ranker) for name, ranker in asked.rankers.items()}
        records = {
            name: ranker.record
            for name, ranker in rankers.items()
            if isinstance(ranker, LiveRanker) and ranker.record is not None
        }
        chosen = choose_queries(records, judged, asked.split)
        left = [judged[number] for number in chosen.queries.tolist()]
        lists = _lists(rankers, left, search, asked)
    of = ComparedQueries(
        pa.array([query.query_id for query in left], pa.string()),
        pa.array([query_text(query.params) for query in left], pa.string()),
        _weights(left) if asked.weighted else None,
        chosen.side,
        (*chosen.notes, f"lists are of the whole index, their first {search.window} documents"),
        (*chosen.warnings, *_unused(left), *_recall(lists, search.window)),
    )
    values = {
        name: measure_lists(one, asked.how.metrics, asked.how.unjudged)
        for name, one in lists.items()
    }
    found = side_by_side(values, None, of, asked.how)
    by_clicks = share_by_clicks(left)
    for a, b in combinations(lists, 2):
        doubts = list_doubts({a: lists[a], b: lists[b]}, by_clicks=by_clicks)
        found = found.with_doubts(doubts, a, b)
    return found


def _lists(
    rankers: Mapping[str, LiveRanker | TrecRun],
    judged: Sequence[JudgedQuery],
    search: LiveSearch,
    asked: ComparisonRequest,
) -> dict[str, LiveLists]:
    """Each ranker's lists of these queries; a query is asked of all rankers in turn."""
    serving = {name: one for name, one in rankers.items() if isinstance(one, LiveRanker)}
    # Each way fills in its own index and query.
    shared = SearchRequest("unasked", {}, {}, search.window, search.window)
    requests = [replace(shared, params=dict(q.params), query_id=q.query_id) for q in judged]
    ways = [one.serve for one in serving.values()]
    answers: list[Any] = []
    if ways:
        answers = serve_all(ways, requests, search.in_flight, asked.how.drawing.progress)
    ranked: dict[str, list[Sequence[str]]] = {
        name: [one.document_ids for one in of_way]
        for name, of_way in zip(serving, answers, strict=True)
    }
    for name, run in rankers.items():
        if isinstance(run, TrecRun):
            listed = run.lists()
            ranked[name] = [listed.get(query.query_id, ()) for query in judged]
    grades = [
        dict(zip(query.document_ids, map(float, query.grades), strict=True)) for query in judged
    ]
    return {name: live_lists(ranked[name], grades, search.window) for name in rankers}


def _recall(lists: Mapping[str, LiveLists], window: int) -> list[str]:
    """Whether most relevant documents are in nobody's window."""
    recall = max(mean_known(one.recall) for one in lists.values())
    n_queries = len(next(iter(lists.values())).there)
    return [doubt.line for doubt in recall_doubts(recall, window, n_queries)]


def _unused(judged: Sequence[JudgedQuery]) -> list[str]:
    return [UNUSED] if Weighed.among(judged).documents else []


def _weights(judged: Sequence[JudgedQuery]) -> Vector | None:
    return uneven(np.array([importance_of(query) for query in judged], np.float64))
