"""Live reranking by the client: a window of hits with their features, reordered here.

    request = SearchRequest("movies", query, {"keywords": "insidious 2"})
    result = live_search(engine, store, request, ranker)

When the deadline passes or anything fails, the application gets the engine's own order, and the
reason.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.documents import IDS, value_at
from owpc_ltr.data.external_features.columns import ExternalColumns, ValuesOf, columns_for
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import check_hits
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.stores import NoWindowScores, Search, Store
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.model_conversion import index_features, joined_sources
from owpc_ltr.models.reordering import ReorderingModel

_LEAST = 0.001


@dataclass(frozen=True)
class LiveHit:
    """One result: its score, and the rank and score that the engine gave it."""

    document_id: str
    score: float
    engine_rank: int
    engine_score: float
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class LiveResult:
    """The best hits, reordered or, for the `reason` given, as the engine ordered them.

    `took` is in milliseconds by the engine's clock, `seconds` by the client's, all told.
    """

    hits: tuple[LiveHit, ...]
    reordered: bool
    reason: str
    took: int
    seconds: float


def live_search(
    engine: Engine,
    store: Store,
    request: SearchRequest,
    ranker: ReorderingModel,
    *,
    featureset: FeatureSet | None = None,
    joined: ExternalColumns | None = None,
    deadline: float = 1.0,
    source: bool | Sequence[str] = True,
) -> LiveResult:
    """The best hits of a request, its window reordered.

    Without `featureset` the store is searched for the one that the ranker was
    trained on, at each call. `deadline` is in seconds (see `prepare`); where the request with the
    features does not make it, a plain one follows, with as much time again. `source` are the
    fields to return. `joined` has the values of the ranker's features that no index has.

    Raises BadInput for a feature set that is not the ranker's and UsageError for a query that
    cannot be rescored, or whose joined values cannot be looked up; EngineUnavailable or Refused
    where the plain search fails too.
    """
    name, params, size = request.index, request.params, request.size
    shown = {"size": request.showing_window().size, "_source": source}
    body = {"query": request.filled, **request.filters, **shown}
    started = time.monotonic()
    if joined is None:
        joined = columns_for(joined_sources(ranker), (), "the reranker")
    values = None if joined is None else joined.of_query(request.query_id, params)
    if featureset is not None:
        check_featureset(ranker, featureset, joined)
    try:
        own = featureset or find_featureset(store, ranker)
        answer = _with_features(
            engine, store, own, request, _all_fields(body, ranker), deadline=deadline
        )
    except OwpcLtrError as fault:
        answer = _ask(engine, name, Search(body), deadline)
        return _result(answer, None, str(fault), size, started)
    left = deadline - (time.monotonic() - started)
    try:
        scores = _scores(ranker, store, own, values, answer["hits"]["hits"], seconds=left)
    except (OwpcLtrError, TimeoutError) as fault:
        late = f"the deadline of {deadline:g} s passed before the hits were scored"
        return _result(answer, None, late if isinstance(fault, TimeoutError) else str(fault), size,
                       started)  # fmt: skip
    return _result(answer, scores, "", size, started)


def prepare(ranker: ReorderingModel) -> None:
    """Compile what scoring needs, so that no search has to wait for it.

    Call it once when an application starts: on a machine's first run it takes seconds.
    """
    fields: dict[str, list[Any]] = {name: [None, None] for name in ranker.field_names}
    fields[IDS] = ["one", "two"]
    ranker.rerank(np.zeros((2, len(ranker.feature_names)), dtype=np.float32), None, fields)


def find_featureset(store: Store, ranker: ReorderingModel) -> FeatureSet:
    """The feature set in the store that the ranker was trained on. Raises BadInput if none is."""
    wanted, names = ranker.record.get("featureset_hash"), index_features(ranker)
    for name in store.list_featuresets():
        featureset = store.get_featureset(name)
        if featureset.feature_names == names and wanted in {None, featureset.hash}:
            return featureset
    raise BadInput(
        "the store holds no feature set with the reranker's features: push the one that its data "
        "was logged with"
    )


def check_featureset(
    ranker: ReorderingModel, featureset: FeatureSet, joined: ExternalColumns | None = None
) -> None:
    """Refuse a feature set that is another than the ranker was trained on."""
    wanted = ranker.record.get("featureset_hash")
    names = featureset.feature_names + (joined.feature_names if joined else ())
    if names != ranker.feature_names or wanted not in {None, featureset.hash}:
        raise BadInput(
            f"the reranker was not trained on the feature set '{featureset.name}' as it is: push "
            "the one that its data was logged with, or log again and train"
        )


def fields_of_hits(
    ranker: ReorderingModel, ids: Sequence[str], sources: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """The document fields that the ranker needs, out of the sources of hits."""
    fields: dict[str, list[Any]] = {
        name: [value_at(source, name) for source in sources] for name in ranker.field_names
    }
    fields[IDS] = list(ids)
    return fields


def _all_fields(body: dict[str, Any], ranker: ReorderingModel) -> dict[str, Any]:
    """The body of a search, asking for the fields that the ranker needs too."""
    needed = [name for name in ranker.field_names if name != IDS]
    source = body["_source"]
    if not needed or source is True:
        return body
    return {**body, "_source": sorted({*(source or ()), *needed})}


def _with_features(
    engine: Engine,
    store: Store,
    featureset: FeatureSet,
    request: SearchRequest,
    body: dict[str, Any],
    *,
    deadline: float,
) -> dict[str, Any]:
    """The answer of a search, whose hits bring their features.

    They come with it, or by a second search where the engine cannot do both in one.
    """
    try:
        added = store.window_log(featureset, request.params, body["size"])
    except NoWindowScores:
        return _in_two(engine, store, featureset, request, body, deadline=deadline)
    search = Search({**body, **added.body}, added.params)
    return _ask(engine, request.index, search, deadline)


def _in_two(
    engine: Engine,
    store: Store,
    featureset: FeatureSet,
    request: SearchRequest,
    body: dict[str, Any],
    *,
    deadline: float,
) -> dict[str, Any]:
    """The answer of a search, and its hits' features by another. Refused where a hit is gone."""
    started = time.monotonic()
    answer = _ask(engine, request.index, Search(body), deadline)
    hits = answer["hits"]["hits"]
    if not hits:
        return answer
    search = store.log_search(featureset, request.params, [hit["_id"] for hit in hits])
    left = max(deadline - (time.monotonic() - started), _LEAST)
    logged = _ask(engine, request.index, search, left)
    features = {_place(hit): hit for hit in logged["hits"]["hits"]}
    for hit in hits:
        if _place(hit) not in features:
            raise Refused(f"document '{hit['_id']}' went away while it was reranked: search again")
        hit["matched_queries"] = features[_place(hit)].get("matched_queries", {})
    return {**answer, "took": answer["took"] + logged["took"]}


def _place(hit: dict[str, Any]) -> tuple[Any, Any]:
    return hit.get("_index"), hit["_id"]


def _ask(engine: Engine, index: str, search: Search, deadline: float) -> dict[str, Any]:
    """A whole answer. Raises Refused for anything less."""
    answer = engine.request(
        "POST",
        f"/{index}/_search",
        params={"allow_partial_search_results": "false", **search.params},
        body=search.body,
        deadline=deadline,
    )
    try:
        whole = not answer["timed_out"] and not answer["_shards"]["failed"]
        scored = all(_is_scored(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"])
        scored = scored and type(answer["took"]) is int
    except (KeyError, TypeError) as error:
        raise Refused(
            f"the engine answered without its {error}: is this a search engine?"
        ) from error
    if not (whole and scored):
        what = "for a part of the index only" if not whole else "without the scores of its hits"
        raise Refused(f"the engine answered {what}: try again")
    check_hits(answer, "the search", search.body)
    return dict(answer)


def _scores(
    ranker: ReorderingModel,
    store: Store,
    featureset: FeatureSet,
    values: ValuesOf | None,
    hits: Sequence[dict[str, Any]],
    *,
    seconds: float,
) -> Vector:
    """The ranker's scores of the hits. Raises TimeoutError where they take longer than that."""
    if not hits:
        return np.zeros(0)

    def score() -> Vector:
        ids = [hit["_id"] for hit in hits]
        rows: Matrix = np.array(
            [store.features_of(featureset, hit) for hit in hits], dtype=np.float32
        )
        if values is not None:
            rows = np.hstack([rows, values(ids)])
        sources = [hit.get("_source") or {} for hit in hits]
        return ranker.rerank(rows, None, fields_of_hits(ranker, ids, sources))

    # In a thread that may be left behind: arithmetic cannot be interrupted.
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(score).result(timeout=max(seconds, 0.0))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _result(
    answer: dict[str, Any], scores: Vector | None, reason: str, size: int, started: float
) -> LiveResult:
    found = answer["hits"]["hits"]
    own = [float(hit["_score"]) for hit in found]
    final = own if scores is None else scores.tolist()
    # Equal scores stay in the engine's order.
    order = range(len(found)) if scores is None else np.argsort(-scores, kind="stable").tolist()
    hits = tuple(
        LiveHit(found[i]["_id"], final[i], i + 1, own[i], found[i].get("_source") or {})
        for i in order
    )
    seconds = time.monotonic() - started
    return LiveResult(hits[:size], scores is not None, reason, int(answer["took"]), seconds)


def _is_scored(identifier: Any, score: Any) -> bool:
    # JSON has integers of any length, and 1e400.
    return isinstance(identifier, str) and type(score) in (int, float) and abs(score) < 1e39
