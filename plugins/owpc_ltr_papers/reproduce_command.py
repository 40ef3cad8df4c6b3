"""`owpc-ltr reproduce`: a paper's figures beside ours, on your own copy of LETOR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import PluginFiles, Seed, Threads
from owpc_ltr.cli.output import print_table, progress
from owpc_ltr.cli.streams import results
from owpc_ltr.errors import Stopped, UsageError

if TYPE_CHECKING:
    from owpc_ltr.api.results import Reproduction, ReproductionRow

Paper = Literal["owpc2009", "inex2009", "lambdarank", "exchangeable2014"]
Format = Literal["table", "markdown", "csv", "json", "latex"]
_COLUMNS = ("method", "published", "ours", "difference", "95 %", "queries")


@grouped
def reproduce(
    protocol: Annotated[Paper, typer.Argument(help="Which paper's experiments.")],
    *,
    letor: Annotated[
        Path,
        Reads("{path} is no folder: name the one that holds LETOR's data sets"),
        typer.Option(help="The folder with LETOR's data sets: Fold1/train.txt, or S1.txt to S5."),
    ],
    data_set: Annotated[
        list[str] | None,
        typer.Option(help="Only this data set, as OHSUMED; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for finished work and the table in every format."),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Format, typer.Option(help="How the table is printed.")
    ] = "table",
    quick: Annotated[
        bool, typer.Option("--quick", help="A small part of the protocol, and called so.")
    ] = False,
    with_ranklib: Annotated[
        bool,
        typer.Option("--with-ranklib", help="Download RankLib once, and run it as the paper did."),
    ] = False,
    threads: Threads = 1,
    seed: Seed = 0,
    plugin: PluginFiles = None,
) -> None:
    """Run a paper's protocol on your LETOR folder.

    Each published figure stands beside ours, with the difference and an interval. What the folder
    lacks is named; what is made of a part of a data set is called so, and compared with nothing.
    With --out a stopped run goes on where it was.
    """
    from owpc_ltr_papers.reproducing import reproduce as run

    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file: name a folder")
    with progress() as show, _telling_what_is_lost(out):
        found = run(
            protocol,
            letor,
            out=out,
            data_sets=data_set or (),
            quick=quick,
            with_ranklib=with_ranklib,
            seed=seed,
            threads=threads,
            plugins=plugin or (),
            progress=show,
            say=lambda line: typer.echo(line, err=True),
        )
    if format == "table":
        _print(found)
    else:
        typer.echo(found.to_text(format), nl=False, file=results())
    if found.stale:
        typer.echo(
            f"{found.stale} results in {out} were of other data, another version or another base, "
            "or damaged: done again",
            err=True,
        )
    if out is not None:
        typer.echo(f"written to {out}: results.json, .csv, .md, .tex and .html", err=True)


@contextmanager
def _telling_what_is_lost(out: Path | None) -> Iterator[None]:
    """A stop without a folder keeps nothing, unlike those of other commands."""
    try:
        yield
    except Stopped:
        if out is None:
            typer.echo("nothing of it is kept: with --out FOLDER it would be", err=True)
        raise


def _print(found: Reproduction) -> None:
    """A table for each data set and metric, what differs from another row below it, then notes."""
    groups: dict[tuple[str, str], list[ReproductionRow]] = {}
    for row in found.rows:
        groups.setdefault((row.data_set, row.metric), []).append(row)
    for (data_set, metric), rows in groups.items():
        typer.echo(f"\n{data_set}, {metric}")
        print_table(
            ["METHOD", "PUBLISHED", "OURS", "DIFFERENCE", "95 %", "QUERIES"],
            [found.cells(row, _COLUMNS) for row in rows],
        )
        compared = [row for row in rows if row.gain is not None]
        if compared:
            typer.echo("")
            print_table(
                ["METHOD", "AGAINST", "GAIN [95 %], P"],
                [found.cells(row, ("method", "against", "gain [95 %], p")) for row in compared],
            )
    typer.echo("")
    for line in (*_remarks(found.rows), *found.notes, *found.citations):
        typer.echo(f"- {line}")


def _remarks(rows: Sequence[ReproductionRow]) -> Iterator[str]:
    """What is noted of rows, each once."""
    methods: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        if row.note not in {"", "quick"}:
            note = row.note.removeprefix("quick; ")
            methods.setdefault((row.data_set, note), {})[row.method] = None
    for (data_set, note), names in methods.items():
        yield f"{data_set}, {', '.join(names)}: {note}"
