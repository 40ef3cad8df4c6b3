"""Live search: the engine's own ranking of a query, and the same with a model's rescoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from owpc_ltr.engine.answers import hits_of, part_of, strange
from owpc_ltr.engine.client import Engine
from owpc_ltr.engine.client_scoring import client_model, is_client_scored
from owpc_ltr.engine.names import check_index
from owpc_ltr.engine.stores import Store, StoredModel
from owpc_ltr.engine.templates import render
from owpc_ltr.engine.window import window_safe
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.intervals import ScoreInterval

KEYWORDS = "{{keywords}}"
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


def default_query(engine: Engine, index: str) -> dict[str, Any]:
    """A plain full-text query over all text fields of an index, for `{{keywords}}`."""
    mapping = engine.request("GET", f"/{check_index(index)}/_mapping")
    words = f"the mapping of '{index}'"
    fields: set[str] = set()
    for name in mapping if isinstance(mapping, dict) else [""]:
        found = part_of(part_of(mapping, name, words), "mappings", words)
        fields |= set(_text_fields(found.get("properties", {})))
    if not fields:
        raise UsageError(
            f"the index '{index}' has no text field to search: give your application's query with "
            "--query FILE"
        )
    return {"multi_match": {"query": KEYWORDS, "fields": sorted(fields)}}


def check_query(query: dict[str, Any]) -> None:
    """Refuse what an engine cannot rescore, before it answers with a riddle."""
    for part in ("sort", "collapse", "rescore", "scroll"):
        if part in query:
            raise UsageError(
                f"the query has a '{part}', and results cannot be rescored with one: give the "
                "query alone"
            )


def request_body(
    store: Store,
    model: StoredModel | None,
    query: dict[str, Any],
    params: dict[str, Any],
    size: int = 10,
    window: int = 100,
    interval: ScoreInterval | None = None,
) -> dict[str, Any]:
    """The search request of an application: the query, and the rescoring of its best documents.

    The window is never smaller than what is shown: a document beyond it would keep a score of
    another scale. With the `interval` of the model's scores, that is also safe for later pages,
    beyond the window (see `window.py`).
    """
    check_query(query)
    body: dict[str, Any] = {"query": render(query, params), "size": size}
    if model is not None:
        if is_client_scored(model):
            raise Refused(
                f"'{model.name}' is scored by the client, so that there is no request for the "
                "engine alone: use owpc-ltr search, or a cluster with the LTR plugin"
            )
        clauses = store.rescore(model, params, max(window, size))
        body["rescore"] = window_safe(clauses, interval) if interval else clauses
    return body


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
    """A hit that the client has given a place: see `owpc_ltr.live`."""

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
    from owpc_ltr.live import live_search
    from owpc_ltr.reranking import ReorderingModel

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


def _text_fields(properties: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, content in properties.items():
        if content.get("type") == "text":
            found.append(prefix + name)
        found += _text_fields(content.get("properties", {}), f"{prefix}{name}.")
    return found
