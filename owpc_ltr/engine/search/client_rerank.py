"""Live reranking by the client: a window of hits with their features, reordered here.

    request = SearchRequest("movies", query, {"keywords": "insidious 2"})
    result = live_search(engine, store, request, ranker)

When the deadline passes or anything fails, the application gets the engine's own order, and the
reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.documents import IDS, value_at
from owpc_ltr.data.external_features.columns import ExternalColumns, ValuesOf, columns_for
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import SearchAnswer
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.stores import NoWindowScores, Search, Store
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.model_conversion import index_features, joined_sources
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.plain_text import ShortRepr

T = TypeVar("T")
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
        window = HitWindow(name, own, params, body["size"], document_fields(ranker))
        answer, logged = search_with_features(
            engine, store, window, Search(body), deadline=deadline
        )
    except OwpcLtrError as fault:
        answer = whole_answer(engine, name, Search(body), deadline)
        return _result(answer, None, str(fault), size, started)
    left = deadline - (time.monotonic() - started)
    try:
        _, scores = within(left, lambda: score_hits(ranker, store, own, values, logged))
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
            added = store.window_log(window.featureset, params, window.size)
        except NoWindowScores:
            apart = True
        else:
            body = {**search.body, **_with_source(search.body, window.fields), **added.body}
            both = Search(body, {**search.params, **added.params})
            answer = whole_answer(engine, window.index, both, deadline)
            return answer, answer["hits"]["hits"][: window.size]
    started = time.monotonic()
    answer = whole_answer(engine, window.index, search, deadline)
    hits = answer["hits"]["hits"][: window.size]
    if not hits:
        return answer, []
    asked = store.log_search(window.featureset, params, [hit["_id"] for hit in hits])
    body = {**asked.body, "_source": list(window.fields)} if window.fields else asked.body
    left = max(deadline - (time.monotonic() - started), _LEAST)
    found = whole_answer(engine, window.index, Search(body, asked.params), left)
    logged = {_place(hit): hit for hit in found["hits"]["hits"]}
    for hit in hits:
        if _place(hit) not in logged:
            raise Refused(f"document '{hit['_id']}' went away while it was reranked: search again")
    took = answer["took"] + found["took"]
    return {**answer, "took": took}, [logged[_place(hit)] for hit in hits]


def _with_source(body: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """The `_source` of a search that is to bring these fields too."""
    source = body.get("_source", True)
    if not fields or source is True:
        return {}
    return {"_source": sorted({*(source or ()), *fields})}


def _place(hit: dict[str, Any]) -> tuple[Any, Any]:
    return hit.get("_index"), hit["_id"]


def whole_answer(engine: Engine, index: str, search: Search, deadline: float) -> dict[str, Any]:
    """The answer of a search, complete and with scores; see `SearchAnswer.read`."""
    answer = engine.request(
        "POST",
        f"/{index}/_search",
        params={"allow_partial_search_results": "false", **search.params},
        body=search.body,
        deadline=deadline,
    )
    SearchAnswer.read(answer, search.body, scored=True)
    return dict(answer)


def score_hits(
    ranker: ReorderingModel,
    store: Store,
    featureset: FeatureSet,
    values: ValuesOf | None,
    hits: Sequence[dict[str, Any]],
) -> tuple[Matrix, Vector]:
    """The features of hits, external ones looked up in `values`, and the ranker's scores.

    The hits are those of `search_with_features`.
    """
    if not hits:
        return np.zeros((0, len(ranker.feature_names)), np.float32), np.zeros(0)
    ids = [hit["_id"] for hit in hits]
    sources = [hit.get("_source") or {} for hit in hits]
    rows = features_of_hits(store, featureset, values, hits)
    return rows, ranker.rerank(rows, None, fields_of_hits(ranker, ids, sources))


def features_of_hits(
    store: Store, featureset: FeatureSet, values: ValuesOf | None, hits: Sequence[dict[str, Any]]
) -> Matrix:
    """The features of hits, one row each; external ones, looked up in `values`, come last."""
    rows: Matrix = np.array([store.features_of(featureset, hit) for hit in hits], dtype=np.float32)
    return rows if values is None else np.hstack([rows, values([hit["_id"] for hit in hits])])


def within(seconds: float, work: Callable[[], T]) -> T:
    """What `work` returns. Raises TimeoutError where it takes longer, and leaves it behind.

    It runs in a thread of its own: arithmetic cannot be interrupted.
    """
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result(timeout=max(seconds, 0.0))
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
