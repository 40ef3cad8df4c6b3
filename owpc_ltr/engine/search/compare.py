"""A search before and after: the engine's own ranking, and the same with a model's rescoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.http.responses import hits_of, strange
from owpc_ltr.engine.search.request import request_body
from owpc_ltr.engine.store.base import Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.interop.client_scored import client_model, is_client_scored
from owpc_ltr.interop.stored_model import StoredModel
from owpc_ltr.names import check_index

_PATIENCE = 10.0
_TITLES = ("title", "name", "qualified_name", "label", "headline", "subject")


@dataclass(frozen=True)
class Hit:
    """One result: its document, what to call it, its score, and its rank in the other ranking."""

    document_id: str
    title: str
    score: float
    other_rank: int | None = None


@dataclass(frozen=True)
class BeforeAndAfter:
    """The same query without and with the model; `took` in milliseconds, by the engine's clock.

    `scored_by` is `engine` or `client`; `reason` says why the client did not, where it failed.
    """

    before: tuple[Hit, ...]
    after: tuple[Hit, ...]
    took_before: int
    took_after: int
    scored_by: str = "engine"
    reason: str = ""


def search(
    engine: Engine,
    store: Store,
    index: str,
    model: StoredModel | None,
    query: dict[str, Any],
    params: dict[str, Any],
    *,
    size: int = 10,
    window: int = 100,
    title: str | None = None,
) -> BeforeAndAfter:
    """Both rankings of a query; without a model they are the same."""
    plain = _ask(engine, index, request_body(store, None, query, params, max(size, window)))
    if model is not None and is_client_scored(model):
        return _by_client(engine, store, index, model, query, params, size, window, title, plain)
    changed = plain
    if model is not None:
        changed = _ask(engine, index, request_body(store, model, query, params, size, window))
    first, second = _ranks(plain.hits), _ranks(changed.hits)
    return BeforeAndAfter(
        tuple(_hit(hit, title, second) for hit in plain.hits[:size]),
        tuple(_hit(hit, title, first) for hit in changed.hits[:size]),
        plain.took,
        changed.took,
    )


class Reordered(Protocol):
    """A hit that the client has given a place: see `owpc_ltr.engine.search.client_rerank`."""

    @property
    def document_id(self) -> str:
        """The engine's id."""
        ...

    @property
    def score(self) -> float:
        """The reordering's score."""
        ...

    @property
    def engine_rank(self) -> int:
        """The rank that the engine gave it."""
        ...

    @property
    def source(self) -> Mapping[str, Any]:
        """The document's fields."""
        ...


def reranked(
    both: BeforeAndAfter, hits: Sequence[Reordered], took: int, title: str | None
) -> BeforeAndAfter:
    """The same search, with the client's order for what comes after."""
    after = tuple(
        Hit(hit.document_id, _title(hit.document_id, hit.source, title), hit.score, hit.engine_rank)
        for hit in hits
    )
    return replace(both, after=after, took_after=took)


def _by_client(
    engine: Engine,
    store: Store,
    index: str,
    model: StoredModel,
    query: dict[str, Any],
    params: dict[str, Any],
    size: int,
    window: int,
    title: str | None,
    plain: _Found,
) -> BeforeAndAfter:
    """One more request brings the window with its features, which the client scores."""
    from owpc_ltr.engine.search.client_rerank import live_search
    from owpc_ltr.models.reordering import ReorderingModel

    ranker = ReorderingModel(client_model(model), "", None)
    result = live_search(
        engine,
        store,
        index,
        ranker,
        query,
        params,
        featureset=model.featureset,
        size=max(size, window),
        window=window,
        deadline=_PATIENCE,
    )
    hits: list[dict[str, Any]] = [
        {"_id": hit.document_id, "_score": hit.score, "_source": hit.source} for hit in result.hits
    ]
    first, second = _ranks(plain.hits), _ranks(hits)
    return BeforeAndAfter(
        tuple(_hit(hit, title, second) for hit in plain.hits[:size]),
        tuple(_hit(hit, title, first) for hit in hits[:size]),
        plain.took,
        result.took,
        "client",
        result.reason,
    )


@dataclass(frozen=True)
class _Found:
    """What a search found, and its milliseconds by the engine's clock."""

    hits: list[dict[str, Any]]
    took: int


def _ask(engine: Engine, index: str, body: dict[str, Any]) -> _Found:
    answer = engine.request(
        "POST",
        f"/{check_index(index)}/_search",
        params={"allow_partial_search_results": "false"},
        body=body,
    )
    hits, took = hits_of(answer, "the search", "_id"), answer.get("took")
    sources = [hit.get("_source") or {} for hit in hits]
    if type(took) is not int or not all(isinstance(source, dict) for source in sources):
        raise strange("the search")
    for hit in hits:
        if type(hit.get("_score")) not in (int, float):
            raise Refused(
                f"document '{hit['_id']}' came without a score: the query, or a feature of the "
                "model, gives what is no number; mend its script"
            )
    return _Found(hits, took)


def _ranks(hits: list[dict[str, Any]]) -> dict[str, int]:
    return {hit["_id"]: rank for rank, hit in enumerate(hits, 1)}


def _hit(hit: dict[str, Any], title: str | None, ranks: dict[str, int]) -> Hit:
    shown = _title(hit["_id"], hit.get("_source") or {}, title)
    return Hit(hit["_id"], shown, float(hit["_score"]), ranks.get(hit["_id"]))


def _title(document: str, source: Mapping[str, Any], title: str | None) -> str:
    """What to call a document: the field asked for, else the first that looks like a title."""
    if title is not None and title not in source:
        raise BadInput(f"document '{document}' has no field '{title}' to show")
    field = title or next((name for name in _TITLES if name in source), None)
    return str(source[field]) if field else document
