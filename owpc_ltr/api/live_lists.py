"""LiveLists: what users get from a whole index, measured, checked and pooled for judging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.defaults import Progress, tables_of, the_index
from owpc_ltr.engine.options import DEFAULT_WINDOW

if TYPE_CHECKING:
    from owpc_ltr.api.live import LiveProof
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments.types import JudgedQuery, Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.search.judgment_pool import Pooled
    from owpc_ltr.engine.search.live_evaluation import LiveEvaluation
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model


def evaluate_live(
    cluster: Cluster,
    model: Model | ReorderingModel | Path | str,
    proof: LiveProof,
    metrics: Sequence[Any] | str = ("ndcg@10", "map", "mrr"),
    *,
    index: str | None = None,
    featureset: str | None = None,
    extra_features: Any = None,
    seed: int = 0,
) -> LiveEvaluation:
    """What users get from the whole index with a model, against the query alone.

    `model` is an uploaded name, or a model or its file, which is in the cluster only meanwhile.
    Unless `proof` says otherwise, the queries that it was trained with are left out, as far as
    its record knows them. `extra_features` has the tables, as for `log_features`, of features that
    are in no index. Raises UsageError for a metric that cannot be measured live.
    """
    from dataclasses import replace

    from owpc_ltr.api.trying import trying
    from owpc_ltr.data.judgments.weights import Weighed
    from owpc_ltr.engine.search.live_evaluation import evaluate_live
    from owpc_ltr.engine.search.serving import query_alone
    from owpc_ltr.evaluation.held_out import choose_queries
    from owpc_ltr.evaluation.judgment_checks import UNUSED
    from owpc_ltr.metrics import Metric, parse_metric

    asked = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
    parsed = [one if isinstance(one, Metric) else parse_metric(one) for one in asked]
    with trying(cluster, model, index, featureset, extra_features) as tried:
        where, query = tried.index, cluster.template(tried.index, proof.query)[0]
        question = proof.question(where, query, parsed, tried.featureset, seed)
        chosen = choose_queries({"the model": tried.record}, question.queries, proof.queries)
        kept = replace(question, queries=[question.queries[n] for n in chosen.queries.tolist()])
        before = query_alone(cluster.engine, cluster.store)
        found = evaluate_live(kept, before, tried.serve, proof.progress)
    doubts = [doubt.line for doubt in (*found.recall_doubts, *found.doubts)]
    doubts += [UNUSED] if Weighed.among(kept.queries).documents else []
    return replace(found, side=chosen.side, warnings=(*chosen.warnings, *doubts))


def check_judgments(
    cluster: Cluster,
    judgments: Judgments | RankingDataset | Path | str,
    *,
    index: str | None = None,
    query: Mapping[str, Any] | Path | str | None = None,
    window: int = DEFAULT_WINDOW,
    progress: Progress | None = None,
) -> list[str]:
    """What looks harmful in judgments when the engine is asked some of their queries."""
    from owpc_ltr.api.live import check_live, judged_queries

    where = the_index(cluster.engine, index)
    judged = judged_queries(judgments)
    template = cluster.template(where, query)[0]
    return check_live(cluster.engine, cluster.store, where, template, judged, window, progress)


def pool(
    cluster: Cluster,
    queries: Sequence[JudgedQuery] | Path | str,
    rankers: Sequence[Path | str | Mapping[str, Any] | Model],
    out: Path | str | None = None,
    *,
    index: str | None = None,
    featureset: str | None = None,
    sample: int | None = None,
    depth: int = 20,
    fields: Sequence[str] = (),
    judged: Judgments | Path | str | None = None,
    query: Mapping[str, Any] | Path | str | None = None,
    params: Mapping[str, Any] | None = None,
    window: int = DEFAULT_WINDOW,
    in_flight: int = 4,
    seed: int = 0,
    extra_features: Any = None,
    progress: Progress | None = None,
) -> Pooled:
    """The documents to judge next: what rankers bring to the top, in a drawn order.

    `rankers` are queries (objects, files in JSON, or "query": the `query` alone), models, their
    files or uploaded names, which rescore `query`, and TREC runs. A model that is not uploaded
    is in the cluster only meanwhile; `featureset` is its, found by its hash where it is left
    out. `sample` draws so many of the queries, of those that no model was trained with, as far
    as their records tell. With `out` they are written as a CSV whose `grade` column is to be
    filled, with `fields` of each document. What `judged` has already is left out, and counted.
    `extra_features` has the tables, as for `log_features`, of features that are in no index.
    `params` are those of queries that have none of their own.
    """
    from contextlib import ExitStack

    from owpc_ltr.api.live import judged_queries, with_params
    from owpc_ltr.api.pooling import PoolRankers, read_asked
    from owpc_ltr.data.judgments.pools import write_sheet
    from owpc_ltr.engine.search.judgment_pool import PoolPlan
    from owpc_ltr.engine.search.judgment_pool import pool as pool_documents
    from owpc_ltr.files.output import output_file

    if out is not None:
        files = (queries, judged, query, *rankers)
        output_file(out, [one for one in files if isinstance(one, Path | str)])
    asked = read_asked(queries) if isinstance(queries, Path | str) else list(queries)
    asked = with_params(asked, params)
    known = judged_queries(judged) if judged is not None else []
    done = {one.query_id: frozenset(one.document_ids) for one in known}
    where = the_index(cluster.engine, index)
    template = cluster.template(where, query)[0]
    with ExitStack() as kept:
        at_work = PoolRankers.of(
            cluster, rankers, template, featureset, tables_of(extra_features), kept
        )
        if sample is not None:
            asked = at_work.sampled(asked, sample, seed)
        plan = PoolPlan(where, at_work.ways, at_work.runs, depth, window, fields, seed, in_flight)
        found = pool_documents(cluster.engine, plan, asked, done, progress)
    if out is not None:
        write_sheet(found.queries, fields, found.shown, Path(out))
    return found
