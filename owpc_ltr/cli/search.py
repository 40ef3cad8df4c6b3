"""`owpc-ltr search`: a model at work, beside the ranking without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.files import Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import ExtraFeatures, Index, Json, PluginFiles, Reordering, UploadedModel
from owpc_ltr.cli.output import print_json, print_table, warn
from owpc_ltr.cli.queries import Question
from owpc_ltr.errors import UsageError
from owpc_ltr.plain_text import columns

if TYPE_CHECKING:
    from owpc_ltr.api.results import BeforeAndAfter, Hit


@dataclass(frozen=True)
class Ranking:
    """What reorders the engine's results: a stored model, or a reordering in a file."""

    model: UploadedModel = None
    reranker: Reordering = None
    deadline: Annotated[
        float, typer.Option(help="Seconds after which --reranker leaves the engine's order.")
    ] = 1.0
    plugin: PluginFiles = None

    def chosen(self) -> dict[str, Any]:
        """What ranks, as a search takes it. Raises UsageError for both."""
        from owpc_ltr.models.reordering import load_reordering

        if self.reranker is None:
            return {"model": self.model}
        if self.model is not None:
            raise UsageError("give one of --model NAME and --reranker FILE")
        return {
            "reranker": load_reordering(self.reranker, self.plugin or ()),
            "deadline": self.deadline,
        }


@grouped
def search(
    keywords: Annotated[str, typer.Argument(help="What the user types.")],
    *,
    index: Index = None,
    ranking: Ranking,
    question: Question,
    extra_features: ExtraFeatures = None,
    title: Annotated[str | None, typer.Option(help="The field to show.")] = None,
    run: Annotated[
        Path | None,
        Writes(needs_folder=False),
        typer.Option(help="Also write the model's ranking as a TREC run, to this file."),
    ] = None,
    query_id: Annotated[
        str | None,
        typer.Option(help="What --run calls the query (default: 1), and tables by query_id."),
    ] = None,
    explained: Annotated[
        bool, typer.Option("--explain", help="Show below each hit what adds most to its score.")
    ] = False,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Search without and with a model, both rankings side by side."""
    cluster, chosen = place.connect(), ranking.chosen()
    asked: dict[str, Any] = {
        "index": index,
        "title": title,
        "extra_features": extra_features,
        "query_id": query_id,
    }
    asked |= question.asked()
    both = cluster.search(keywords, **chosen, **asked)
    if run is not None:
        from owpc_ltr.data.runs import write_ranking

        write_ranking(query_id or "1", [(hit.document_id, hit.score) for hit in both.after], run)
    name = both.model or str(ranking.reranker)
    explanation = None
    if explained:
        ranked = {key: part for key, part in chosen.items() if key != "deadline"}
        explanation = cluster.explain(
            keywords, **ranked, index=index, title_field=title, extra_features=extra_features or (),
            query_id=query_id, query_template=asked["query"], params=asked["params"],
            size=asked["size"], window=asked["window"],
        )  # fmt: skip
    if as_json:
        told = {} if explanation is None else {"explanation": explanation.as_dict()}
        print_json({"keywords": keywords, "model": name, **_summary(both), **told})
    elif explanation is not None and explanation.hits:
        typer.echo(str(explanation))
        _print_times(both)
    elif both.before:
        _print_both(both, name)
    else:
        typer.echo(f"nothing in '{both.index}' matches: {keywords}")


def _summary(both: BeforeAndAfter) -> dict[str, Any]:
    return {
        "reordered": not both.reason,
        "reason": both.reason or None,
        "before": [vars(hit) for hit in both.before],
        "after": [vars(hit) for hit in both.after],
        "took_before_ms": both.took_before,
        "took_after_ms": both.took_after,
        "scored_by": both.scored_by,
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
    _print_times(both)


def _print_times(both: BeforeAndAfter) -> None:
    typer.echo(f"\nthe engine took {both.took_before} ms, with the model {both.took_after} ms")
    if both.form:
        typer.echo(f"the engine scored the window: {both.form}")
    if both.scored_by == "client":
        typer.echo("the client scored the window")
    if both.reason:
        warn(f"this is the engine's own order: {both.reason}")


def _move(rank: int, hit: Hit) -> str:
    """How far a document has come: ▲3, ▼1, = or new."""
    if hit.other_rank is None:
        return "new"
    steps = hit.other_rank - rank
    return "=" if steps == 0 else f"▲{steps}" if steps > 0 else f"▼{-steps}"


def _short(title: str) -> str:
    # Two titles, a rank, a move and a score share a line.
    most = min(40, (columns() - 24) // 2)
    return title if len(title) <= most else f"{title[: most - 1]}…"
