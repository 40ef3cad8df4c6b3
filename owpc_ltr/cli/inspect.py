"""`owpc-ltr inspect`: a doctor for data: what is in them, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, MaxFeatures, Memory, Report, Seed
from owpc_ltr.cli.output import print_json, print_table, print_wrapped, progress
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.shown import printable

if TYPE_CHECKING:
    from owpc_ltr.api.results import FeatureRow, Inspection

_ROWS = 12
"""Features that are shown where not all are asked for."""
_HEADERS = ("feature", "missing", "lowest", "median", "highest", "alone", "found")


@grouped
def inspect(
    data: Annotated[
        list[Path],
        Reads(),
        typer.Argument(
            help="Parquet, LETOR text, or a folder of parts; several are sides of a split."
        ),
    ],
    *,
    features: Annotated[
        bool, typer.Option("--features", help=f"Show all features, not the first {_ROWS}.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 5 if there is a warning.")
    ] = False,
    learning_curve: Annotated[
        bool,
        typer.Option(
            "--learning-curve", help="How many judgments are enough, however long it takes."
        ),
    ] = False,
    no_training: Annotated[
        bool, typer.Option("--no-training", help="No trial with shuffled labels, and no curve.")
    ] = False,
    report: Report = None,
    max_features: MaxFeatures = None,
    memory: Memory = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Look for faults in data before anything is learned of them.

    Findings come worst first, each with what to do: warnings for what does harm, notes for what
    should be known. Every row is looked at; values are compared on a sample of whole queries.
    The default is trained on true and on shuffled labels, and on shares of the queries, which tells
    what more judgments would give: by default where that takes about 10 seconds at most.
    """
    from owpc_ltr.api.inspecting import inspect as inspect_data
    from owpc_ltr.api.partitions import room_from

    if no_training and learning_curve:
        raise UsageError("a learning curve is made by training: leave out --no-training")
    with progress() as show:
        found = inspect_data(
            data,
            training=not no_training,
            learning_curve=True if learning_curve else None,
            max_features=max_features,
            memory=room_from(memory),
            seed=seed,
            progress=show,
        )
    if report is not None:
        from owpc_ltr_report.report import report as write_page

        write_page(found, out=report)
    if as_json:
        print_json(found.as_dict())
    else:
        _print(found, everything=features)
    if strict and found.warnings:
        count = len(found.warnings)
        several = "1 warning" if count == 1 else f"{count} warnings, the worst"
        raise Refused(f"{several}: {found.warnings[0].line}")


def _print(found: Inspection, *, everything: bool) -> None:
    from owpc_ltr.api.results import inspection_figures, inspection_trials

    typer.echo(printable(", ".join(found.data.names)))
    for name, value in inspection_figures(found.data):
        typer.echo(f"  {name:<17} {value}")
    typer.echo("")
    _print_features(found, everything=everything)
    typer.echo("")
    for one in found.findings:
        print_wrapped(f"{one.severity}: {one.line}")
    if not found.findings:
        typer.echo("nothing was found")
    for line in inspection_trials(found.canary, found.learning_curve):
        print_wrapped(line)


def _print_features(found: Inspection, *, everything: bool) -> None:
    """The features that findings name stand first."""
    ranked = sorted(found.features, key=lambda row: not row.checks)
    shown = found.features if everything else ranked[:_ROWS]
    print_table(_HEADERS, [_cells(row) for row in shown])
    if len(shown) < len(found.features):
        typer.echo(f"and {len(found.features) - len(shown)} more: --features shows all")


def _cells(row: FeatureRow) -> list[str]:
    numbers = (row.lowest, row.quartiles[1], row.highest)
    return [
        row.name,
        f"{row.missing:.1%}",
        *(f"{number:.4g}" for number in numbers),
        f"{row.alone:.2f}",
        ", ".join(row.checks),
    ]
