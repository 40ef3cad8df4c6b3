"""`owpc-ltr search` and `rescore-body`: a model at work."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import (
    CaFile,
    Index,
    Insecure,
    StoreKind,
    StoreName,
    Url,
    open_engine,
    open_store,
)
from owpc_ltr.cli.options import Json
from owpc_ltr.cli.output import print_json, print_table, warn

if TYPE_CHECKING:
    from owpc_ltr.engine.client import Engine
    from owpc_ltr.engine.search import Hit
    from owpc_ltr.engine.stores import Store, StoredModel
    from owpc_ltr.intervals import ScoreInterval
    from owpc_ltr.reranking import ReorderingModel

Model = Annotated[
    str, typer.Option(help="The name that it was uploaded under; NAME:challenger for its rival.")
]
QueryFile = Annotated[
    Path | None,
    typer.Option(
        "--query",
        help="Your application's query (JSON), with {{keywords}} where the user's words go; "
        "default: all text fields.",
    ),
]
Window = Annotated[int, typer.Option(min=1, help="How many of the best documents are rescored.")]
Params = Annotated[
    list[str] | None,
    typer.Option("--param", help="A further parameter of the features, NAME=VALUE."),
]


def search(
    keywords: Annotated[str, typer.Argument(help="What the user types.")],
    index: Index,
    model: Annotated[
        str | None, typer.Option(help="The name that a model was uploaded under.")
    ] = None,
    reranker: Annotated[
        Path | None,
        typer.Option(help="A reordering, FILE.json: the client reorders the engine's window."),
    ] = None,
    deadline: Annotated[
        float, typer.Option(help="Seconds after which --reranker leaves the engine's order.")
    ] = 1.0,
    size: Annotated[int, typer.Option(min=1, help="How many results.")] = 10,
    window: Window = 100,
    query: QueryFile = None,
    param: Params = None,
    title: Annotated[str | None, typer.Option(help="The field to show.")] = None,
    store_kind: StoreKind = None,
    store: StoreName = None,
    url: Url = None,
    ca: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Search twice, without and with the model or reranker, and show both rankings side by side."""
    from owpc_ltr.engine.names import check_index
    from owpc_ltr.engine.search import reranked
    from owpc_ltr.engine.search import search as search_both
    from owpc_ltr.errors import UsageError

    if (model is None) == (reranker is None):
        raise UsageError("give one of --model NAME and --reranker FILE")
    check_index(index)
    ordering = None if reranker is None else _read_reordering(reranker)
    engine = open_engine(url, ca, insecure)
    kept_in = open_store(engine, store_kind, store)
    stored = None if model is None else _resolved(engine, kept_in, model)
    template = _query(engine, index, query)
    params = {"keywords": keywords, "query": keywords, **_params(param)}
    both = search_both(
        engine, kept_in, index, stored, template, params, size=size, window=window, title=title
    )
    name, reason = (stored.name if stored else str(reranker)), both.reason
    if ordering is not None:
        from owpc_ltr.live import live_search, prepare

        prepare(ordering)
        live = live_search(
            engine,
            kept_in,
            index,
            ordering,
            template,
            params,
            size=size,
            window=window,
            deadline=deadline,
        )
        both = reranked(both, live.hits, live.took, title)
        reason = live.reason
    if as_json:
        print_json(
            {
                "keywords": keywords,
                "model": name,
                "reordered": not reason,
                "reason": reason or None,
                "before": [vars(hit) for hit in both.before],
                "after": [vars(hit) for hit in both.after],
                "took_before_ms": both.took_before,
                "took_after_ms": both.took_after,
                "scored_by": "client" if ordering else both.scored_by,
            }
        )
        return
    if not both.before:
        typer.echo(f"nothing in '{index}' matches: {keywords}")
        return
    rows = zip(both.before, both.after, strict=True)
    print_table(
        ["#", "BEFORE", "MOVE", f"WITH {name}", "SCORE"],
        [
            (rank, _short(old.title), _move(rank, new), _short(new.title), new.score)
            for rank, (old, new) in enumerate(rows, 1)
        ],
    )
    typer.echo(f"\nthe engine took {both.took_before} ms, with the model {both.took_after} ms")
    if both.scored_by == "client":
        typer.echo("the client scored the window: this cluster cannot run such a model")
    if reason:
        warn(f"this is the engine's own order: {reason}")


def rescore_body(
    index: Index,
    model: Model,
    keywords: Annotated[
        str, typer.Argument(help="What the user types; default: a place to fill in.")
    ] = "{{keywords}}",
    size: Annotated[int, typer.Option(min=1, help="How many results.")] = 10,
    window: Window = 100,
    query: QueryFile = None,
    param: Params = None,
    store_kind: StoreKind = None,
    store: StoreName = None,
    url: Url = None,
    ca: CaFile = None,
    insecure: Insecure = False,
) -> None:
    """Print the search request that an application sends: POST it to /INDEX/_search.

    Without KEYWORDS it is a search template, with {{keywords}} where the user's words go. Add
    "from" for later pages: no document beyond the window passes one within it.
    """
    from owpc_ltr.engine.names import check_index
    from owpc_ltr.engine.search import request_body

    check_index(index)
    engine = open_engine(url, ca, insecure)
    kept_in = open_store(engine, store_kind, store)
    stored = _resolved(engine, kept_in, model)
    params = {"keywords": keywords, "query": keywords, **_params(param)}
    interval = _interval(engine, stored)
    if not math.isfinite(interval.low):
        warn(
            f"nothing is known of the scores of '{stored.name}': documents beyond the window of "
            f"{max(window, size)} may pass those within it; upload it again to be safe"
        )
    body = request_body(
        kept_in, stored, _query(engine, index, query), params, size, window, interval
    )
    typer.echo(json.dumps(body, indent=2, ensure_ascii=False))


def _resolved(engine: Engine, store: Store, name: str) -> StoredModel:
    from owpc_ltr.engine.pointers import Pointers

    return store.get_model(Pointers(engine).resolve(name))


def _read_reordering(path: Path) -> ReorderingModel:
    from owpc_ltr.errors import BadInput
    from owpc_ltr.reranking import ReorderingModel, load_ranker

    ranker = load_ranker(path)
    if not isinstance(ranker, ReorderingModel):
        raise BadInput(f"{path} is no reordering: upload it, and search with --model NAME")
    return ranker


def _interval(engine: Engine, stored: StoredModel) -> ScoreInterval:
    """Between which numbers the model's scores lie, as its certificate says."""
    from owpc_ltr.engine.certificates import Certificates
    from owpc_ltr.intervals import UNKNOWN

    certificate = Certificates(engine).find(stored.name, whole=False)
    return certificate.interval if certificate else UNKNOWN


def _query(engine: Engine, index: str, path: Path | None) -> dict[str, Any]:
    from owpc_ltr.cli.files import read_json_object
    from owpc_ltr.engine.search import default_query

    if path is None:
        return default_query(engine, index)
    content = read_json_object(path)
    # The whole body of a search is welcome too: its query is what is rescored.
    inner = content.get("query")
    return (
        inner if isinstance(inner, dict) and set(content) <= {"query", "size", "from"} else content
    )


def _params(texts: list[str] | None) -> dict[str, str]:
    from owpc_ltr.errors import UsageError

    params = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"cannot read the parameter '{text}': write it as NAME=VALUE")
        params[name] = value
    return params


def _move(rank: int, hit: Hit) -> str:
    """How far a document has come: ▲3, ▼1, = or new."""
    if hit.other_rank is None:
        return "new"
    steps = hit.other_rank - rank
    return "=" if steps == 0 else f"▲{steps}" if steps > 0 else f"▼{-steps}"


def _short(title: str) -> str:
    return title if len(title) <= 40 else f"{title[:39]}…"
