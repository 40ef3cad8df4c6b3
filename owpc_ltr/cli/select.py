"""`owpc-ltr select`: losses, optimizers and settings compared over folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import MAYBE_A_FILE, Reads, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import (
    Cluster,
    Grid,
    Json,
    Latex,
    MaxFeatures,
    Memory,
    Metrics,
    PluginFiles,
    Report,
    Seed,
    Settings,
)
from owpc_ltr.cli.output import print_json, print_table, progress
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.api.results import Choice


@dataclass(frozen=True)
class Candidates:
    """What is compared, and what chooses among the settings of each."""

    loss: Annotated[list[str] | None, typer.Option(help="A loss; may be repeated.")] = None
    optimizer: Annotated[list[str] | None, typer.Option(help="An optimizer; may be repeated.")] = (
        None
    )
    setting: Settings = None
    grid: Grid = None
    select: Annotated[str, typer.Option(help="The metric by which validation chooses.")] = "map"

    def asked(self) -> dict[str, Any]:
        """What is compared, as `select` takes it."""
        from owpc_ltr.api.plugins import named_grids, named_settings

        return {
            "losses": self.loss or ["owpc"],
            "optimizers": self.optimizer or ["larank"],
            "settings": named_settings(self.setting or ()),
            "grid": named_grids(self.grid or ()),
            "select": self.select,
        }


@grouped
def select(
    data: Annotated[
        list[Path],
        MAYBE_A_FILE,
        typer.Argument(help="A dataset, to be cut into folds; or folders with train, vali, test."),
    ],
    *,
    folds: Annotated[int, typer.Option(min=3, help="How many folds one dataset is cut into.")] = 5,
    candidates: Candidates,
    metric: Metrics = None,
    normalise: Annotated[str, typer.Option(help="scale or none.")] = "scale",
    jobs: Annotated[int, typer.Option(min=1, help="How many fits run side by side.")] = 1,
    journal: Annotated[
        Path | None,
        Writes(
            standard_output="--journal keeps finished work for the next run: name a file, not -"
        ),
        typer.Option(help="Keeps finished work, so that a stopped run goes on."),
    ] = None,
    max_features: MaxFeatures = None,
    memory: Memory = None,
    cluster: Cluster = None,
    report: Report = None,
    latex: Latex = None,
    seed: Seed = 0,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Compare losses, optimizers and settings over folds.

    C is chosen on each fold's validation queries.

    Figures are means over folds of the folds' test means. The last row lets validation choose
    among everything (the paper's g_All, where only loss.generator varies).
    """
    _check_data(data)
    from owpc_ltr_dask.use_workers import check_in_parts, workers_if_asked

    from owpc_ltr.api.datasets import read_folds
    from owpc_ltr.api.partitions import room_from
    from owpc_ltr.api.training import select as select_over_folds

    room = room_from(memory)
    if cluster is not None:
        for one in data:
            check_in_parts(one)
    with progress() as show, workers_if_asked(cluster, plugin or ()) as workers:
        found = select_over_folds(
            read_folds(data, max_features=max_features, memory=room),
            folds=folds,
            metrics=metric or ["map", "ndcg@1", "ndcg@3", "ndcg@10"],
            normalise=normalise,
            jobs=jobs,
            journal=journal,
            workers=workers,
            seed=seed,
            plugins=plugin or (),
            progress=show,
            **candidates.asked(),
        )
    if report is not None:
        from owpc_ltr_report.report import report as write_page

        write_page(found, out=report)
    if latex is not None:
        from owpc_ltr.api.comparison_files import write_latex

        write_latex(found, latex)
    if as_json:
        how = {"folds": list(found.folds), "select": candidates.select}
        choices = [vars(choice) for choice in found.choices]
        print_json({**how, "choices": choices, "rows": [vars(row) for row in found.rows]})
    else:
        _print(found.choices, candidates.select)


def _check_data(paths: list[Path]) -> None:
    """Refuse, before any work, a dataset that is not there, and a fold that is no folder."""
    if len(paths) == 1:
        Reads().check(paths)
        return
    for folder in paths:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder: give one dataset, or a folder for each fold")


def _print(choices: Sequence[Choice], select: str) -> None:
    """A row a choice; what all of them share of their settings is told once, above."""
    words = [choice.name.split() for choice in choices if "=" in choice.name]
    shared = [word for word in words[0] if all(word in row for row in words)] if words else []
    typer.echo(f"{' '.join(shared)}; chosen by {select} on validation queries; means over folds")
    rows: list[list[Any]] = []
    for choice in choices:
        cs = dict.fromkeys(str(c.get("optimizer.C", "–")) for c in choice.chosen.values())
        name = " ".join(word for word in choice.name.split() if word not in shared)
        rows.append([name, choice.validation, *choice.test.values(), ", ".join(cs)])
    print_table(["SETTINGS", "VALIDATION", *choices[0].test, "C"], rows)
