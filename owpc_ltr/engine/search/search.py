"""A search before and after: the engine's own ranking, and the same with a model's rescoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.external_features.columns import ExternalColumns, columns_for, refuse_unused
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import search_hits, strange
from owpc_ltr.engine.search.client_rerank import live_search, prepare
from owpc_ltr.engine.search.request import SearchRequest, request_body
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.formats.external_features import joined_sources
from owpc_ltr.formats.model_conversion import client_model, is_client_scored, joined_in
from owpc_ltr.formats.plugin_free.form import plugin_free_model
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.names import check_index

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable

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
    `form` says by what scripts the engine scored, where the model is no linear one; scores are then
    the model's own, without the constant that the engine adds.
    """

    before: tuple[Hit, ...]
    after: tuple[Hit, ...]
    took_before: int
    took_after: int
    scored_by: str = "engine"
    reason: str = ""
    index: str = ""
    model: str = ""
    form: str = ""


def search(
    engine: Engine,
    store: Store,
    request: SearchRequest,
    model: StoredModel | None,
    *,
    title: str | None = None,
    tables: Sequence[ExternalTable] = (),
) -> BeforeAndAfter:
    """Both rankings of a query; without a model they are the same.

    Raises UsageError where none of the `tables` has what the model reads from outside the index.
    """
    index, size = request.index, request.size
    request = replace(request, rest=request.filters)
    joined = None
    if model is not None:
        refuse_unused(joined_in(model), tables, f"the model '{model.name}'")
        joined = columns_for(joined_in(model), tables, f"the model '{model.name}'")
    plain = _ask(engine, index, request_body(store, None, request.showing_window()))
    if model is not None and is_client_scored(model):
        return _by_client(engine, store, request, model, joined, title, plain)
    changed, shift, form = plain, 0.0, ""
    if model is not None:
        changed = _ask(engine, index, request_body(store, model, request))
        scripted = plugin_free_model(model)
        if scripted is not None:
            shift, form = scripted.shift, scripted.in_words()
    first, second = _ranks(plain.hits), _ranks(changed.hits)
    return BeforeAndAfter(
        tuple(_hit(hit, title, second) for hit in plain.hits[:size]),
        tuple(_hit(hit, title, first, shift) for hit in changed.hits[:size]),
        plain.took,
        changed.took,
        form=form,
    )


def search_reordered(
    engine: Engine,
    store: Store,
    request: SearchRequest,
    ranker: ReorderingModel,
    *,
    title: str | None = None,
    deadline: float = 1.0,
    tables: Sequence[ExternalTable] = (),
) -> BeforeAndAfter:
    """The engine's ranking of a query, and its window reordered by the client in time."""
    refuse_unused(joined_sources(ranker), tables, "the reranker")
    joined = columns_for(joined_sources(ranker), tables, "the reranker")
    plain = search(engine, store, request, None, title=title)
    prepare(ranker)
    found = live_search(engine, store, request, ranker, joined=joined, deadline=deadline)
    after = tuple(
        Hit(
            hit.document_id,
            title_of(hit.document_id, hit.source, title),
            hit.score,
            hit.engine_rank,
        )
        for hit in found.hits
    )
    return replace(
        plain, after=after, took_after=found.took, scored_by="client", reason=found.reason
    )


def _by_client(
    engine: Engine,
    store: Store,
    request: SearchRequest,
    model: StoredModel,
    joined: ExternalColumns | None,
    title: str | None,
    plain: _Found,
) -> BeforeAndAfter:
    """One more request brings the window with its features, which the client scores."""
    ranker = ReorderingModel(client_model(model), "", None)
    whole, size = request.showing_window(), request.size
    result = live_search(
        engine, store, whole, ranker,
        featureset=model.featureset, joined=joined, deadline=_PATIENCE,
    )  # fmt: skip
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
    hits, took = search_hits(answer, "the search", body), answer.get("took")
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


def _hit(hit: dict[str, Any], title: str | None, ranks: dict[str, int], shift: float = 0.0) -> Hit:
    shown = title_of(hit["_id"], hit.get("_source") or {}, title)
    return Hit(hit["_id"], shown, float(hit["_score"]) - shift, ranks.get(hit["_id"]))


def title_of(document: str, source: Mapping[str, Any], title: str | None) -> str:
    """What to call a document: the field asked for, else the first that looks like a title."""
    if title is not None and title not in source:
        raise BadInput(f"document '{document}' has no field '{title}' to show")
    field = title or next((name for name in _TITLES if name in source), None)
    return str(source[field]) if field else document
