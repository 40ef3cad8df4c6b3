"""Serving: live results of the query alone, of a stored model, or as reordered by the client.

A way to serve takes a request and returns the document ids of its whole window, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.external_features.columns import ExternalColumns, columns_for
from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NoSuchIndex, SearchAnswer
from owpc_ltr.engine.options import IN_FLIGHT
from owpc_ltr.engine.search.client_rerank import find_featureset, live_search, prepare
from owpc_ltr.engine.search.request import SearchRequest, request_body
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.model_conversion import (
    client_model,
    is_client_scored,
    joined_in,
    joined_sources,
)
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.models.score_range import ScoreInterval
from owpc_ltr.names import check_index
from owpc_ltr.plain_text import ShortRepr
from owpc_ltr.signatures import option_name

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable

_PATIENCE = 30.0


@dataclass(frozen=True, repr=False)
class Served(ShortRepr):
    """The documents of a window, best first, and the engine's milliseconds for them."""

    doc_ids: tuple[str, ...]
    took: int


Serve = Callable[[SearchRequest], Served]


def query_alone(engine: Engine, store: Store) -> Serve:
    """The engine's own order of the query."""

    def serve(request: SearchRequest) -> Served:
        return _served(engine, request, request_body(store, None, request.showing_window()))

    return serve


def with_stored(
    engine: Engine,
    store: Store,
    model: StoredModel,
    interval: ScoreInterval | None = None,
    tables: Sequence[ExternalTable] = (),
) -> Serve:
    """The order with a model in the store, as `request` asks for it; or by the client.

    Raises UsageError where none of the `tables` has what the model reads from outside the index.
    """
    if is_client_scored(model):
        base = ReorderingModel(client_model(model), "", None)
        joined = columns_for(joined_in(model), tables, f"the model '{model.name}'")
        return _reordered(engine, store, base, model.featureset, joined)

    def serve(request: SearchRequest) -> Served:
        body = request_body(store, model, request.showing_window(), interval)
        return _served(engine, request, body)

    return serve


def with_reordering(
    engine: Engine,
    store: Store,
    ranker: ReorderingModel,
    featureset: FeatureSet | None = None,
    tables: Sequence[ExternalTable] = (),
) -> Serve:
    """The window as the client reorders it. A search that it could not reorder is Refused."""
    own = featureset or find_featureset(store, ranker)
    joined = columns_for(joined_sources(ranker), tables, "the reranker")
    return _reordered(engine, store, ranker, own, joined)


def _reordered(
    engine: Engine,
    store: Store,
    ranker: ReorderingModel,
    featureset: FeatureSet,
    joined: ExternalColumns | None,
) -> Serve:
    prepare(ranker)

    def serve(request: SearchRequest) -> Served:
        found = live_search(
            engine, store, request.showing_window(), ranker,
            featureset=featureset, joined=joined, deadline=_PATIENCE, source=False,
        )  # fmt: skip
        if not found.reordered:
            raise Refused(f"the client could not reorder what it got: {found.reason}")
        return Served(tuple(hit.document_id for hit in found.hits), found.took)

    return serve


def serve_all(
    ways: Sequence[Serve],
    requests: Sequence[SearchRequest],
    in_flight: int = IN_FLIGHT,
    progress: Callable[[str, float | None], None] | None = None,
) -> list[tuple[Served, ...]]:
    """Of every way, the answers to all requests, in order.

    Each query is searched in all ways one after the other, in rotating order, so that none always
    profits from the caches that another one has just filled.
    """
    if in_flight < 1:
        raise UsageError(f"{option_name('in_flight')} is 1 or more, not {in_flight}")

    def ask(number: int) -> list[Served]:
        turn = number % len(ways)
        order = [*range(turn, len(ways)), *range(turn)]
        try:
            answers = {way: ways[way](requests[number]) for way in order}
        except NoSuchIndex:
            raise
        except EngineRefusal as refusal:
            raise Refused(f"query '{requests[number].query_id}': {refusal}") from refusal
        return [answers[way] for way in range(len(ways))]

    def show(count: int) -> None:
        if progress is not None:
            progress(f"{count} of {len(requests)} queries", count / len(requests))

    with RequestThreads(min(in_flight, max(1, len(requests)))) as workers:
        rows = workers.map(ask, range(len(requests)), show)
    return [tuple(row[way] for row in rows) for way in range(len(ways))]


def _served(engine: Engine, request: SearchRequest, body: dict[str, Any]) -> Served:
    found = searched(engine, request.index, {**body, "_source": False}, scored=True)
    return Served(tuple(hit["_id"] for hit in found.hits), found.took)


def searched(
    engine: Engine,
    index: str,
    body: dict[str, Any],
    what: str = "the search",
    *,
    scored: bool = False,
    params: Mapping[str, str] | None = None,
) -> SearchAnswer:
    """The answer of all shards of an index; see `SearchAnswer.read`."""
    params = {**(params or {}), "allow_partial_search_results": "false"}
    answer = engine.request("POST", f"/{check_index(index)}/_search", params=params, body=body)
    return SearchAnswer.read(answer, body, what, scored=scored)
