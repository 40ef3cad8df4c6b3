"""`owpc-ltr judge`: what to judge next, judgments from clicks, and in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.files import Reads, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.live import LiveQuery, LiveWindow
from owpc_ltr.cli.options import ExtraFeatures, Index, Json, Params, Report, Seed
from owpc_ltr.cli.output import print_json, progress
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.host.report import write_report

app = typer.Typer(help="What to judge next; judgments from clicks, in other formats.")


@app.callback()
def judge() -> None:
    """What to judge next; judgments from clicks, in other formats."""


@app.command("pool")
@grouped
def pool(
    *,
    index: Index = None,
    queries: Annotated[
        Path,
        Reads(),
        typer.Option(help="Queries: a table with a column `query`, a line each, or a dataset."),
    ],
    rankers: Annotated[
        str,
        typer.Option(
            help="Whose lists are judged: query (--query alone), QUERY.json, MODEL.json, uploaded "
            "names, TREC runs; between commas."
        ),
    ],
    out: Annotated[Path, Writes(), typer.Option(help="The sheet to fill in (CSV).")],
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, help="Draw so many queries, of those that none of the models was trained with."
        ),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="How many of each ranker's documents.")] = 20,
    fields: Annotated[
        str, typer.Option(help="What to show of a document: fields, between commas.")
    ] = "",
    judged: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="Judgments that there are: what they have is left out."),
    ] = None,
    query: LiveQuery = None,
    window: LiveWindow = DEFAULT_WINDOW,
    param: Params = None,
    in_flight: Annotated[int, typer.Option(help="Searches under way at the same time.")] = 4,
    extra_features: ExtraFeatures = None,
    featureset: Annotated[
        str | None, typer.Option(help="A model file's feature set; default: found by hash.")
    ] = None,
    report: Report = None,
    seed: Seed = 0,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Write a sheet of the documents that rankers bring to the top.

    Its grades are for people to fill in.

    A document stands there once for a query, in an order that tells nothing, without its rank or
    ranker. Once its `grade` column is filled, log-features reads it; --query is what uploaded names
    rescore.
    """
    from owpc_ltr.features.parameters import named_params

    with progress() as show:
        found = place.connect().pool(
            queries, _listed(rankers), out, index=index, depth=depth, fields=_listed(fields),
            judged=judged, query=query, params=named_params(param or ()), window=window,
            in_flight=in_flight, seed=seed, extra_features=extra_features, sample=sample,
            featureset=featureset,
            progress=show,
        )  # fmt: skip
    write_report(found, report)
    counts = {
        "queries": len(found.queries), "documents": found.n_documents,
        "already_judged": found.judged, "absent": found.absent,
    }  # fmt: skip
    if as_json:
        print_json({"sheet": str(out), **counts})
        return
    typer.echo(
        f"wrote {out}: {found.n_documents:,} documents of {len(found.queries):,} queries to grade; "
        f"{found.judged:,} left out that are judged already, {found.absent:,} that are not in the "
        "index"
    )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
