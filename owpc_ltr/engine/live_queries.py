"""Judged queries to search live: which they are, and the request that an application sends.

Live results are of the whole index, where a dataset has the judged documents alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.engine.options import DEFAULT_WINDOW, IN_FLIGHT
from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import Argument, Help, Progress, Reads, public

if TYPE_CHECKING:
    from owpc_ltr.arrays import Matrix
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import JudgedQuery, Judgments
    from owpc_ltr.data.partitioned import PartitionedDataset
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.stores import Store
    from owpc_ltr.evaluation.ranked_lists import RankedLists
    from owpc_ltr.evaluation.significance import ResultWarning
    from owpc_ltr.features.feature_set import FeatureSet

    Judged = Judgments | RankingDataset | PartitionedDataset | Path | str

_SAMPLED = 50
"""Queries of a check of judgments."""
_LOGGED = 100
"""Queries whose judged documents are looked at for signs of bad judgments."""
_MOST_DOCUMENTS = 500
"""Judged documents of such a query."""

JudgedQueries = Annotated[
    "Judged",
    Reads("Judged queries: TSV, CSV, qrels …, or a dataset.", cli=Path, project="judgments"),
]
JudgedBy = Annotated[
    str | None,
    Help(
        "Who gave the judgments that name no judge: people, a rater's name, clicks, or model:NAME.",
        metavar="NAME",
        project="judged_by",
    ),
]
InFlight = Annotated[int, Help("How many searches at the same time.", min=1, panel="Engine")]
ModelFeatureSet = Annotated[
    str | None,
    Help("The feature set that model files were trained on; default: found by its hash."),
    Argument.NAME,
]


def judged_queries(
    judgments: Judged, topics: Mapping[str, str] | Path | str | None = None
) -> list[JudgedQuery]:
    """Judged queries, of a file, of what was read, or of a dataset that was logged from an engine.

    Raises UsageError for a dataset without document ids, or without what its queries were.
    """
    import numpy as np

    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import (
        JUDGED_BY,
        JudgedQuery,
        counts_by_judge,
        machines_among,
    )
    from owpc_ltr.data.partitioned import PartitionedDataset, in_memory
    from owpc_ltr.evaluation.judged_data import read_data

    if isinstance(judgments, Path | str):
        judgments = read_data(judgments, topics=topics, asked=True)
    if isinstance(judgments, PartitionedDataset):
        judgments = in_memory(judgments, "a live evaluation")
    if not isinstance(judgments, RankingDataset):
        return list(judgments.queries)
    data = judgments
    if data.doc_ids is None or data.query_params is None:
        raise UsageError(
            "the data does not know its documents and what users typed, so that no engine can be "
            "asked: give data that log-features wrote"
        )
    documents, weights = data.doc_ids.to_pylist(), data.document_weights
    importance = [None] * data.n_queries
    if data.query_weights is not None:
        importance = data.query_weights.tolist()
    # A manifest tells how many judgments each judge gave, and not which. Where machines gave most,
    # all are one's; else the shares are right, in any part of the queries too. A dataset that was
    # logged from a list knows the judge of each document.
    counts, machines = counts_by_judge(data.manifest), machines_among(data)
    if sum(machines.values()) > 0.5:
        counts = {max(machines, key=machines.__getitem__): 1}
    names = np.random.default_rng(0).permutation(np.repeat(list(counts), list(counts.values())))
    judges = np.resize(names, len(data.labels)).tolist() if counts else None
    if (known := (data.document_fields or {}).get(JUDGED_BY)) is not None:
        judges = known.to_pylist()
    return [
        JudgedQuery(
            query_id,
            json.loads(params),
            documents[a:b],
            data.labels[a:b],
            weights=None if weights is None else weights[a:b],
            importance=worth,
            judged_by=None if judges is None else judges[a:b],
        )
        for query_id, params, worth, (a, b) in zip(
            data.query_ids.to_pylist(),
            data.query_params.to_pylist(),
            importance,
            pairwise(data.offsets.tolist()),
            strict=True,
        )
    ]


def with_judge(queries: Sequence[JudgedQuery], name: str | None) -> list[JudgedQuery]:
    """The queries, whose judgments without a judge are by this one."""
    from owpc_ltr.data.judgments import UNNAMED, judges_by_document

    if not name:
        return list(queries)
    # Votes of several unnamed lists stay those of several raters.
    return [
        replace(
            query,
            judged_by=[
                judge.replace(UNNAMED, f"{name}:") or name for judge in judges_by_document(query)
            ],
        )
        for query in queries
    ]


def with_params(
    queries: Sequence[JudgedQuery], params: Mapping[str, Any] | None
) -> list[JudgedQuery]:
    """The queries, those without a parameter of their own having the one that is given."""
    from owpc_ltr.features.feature_set import plain_params

    shared = plain_params(params)
    if not shared:
        return list(queries)
    return [replace(query, params={**shared, **query.params}) for query in queries]


@public
def check_judgments(
    cluster: Cluster,
    judgments: Judged,
    *,
    index: str | None = None,
    query_template: Mapping[str, Any] | Path | str | None = None,
    window: int = DEFAULT_WINDOW,
    progress: Progress | None = None,
) -> list[str]:
    """What looks harmful in judgments when the engine is asked some of their queries."""
    import numpy as np

    from owpc_ltr.engine.evidence import QUERY_ALONE
    from owpc_ltr.engine.search.client_scoring import query_alone, serve_all
    from owpc_ltr.engine.search.request import SearchRequest
    from owpc_ltr.evaluation.ranked_lists import mean_known
    from owpc_ltr.evaluation.rules import ranked_list_warnings, recall_warnings

    where, queries = cluster.the_index(index), judged_queries(judgments)
    sample = np.sort(np.random.default_rng(0).permutation(len(queries))[:_SAMPLED])
    queries = [queries[number] for number in sample.tolist()]
    query = cluster.template(where, query_template)[0]
    shared = SearchRequest(where, query, {}, window, window)
    alone = query_alone(cluster.engine, cluster.store)
    (answers,) = serve_all((alone,), queries, shared, IN_FLIGHT, progress)
    lists = graded_lists(queries, [answer.doc_ids for answer in answers], window)
    warnings = [
        *recall_warnings(mean_known(lists.recall), window, len(queries)),
        *ranked_list_warnings({QUERY_ALONE: lists}, lists),
    ]
    return [warning.line for warning in warnings]


def feature_warnings(
    store: Store,
    featureset: FeatureSet,
    index: str,
    queries: Sequence[JudgedQuery],
    *,
    in_flight: int,
    seed: int,
) -> list[ResultWarning]:
    """Warnings about the judgments from features of judged documents of a sample of queries."""
    import numpy as np

    from owpc_ltr.data.construction import make_dataset
    from owpc_ltr.engine.client.concurrency import RequestThreads
    from owpc_ltr.evaluation.judged_data import judgment_warnings
    from owpc_ltr.features.query_analysis import text_scores

    typed = typed_queries(queries, featureset)
    drawn = np.random.default_rng(seed).permutation(len(typed))[:_LOGGED]

    def features_of(number: int) -> tuple[list[str], list[float], Matrix]:
        query = typed[number]
        grades = dict(zip(query.doc_ids, map(float, query.grades), strict=True))
        some = np.random.default_rng(number).permutation(query.doc_ids)[:_MOST_DOCUMENTS]
        sample = {"params": query.params, "document_ids": some.tolist()}
        ids, features = store.logged(featureset, index, sample)
        return [query.query_id] * len(ids), [grades[name] for name in ids], features

    with RequestThreads(max(1, min(in_flight, len(drawn)))) as workers:
        logs = [log for log in workers.map(features_of, np.sort(drawn).tolist()) if log[0]]
    if not logs:
        return []
    ids, labels, features = zip(*logs, strict=True)
    data = make_dataset(
        np.concatenate(features),
        np.concatenate(labels),
        np.concatenate(ids).tolist(),
        feature_names=featureset.feature_names,
    )
    return judgment_warnings(data, text_scores(featureset))


def graded_lists(
    queries: Sequence[JudgedQuery], ranked: Sequence[Sequence[str]], depth: int
) -> RankedLists:
    """The lists of documents, query by query, with the grades of those that are judged."""
    from owpc_ltr.data.judgments import judges_by_document
    from owpc_ltr.evaluation.ranked_lists import ranked_lists

    grades = [dict(zip(q.doc_ids, map(float, q.grades), strict=True)) for q in queries]
    judges = [dict(zip(q.doc_ids, judges_by_document(q), strict=True)) for q in queries]
    return ranked_lists(ranked, grades, depth, judges)


def typed_queries(judged: Sequence[JudgedQuery], featureset: FeatureSet) -> list[JudgedQuery]:
    """The queries with their parameters in the types that the feature set's templates need."""
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.feature_log.job import typed_params

    params = typed_params(Judgments(list(judged)), featureset)
    return [replace(q, params=typed) for q, typed in zip(judged, params, strict=True)]
