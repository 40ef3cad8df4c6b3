"""`owpc-ltr select`: losses, optimizers and settings compared over folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Grid, Json, Metrics, PluginFiles, Seed, Settings
from owpc_ltr.cli.output import print_json, print_table, progress
from owpc_ltr.cli.plans import Choosing
from owpc_ltr.errors import BadInput, UsageError

if TYPE_CHECKING:
    from owpc_ltr.training.cross_validation import Choice, Fold
    from owpc_ltr.training.train import Plan


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

    def plans(self, normalise: str, plugins: Sequence[Path]) -> list[Plan]:
        """A plan for each loss with each optimizer."""
        from owpc_ltr.host import registry as registries

        registry = registries.load(plugins)
        choosing = Choosing(self.setting or (), self.grid or (), self.select)
        return [
            choosing.model_plan(registry, loss, optimizer, normalise)
            for loss, optimizer in product(self.loss or ["owpc"], self.optimizer or ["larank"])
        ]


@grouped
def select(
    data: Annotated[
        list[Path],
        typer.Argument(help="A dataset, to be cut into folds; or folders with train, vali, test."),
    ],
    *,
    folds: Annotated[int, typer.Option(min=3, help="How many folds one dataset is cut into.")] = 5,
    candidates: Candidates,
    metric: Metrics = None,
    normalise: Annotated[str, typer.Option(help="scale or none.")] = "scale",
    jobs: Annotated[int, typer.Option(min=1, help="How many fits run side by side.")] = 1,
    journal: Annotated[
        Path | None, typer.Option(help="Keeps finished work, so that a stopped run goes on.")
    ] = None,
    seed: Seed = 0,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Compare losses, optimizers and settings over folds, C chosen on each fold's validation.

    Figures are means over folds of the folds' test means. The last row lets validation choose
    among everything (the paper's g_All, where only loss.generator varies).
    """
    _check_data(data)
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.cross_validation import choose, families_of
    from owpc_ltr.training.cross_validation import select as select_over_folds

    metrics = metric or ["map", "ndcg@1", "ndcg@3", "ndcg@10"]
    plans = candidates.plans(normalise, plugin or ())
    cut = _folds(data, folds)
    with progress() as show:
        run = Run(seed=seed, progress=show)
        rows = select_over_folds(cut, plans, metrics, run, jobs=jobs, journal=journal)
    choices = choose(rows, candidates.select, families_of(rows))
    if as_json:
        how = {"folds": [fold.name for fold in cut], "select": candidates.select}
        found = {
            "choices": [vars(choice) for choice in choices],
            "rows": [vars(row) for row in rows],
        }
        print_json({**how, **found})
    else:
        _print(choices, candidates.select)


def _check_data(paths: list[Path]) -> None:
    """Refuse, before any work, a dataset that is not there, and a fold that is no folder."""
    if len(paths) == 1:
        Reads().check(paths)
        return
    for folder in paths:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder: give one dataset, or a folder for each fold")


def _folds(paths: list[Path], count: int) -> list[Fold]:
    from owpc_ltr.data.parquet import read_dataset
    from owpc_ltr.training.cross_validation import Fold, cut_folds

    if len(paths) == 1 and not paths[0].is_dir():
        return cut_folds(read_dataset(paths[0]), count)
    folds = []
    for folder in paths:
        parts = [read_dataset(_part(folder, name)) for name in ("train", "vali", "test")]
        folds.append(Fold(folder.name, *parts))
    return folds


def _part(folder: Path, name: str) -> Path:
    found = sorted(path for path in folder.iterdir() if path.name.partition(".")[0] == name)
    if len(found) != 1:
        raise BadInput(f"{folder} needs one file {name}.txt (or .parquet, .gz, .xz)")
    return found[0]


def _print(choices: list[Choice], select: str) -> None:
    headers = ["SETTINGS", f"VALIDATION {select}", *(f"TEST {m}" for m in choices[0].test), "C"]
    rows: list[list[Any]] = []
    for choice in choices:
        cs = dict.fromkeys(str(c.get("optimizer.C", "–")) for c in choice.chosen.values())
        rows.append([choice.name, choice.validation, *choice.test.values(), ", ".join(cs)])
    print_table(headers, rows)
