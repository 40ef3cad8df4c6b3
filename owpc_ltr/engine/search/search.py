"""`search`: the ranking of a query without and with a model, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Block, BlockResult, Table, columns, html_of
from owpc_ltr.engine.client.engine import Engine, search_index, to_json
from owpc_ltr.engine.client.responses import Hit as EngineHit
from owpc_ltr.engine.client.responses import SearchAnswer
from owpc_ltr.engine.options import (
    Keywords,
    Params,
    QueryTemplate,
    Reranker,
    SearchIndex,
    Size,
    TitleField,
    UploadedModel,
    Window,
)
from owpc_ltr.engine.search.client_scoring import (
    LiveResult,
    as_reordering,
    live_search,
    prepare,
)
from owpc_ltr.engine.search.request import SearchRequest, request_body, search_request
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import BadInput, UsageError, give_warning
from owpc_ltr.features.mustache import variables
from owpc_ltr.formats.plugin_free import plugin_free_model
from owpc_ltr.formats.stored_model import StoredModel, is_client_scored
from owpc_ltr.host.commands import Plugins
from owpc_ltr.models.combined import ReorderingModel, load_reordering
from owpc_ltr.names import check_index
from owpc_ltr.signatures import Help, Writes, job
from owpc_ltr.text import cut

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.explanations.explanation import Explanation

DEADLINE = 1.0
"""Seconds in which the client reorders a search, or leaves the engine's order."""
_PATIENCE = 10.0
_TITLES = ("title", "name", "qualified_name", "label", "headline", "subject")


@dataclass(frozen=True)
class Hit:
    """One result: its document and title, its score, and its rank in the other ranking."""

    document_id: str
    title: str
    score: float
    other_rank: int | None = None


@dataclass(frozen=True, repr=False)
class BeforeAndAfter(BlockResult):
    """The same query without and with the model; `took` in milliseconds, by the engine's clock.

    `scored_by` is `engine` or `client`; `reason` says why the client did not, where it failed.
    `form` says by what scripts the engine scored, where the model is no linear one; scores are then
    the model's own, without the constant that the engine adds. `explanation` is that of the
    ranking with the model, where it was asked for.
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
    keywords: str = ""
    explanation: Explanation | None = None

    def _repr_html_(self) -> str:
        # An explanation has its own HTML.
        return html_of([self.keywords, *replace(self, explanation=None)._blocks()])

    def _blocks(self) -> Iterator[Block]:
        if self.explanation is not None and self.explanation.hits:
            yield from str(self.explanation).splitlines()
        elif not self.before:
            yield f"nothing in '{self.index}' matches: {self.keywords}"
            return
        elif not self.model:
            rows = [(n, _short(hit.title), hit.score) for n, hit in enumerate(self.before, 1)]
            yield Table(["#", "QUERY ALONE", "SCORE"], rows)
        else:
            moved = [
                (rank, _short(old.title), move(rank, new.other_rank), _short(new.title), new.score)
                for rank, (old, new) in enumerate(zip(self.before, self.after, strict=True), 1)
            ]
            yield Table(["#", "BEFORE", "MOVE", f"WITH {self.model}", "SCORE"], moved)
        yield ""
        with_model = f", with the model {self.took_after} ms" if self.model else ""
        yield f"the engine took {self.took_before} ms{with_model}"
        if self.form:
            yield f"the engine scored the window: {self.form}"
        if self.scored_by == "client" and not self.reason:
            yield "the client scored the window"

    def as_dict(self) -> dict[str, Any]:
        """Both rankings as JSON."""
        explained = self.explanation
        return {
            "keywords": self.keywords,
            "model": self.model or None,
            "reordered": not self.reason,
            "reason": self.reason or None,
            "before": [vars(hit) for hit in self.before],
            "after": [vars(hit) for hit in self.after],
            "took_before_ms": self.took_before,
            "took_after_ms": self.took_after,
            "scored_by": self.scored_by,
            **({} if explained is None else {"explanation": explained.as_dict()}),
        }


@job
def search(
    cluster: Cluster,
    keywords: Keywords,
    *,
    model: UploadedModel = None,
    reranker: Reranker = None,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    params: Params = None,
    size: Size = None,
    window: Window = None,
    title_field: TitleField = None,
    query_id: Annotated[
        str | None, Help("The id of the query in `run`; default: 1.", metavar="ID")
    ] = None,
    deadline: Annotated[
        float, Help("Seconds to wait for `reranker`; then the engine's order is kept.")
    ] = DEADLINE,
    explain: Annotated[bool, Help("Show below each hit what adds most to its score.")] = False,
    run: Annotated[
        Path | str | None,
        Writes("Also write the model's ranking as a TREC run, to this file.", needs_folder=False),
    ] = None,
    plugins: Plugins = (),
) -> BeforeAndAfter:
    """Search without and with a model; show both rankings.

    Without `model`, it is the only uploaded one if that is for this index, or the query alone.

    Python: `query_template` and `params` are as for `request`. Warns where the client could not
    reorder the window, which then has the engine's order.
    """
    if not keywords.strip():
        raise UsageError("`keywords` is empty: give the words of a query")
    ranker: StoredModel | ReorderingModel | None
    alone = ""
    if reranker is None and model is None and not explain:
        model, alone = _only_model(cluster, index)
    if alone:
        store, ranker, where = cluster.store, None, cluster.the_index(index)
    else:
        store, ranker, where = named_ranker(cluster, model, reranker, index, plugins)
    request = search_request(
        cluster,
        keywords,
        index=where,
        query_template=query_template,
        params=params,
        size=size,
        window=window,
    )
    if params and not isinstance(ranker, ReorderingModel):
        _check_used(params, request, ranker)
    result = search_ranked(
        cluster.engine, store, request, ranker, title_field=title_field, deadline=deadline
    )
    name, reason = "", result.reason or alone
    if isinstance(ranker, StoredModel):
        name = ranker.name
    elif ranker is not None:
        name = str(reranker if isinstance(reranker, Path | str) else ranker.reranker)
    result = replace(result, index=where, model=name, keywords=keywords, reason=reason)
    if reason:
        give_warning(f"this is the engine's own order: {reason}")
    if run is not None:
        from owpc_ltr.data.runs import write_ranking

        ranking = [(hit.document_id, hit.score) for hit in result.after]
        write_ranking(query_id or "1", ranking, Path(run))
    if explain:
        explanation = cluster.explain(
            keywords,
            model=model,
            reranker=reranker,
            index=index,
            query_template=query_template,
            params=params,
            size=size,
            window=window,
            title_field=title_field,
            plugins=plugins,
        )
        result = replace(result, explanation=explanation)
    return result


def _check_used(given: Iterable[str], request: SearchRequest, model: StoredModel | None) -> None:
    """Raise UsageError for a parameter that neither the query nor a feature has a place for."""
    known = variables(to_json({"query": request.query, **request.rest}))
    known |= set(model.featureset.params) if model is not None else set()
    if unknown := sorted(set(given) - known):
        raise UsageError(
            f"neither the query template nor a feature has the parameter '{unknown[0]}': they have "
            f"{', '.join(sorted(known)) or 'none'}"
        )


def named_ranker(
    cluster: Cluster,
    model: str | None,
    reranker: ReorderingModel | Path | str | None,
    index: str | None,
    plugins: Sequence[Path | str],
) -> tuple[Store, StoredModel | ReorderingModel, str]:
    """The store, the ranker that a search names (the only uploaded model by default), the index."""
    if model is not None and reranker is not None:
        raise UsageError("give one of `model` and `reranker`: a search is ranked by one")
    if index is not None:
        check_index(index)
    if isinstance(reranker, Path | str):
        reranker = load_reordering(reranker, plugins)
    if reranker is not None:
        return cluster.store, reranker, cluster.the_index(index)
    store, name = cluster.uploaded(model)
    where = cluster.index_of(name, index)
    return store, store.get_model(name), where


def _only_model(cluster: Cluster, index: str | None) -> tuple[str | None, str]:
    """The one uploaded model, if it is for this index; or None, and why there is none to use."""
    names = cluster.models.names
    if len(names) != 1:
        several = f"no model is named (`model`: {', '.join(names[:8])})"
        return None, several if names else "no model is uploaded"
    deployment = cluster.models.deployment(names[0])
    if index is not None and deployment is not None and deployment.index != index:
        return None, f"the only model, {names[0]}, is for the index '{deployment.index}'"
    return names[0], ""


def move(rank: int, other_rank: int | None) -> str:
    """How far a document has moved to this rank from the other one: ▲3, ▼1, = or new."""
    if other_rank is None:
        return "new"
    steps = other_rank - rank
    return "=" if steps == 0 else f"▲{steps}" if steps > 0 else f"▼{-steps}"


def _short(title: str) -> str:
    # Two titles, a rank, a move and a score share a line.
    return cut(title, min(40, (columns() - 24) // 2))


def search_ranked(
    engine: Engine,
    store: Store,
    request: SearchRequest,
    ranker: StoredModel | ReorderingModel | None,
    *,
    title_field: str | None = None,
    deadline: float = DEADLINE,
) -> BeforeAndAfter:
    """The engine's ranking of a query, and the ranker's; without a ranker they are the same.

    What the client scores has a `deadline` in seconds: a reranker this one, a stored model one of
    its own. Raises UsageError for a ranker of external features.
    """
    index, request = request.index, replace(request, rest=request.filters)
    whole = request.showing_window()
    before = after = search_index(engine, index, request_body(store, None, whole), scored=True)
    base, featureset, shift = ranker, None, 0.0
    facts: dict[str, Any] = {}
    if isinstance(ranker, StoredModel) and is_client_scored(ranker):
        base, featureset, deadline = as_reordering(ranker), ranker.featureset, _PATIENCE
    if isinstance(base, ReorderingModel):
        if base is ranker:
            prepare(base)
        result = live_search(engine, store, whole, base, featureset=featureset, deadline=deadline)
        after = SearchAnswer(tuple(served_hits(result)), result.took)
        facts = {"scored_by": "client", "reason": result.reason}
    elif base is not None:
        after = search_index(engine, index, request_body(store, base, request), scored=True)
        scripted = plugin_free_model(base)
        if scripted is not None:
            shift, facts = scripted.shift, {"form": scripted.in_words()}
    first, second = _ranks(before.hits), _ranks(after.hits)
    title, size = titles_of(before.hits, title_field), request.size
    return BeforeAndAfter(
        tuple(_hit(hit, title, second) for hit in before.hits[:size]),
        tuple(_hit(hit, title, first, shift) for hit in after.hits[:size]),
        before.took,
        after.took,
        **facts,
    )


def served_hits(result: LiveResult) -> list[EngineHit]:
    """The hits of a window that the client ordered, as the engine has them."""
    return [
        {"_id": hit.document_id, "_score": hit.score, "_source": hit.source} for hit in result.hits
    ]


def _ranks(hits: Sequence[EngineHit]) -> dict[str, int]:
    return {hit["_id"]: rank for rank, hit in enumerate(hits, 1)}


def _hit(
    hit: EngineHit, title: Callable[[EngineHit], str], ranks: dict[str, int], shift: float = 0.0
) -> Hit:
    return Hit(hit["_id"], title(hit), float(hit["_score"]) - shift, ranks.get(hit["_id"]))


def titles_of(hits: Sequence[EngineHit], title_field: str | None) -> Callable[[EngineHit], str]:
    """How hits are shown: by the field asked for, else by that of titles whose values differ most.

    A hit without that field is shown by another one, or by its id. Raises BadInput where the field
    asked for is not there.
    """

    def distinct(name: str) -> int:
        return len({str(source[name]) for source in map(_source, hits) if source.get(name)})

    usual = sorted(_TITLES, key=distinct, reverse=True)

    def title(hit: EngineHit) -> str:
        source = _source(hit)
        if title_field is not None and title_field not in source:
            raise BadInput(f"document '{hit['_id']}' has no field '{title_field}' to show")
        field = title_field or next((name for name in usual if name in source), None)
        return str(source[field]) if field else hit["_id"]

    return title


def _source(hit: EngineHit) -> Mapping[str, Any]:
    return hit.get("_source") or {}
