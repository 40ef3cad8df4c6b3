"""Serving: live results of the query alone, of a stored model, or as reordered by the client.

A way to serve takes a request and returns the document ids of its whole window, best first.

The client reorders a window of hits with their features:

    request = SearchRequest("movies", query, {"keywords": "insidious 2"})
    result = live_search(engine, store, request, ranker)

When the deadline passes or anything fails, the application gets the engine's own order, and the
reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.documents import IDS, value_at
from owpc_ltr.data.feature_sources import ExternalSource, external_names, in_words
from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.engine.client.responses import EngineRefusal, NoSuchIndex, NotAllowed
from owpc_ltr.engine.options import IN_FLIGHT
from owpc_ltr.engine.search.request import SearchRequest, request_body
from owpc_ltr.engine.stores import NoWindowScores, Search, Store
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.stored_model import (
    StoredModel,
    client_model,
    index_features,
    is_client_scored,
    joined_in,
    joined_sources,
)
from owpc_ltr.models.analysis import ScoreInterval
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.signatures import Progress
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import JudgedQuery

T = TypeVar("T")
_PATIENCE = 30.0
_LEAST = 0.001


@dataclass(frozen=True, repr=False)
class Served(ShortRepr):
    """The documents of a window, best first, and the engine's milliseconds for them."""

    doc_ids: tuple[str, ...]
    took: int


Serve = Callable[[SearchRequest], Served]


def query_alone(engine: Engine, store: Store) -> Serve:
    """The engine's own order of the query."""
    return with_stored(engine, store, None)


def with_stored(
    engine: Engine,
    store: Store,
    model: StoredModel | None,
    interval: ScoreInterval | None = None,
) -> Serve:
    """The order with a model in the store, as `request` asks for it; or by the client.

    Raises UsageError for a model of external features.
    """
    if model is not None and is_client_scored(model):
        return with_reordering(engine, store, as_reordering(model), model.featureset)

    def serve(request: SearchRequest) -> Served:
        body = request_body(store, model, request.showing_window(), interval)
        answer = search_index(engine, request.index, {**body, "_source": False}, scored=True)
        return Served(tuple(hit["_id"] for hit in answer.hits), answer.took)

    return serve


def with_reordering(
    engine: Engine,
    store: Store,
    ranker: ReorderingModel,
    featureset: FeatureSet | None = None,
) -> Serve:
    """The window as the client reorders it. A search that it could not reorder is Refused.

    Raises UsageError for a ranker of external features.
    """
    featureset = featureset or find_featureset(store, ranker)
    refuse_external(joined_sources(ranker), "the reranker")
    prepare(ranker)

    def serve(request: SearchRequest) -> Served:
        result = live_search(
            engine,
            store,
            request.showing_window(),
            ranker,
            featureset=featureset,
            deadline=_PATIENCE,
            source=False,
        )
        if not result.reordered:
            raise Refused(f"the client could not reorder what it got: {result.reason}")
        return Served(tuple(hit.document_id for hit in result.hits), result.took)

    return serve


def serve_all(
    ways: Sequence[Serve],
    queries: Sequence[JudgedQuery],
    shared: SearchRequest,
    in_flight: int = IN_FLIGHT,
    progress: Progress | None = None,
) -> list[tuple[Served, ...]]:
    """Of every way, the answers to all queries, whose requests share the rest.

    Each query is searched in all ways one after the other, in rotating order, so that none always
    profits from the caches that another one has just filled.
    """
    if in_flight < 1:
        raise UsageError(f"`in_flight` is 1 or more, not {in_flight}")

    def ask(number: int) -> list[Served]:
        turn, query = number % len(ways), queries[number]
        request = replace(shared, params=dict(query.params), query_id=query.query_id)
        order = [*range(turn, len(ways)), *range(turn)]
        try:
            answers = {way: ways[way](request) for way in order}
        except NoSuchIndex:
            raise
        except EngineRefusal as refusal:
            raise Refused(f"query '{query.query_id}': {refusal}") from refusal
        return [answers[way] for way in range(len(ways))]

    def show(count: int) -> None:
        if progress is not None:
            progress(f"{count} of {len(queries)} queries", count / len(queries))

    with RequestThreads(min(in_flight, max(1, len(queries)))) as workers:
        rows = workers.map(ask, range(len(queries)), show)
    return [tuple(row[way] for row in rows) for way in range(len(ways))]


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
    deadline: float = 1.0,
    source: bool | Sequence[str] = True,
) -> LiveResult:
    """The best hits of a request, its window reordered.

    Without `featureset` the store is searched for the one that the ranker was
    trained on, at each call. `deadline` is in seconds (see `prepare`); where the request with the
    features does not make it, a plain one follows, with as much time again. `source` are the
    fields to return.

    Raises BadInput for a feature set that is not the ranker's and UsageError for a ranker of
    external features; NotAllowed where the account lacks a right; EngineUnavailable or Refused
    where the plain search fails too.
    """
    params, window_size = request.params, request.showing_window().size
    search = Search(
        {"query": request.filled, **request.filters, "size": window_size, "_source": source}
    )
    started = time.monotonic()
    refuse_external(joined_sources(ranker), "the reranker")
    if featureset is not None:
        check_featureset(ranker, featureset)
    scores, reason = None, ""
    try:
        logged_by = featureset or find_featureset(store, ranker)
        window = HitWindow(request.index, logged_by, params, window_size, document_fields(ranker))
        answer, logged = search_with_features(engine, store, window, search, deadline=deadline)
    except NotAllowed:
        raise  # no later search would be reranked either
    except OwpcLtrError as fault:
        reason = str(fault)
        answer = whole_answer(engine, request.index, search, deadline)
    else:
        left = deadline - (time.monotonic() - started)
        try:
            rows = features_of_hits(store, logged_by, logged)
            scores = within(left, lambda: score_hits(ranker, rows, logged))
        except TimeoutError:
            reason = f"the deadline of {deadline:g} s passed before the hits were scored"
        except OwpcLtrError as fault:
            reason = str(fault)
    hits, seconds = _hits(answer["hits"]["hits"], scores), time.monotonic() - started
    return LiveResult(
        hits[: request.size], scores is not None, reason, int(answer["took"]), seconds
    )


def prepare(ranker: ReorderingModel) -> None:
    """Compile what scoring needs, so that no search has to wait for it.

    Call it once when an application starts: on a machine's first run it takes seconds.
    """
    fields: dict[str, list[Any]] = {name: [None, None] for name in ranker.field_names}
    fields[IDS] = ["one", "two"]
    ranker.rerank(np.zeros((2, len(ranker.feature_names)), dtype=np.float32), None, fields)


def find_featureset(store: Store, ranker: ReorderingModel) -> FeatureSet:
    """The feature set in the store that the ranker was trained on. Raises BadInput if none is."""
    trained_hash, names = ranker.record.get("featureset_hash"), index_features(ranker)
    for name in store.list_featuresets():
        featureset = store.get_featureset(name)
        if featureset.feature_names == names and trained_hash in {None, featureset.hash}:
            return featureset
    raise BadInput(
        "the store holds no feature set with the reranker's features: push the one that its data "
        "was logged with"
    )


def check_featureset(ranker: ReorderingModel, featureset: FeatureSet) -> None:
    """Refuse a feature set that is another than the ranker was trained on."""
    trained_hash, names = ranker.record.get("featureset_hash"), index_features(ranker)
    if names != featureset.feature_names or trained_hash not in {None, featureset.hash}:
        raise BadInput(
            f"the reranker was not trained on the feature set '{featureset.name}' as it is: push "
            "the one that its data was logged with, or log again and train"
        )


def as_reordering(stored: StoredModel) -> ReorderingModel:
    """A stored model that the client scores, as what reorders a window.

    Raises UsageError for a model of external features.
    """
    refuse_external(joined_in(stored), f"the model '{stored.name}'")
    return ReorderingModel(client_model(stored), "", None)


def refuse_external(sources: Sequence[ExternalSource], whose: str) -> None:
    """Refuse a ranker of external features, which only the service looks up. Raises UsageError."""
    if sources:
        raise UsageError(
            f"{whose} reads {in_words(external_names(sources), sources)}, which is not in the "
            "index: search through `serve(extra_features=…)`, and compare by "
            "evaluate, or by an experiment"
        )


def document_fields(ranker: ReorderingModel) -> tuple[str, ...]:
    """The fields of documents that the ranker reads, beside their ids."""
    return tuple(name for name in ranker.field_names if name != IDS)


def fields_of_hits(
    ranker: ReorderingModel, ids: Sequence[str], sources: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """The document fields that the ranker needs, out of the sources of hits."""
    fields: dict[str, list[Any]] = {
        name: [value_at(source, name) for source in sources] for name in ranker.field_names
    }
    fields[IDS] = list(ids)
    return fields


@dataclass(frozen=True, repr=False)
class HitWindow(ShortRepr):
    """The best `size` hits of a search, and what a ranker reads of them.

    That is the features of `featureset`, filled with `params`, and `fields` of the documents.
    """

    index: str
    featureset: FeatureSet
    params: Mapping[str, Any]
    size: int
    fields: tuple[str, ...] = ()


def search_with_features(
    engine: Engine,
    store: Store,
    window: HitWindow,
    search: Search,
    *,
    deadline: float,
    apart: bool = False,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The answer of a search, and the hits of its window with their features and fields.

    Both come in one request, or in two where the engine cannot do so, or where they are to stay
    `apart`: then the search is sent and answered as it is. Raises Refused for less than a whole
    answer, and where a hit is gone before its features are asked for.
    """
    params = dict(window.params)
    if not apart:
        try:
            log = store.window_log(window.featureset, params, window.size)
        except NoWindowScores:
            apart = True
        else:
            body = {**search.body, **log.body}
            source = search.body.get("_source", True)
            if window.fields and source is not True:
                body["_source"] = sorted({*(source or ()), *window.fields})
            both = Search(body, {**search.params, **log.params})
            answer = whole_answer(engine, window.index, both, deadline)
            return answer, answer["hits"]["hits"][: window.size]
    started = time.monotonic()
    answer = whole_answer(engine, window.index, search, deadline)
    hits = answer["hits"]["hits"][: window.size]
    if not hits:
        return answer, []
    log = store.log_search(window.featureset, params, [hit["_id"] for hit in hits])
    body = {**log.body, "_source": list(window.fields)} if window.fields else log.body
    left = max(deadline - (time.monotonic() - started), _LEAST)
    features = whole_answer(engine, window.index, Search(body, log.params), left)
    logged = {_place(hit): hit for hit in features["hits"]["hits"]}
    for hit in hits:
        if _place(hit) not in logged:
            raise Refused(f"document '{hit['_id']}' went away while it was reranked: search again")
    took = answer["took"] + features["took"]
    return {**answer, "took": took}, [logged[_place(hit)] for hit in hits]


def _place(hit: dict[str, Any]) -> tuple[Any, Any]:
    return hit.get("_index"), hit["_id"]


def whole_answer(engine: Engine, index: str, search: Search, deadline: float) -> dict[str, Any]:
    """The answer of a search, complete and with scores; see `SearchAnswer.read`."""
    answer = search_index(
        engine, index, search.body, params=search.params, deadline=deadline, scored=True
    )
    return dict(answer.content)


def score_hits(ranker: ReorderingModel, rows: Matrix, hits: Sequence[dict[str, Any]]) -> Vector:
    """The ranker's scores of the hits of `search_with_features`, whose features are `rows`."""
    if not hits:
        return np.zeros(0)
    ids = [hit["_id"] for hit in hits]
    sources = [hit.get("_source") or {} for hit in hits]
    return ranker.rerank(rows, None, fields_of_hits(ranker, ids, sources))


def features_of_hits(
    store: Store, featureset: FeatureSet, hits: Sequence[dict[str, Any]]
) -> Matrix:
    """The features of hits, one row each."""
    rows = [store.features_of(featureset, hit) for hit in hits]
    return np.array(rows, dtype=np.float32).reshape(len(hits), len(featureset.features))


def within(seconds: float, work: Callable[[], T]) -> T:
    """What `work` returns. Raises TimeoutError where it takes longer, and leaves it behind.

    It runs in a thread of its own: arithmetic cannot be interrupted.
    """
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result(timeout=max(seconds, 0.0))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _hits(hits: Sequence[dict[str, Any]], scores: Vector | None) -> tuple[LiveHit, ...]:
    """The hits, best first by these scores; without scores, as the engine ordered them."""
    engine_scores = [float(hit["_score"]) for hit in hits]
    final = engine_scores if scores is None else scores.tolist()
    # Equal scores stay in the engine's order.
    order = range(len(hits)) if scores is None else np.argsort(-scores, kind="stable").tolist()
    return tuple(
        LiveHit(hits[i]["_id"], final[i], i + 1, engine_scores[i], hits[i].get("_source") or {})
        for i in order
    )
