"""`owpc-ltr search`: a model at work, beside the ranking without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import Place
from owpc_ltr.cli.files import A_MODEL
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Index, Json
from owpc_ltr.cli.output import print_json, print_table, warn
from owpc_ltr.cli.queries import Question
from owpc_ltr.errors import BadInput, UsageError

if TYPE_CHECKING:
    from owpc_ltr.engine.http.client import Engine
    from owpc_ltr.engine.search.compare import BeforeAndAfter, Hit
    from owpc_ltr.engine.store.base import Store
    from owpc_ltr.interop.stored_model import StoredModel
    from owpc_ltr.models.reordering import ReorderingModel


@dataclass(frozen=True)
class Ranking:
    """What reorders the engine's results: a stored model, or a reordering in a file."""

    model: Annotated[str | None, typer.Option(help="The name that a model was uploaded under.")] = (
        None
    )
    reranker: Annotated[
        Path | None,
        A_MODEL,
        typer.Option(help="A reordering, FILE.json: the client reorders the engine's window."),
    ] = None
    deadline: Annotated[
        float, typer.Option(help="Seconds after which --reranker leaves the engine's order.")
    ] = 1.0

    def reordering(self) -> ReorderingModel | None:
        """The reordering of the file; None for a model. Raises UsageError for both or neither."""
        if (self.model is None) == (self.reranker is None):
            raise UsageError("give one of --model NAME and --reranker FILE")
        if self.reranker is None:
            return None
        from owpc_ltr.models.reordering import ReorderingModel, load_ranker

        ranker = load_ranker(self.reranker)
        if not isinstance(ranker, ReorderingModel):
            raise BadInput(
                f"{self.reranker} is no reordering: upload it, and search with --model NAME"
            )
        return ranker

    def stored(self, engine: Engine, store: Store) -> StoredModel | None:
        """The model that the name points to; None for a reordering."""
        from owpc_ltr.engine.deployment.aliases import Aliases

        if self.model is None:
            return None
        return store.get_model(Aliases(engine).resolve(self.model))


@grouped
def search(
    keywords: Annotated[str, typer.Argument(help="What the user types.")],
    *,
    index: Index,
    ranking: Ranking,
    question: Question,
    title: Annotated[str | None, typer.Option(help="The field to show.")] = None,
    place: Place,
    as_json: Json = False,
) -> None:
    """Search twice, without and with the model or reranker, and show both rankings side by side."""
    from owpc_ltr.engine.search.compare import search as search_both
    from owpc_ltr.names import check_index

    check_index(index)
    reordering = ranking.reordering()
    engine, store = place.open()
    stored = ranking.stored(engine, store)
    asked: dict[str, Any] = {
        "engine": engine,
        "store": store,
        "index": index,
        "query": question.template(engine, index),
        "params": question.params(keywords),
        "size": question.size,
        "window": question.window,
    }
    both = search_both(**asked, model=stored, title=title)
    if reordering is not None:
        both = _reordered(both, title, reordering, ranking.deadline, asked)
    name = stored.name if stored else str(ranking.reranker)
    if as_json:
        by = "client" if reordering else both.scored_by
        print_json({"keywords": keywords, "model": name, **_summary(both), "scored_by": by})
    elif both.before:
        _print_both(both, name)
    else:
        typer.echo(f"nothing in '{index}' matches: {keywords}")


def _reordered(
    both: BeforeAndAfter,
    title: str | None,
    reordering: ReorderingModel,
    deadline: float,
    asked: Mapping[str, Any],
) -> BeforeAndAfter:
    """The same search, its window reordered here within the deadline."""
    from owpc_ltr.engine.search.client_rerank import live_search, prepare
    from owpc_ltr.engine.search.compare import reranked

    prepare(reordering)
    live = live_search(**asked, ranker=reordering, deadline=deadline)
    found = reranked(both, live.hits, live.took, title)
    return replace(found, reason=live.reason)


def _summary(both: BeforeAndAfter) -> dict[str, Any]:
    return {
        "reordered": not both.reason,
        "reason": both.reason or None,
        "before": [vars(hit) for hit in both.before],
        "after": [vars(hit) for hit in both.after],
        "took_before_ms": both.took_before,
        "took_after_ms": both.took_after,
    }


def _print_both(both: BeforeAndAfter, name: str) -> None:
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
    if both.reason:
        warn(f"this is the engine's own order: {both.reason}")


def _move(rank: int, hit: Hit) -> str:
    """How far a document has come: ▲3, ▼1, = or new."""
    if hit.other_rank is None:
        return "new"
    steps = hit.other_rank - rank
    return "=" if steps == 0 else f"▲{steps}" if steps > 0 else f"▼{-steps}"


def _short(title: str) -> str:
    return title if len(title) <= 40 else f"{title[:39]}…"
