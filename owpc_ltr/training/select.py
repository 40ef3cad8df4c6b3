"""`select`: losses, optimizers and settings compared over folds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import MaxFeatureNumber, Memory
from owpc_ltr.errors import UsageError, give_warnings
from owpc_ltr.host.commands import Plugins
from owpc_ltr.signatures import Argument, Help, Progress, Reads, Seed, Writes, job, silent
from owpc_ltr.training.options import (
    DEFAULT_LOSS,
    DEFAULT_NORMALISATION,
    DEFAULT_OPTIMIZER,
    FOLDS,
    REPORTED_METRICS,
    Dask,
    Grid,
    Normalise,
    Settings,
)

if TYPE_CHECKING:
    from owpc_ltr.data.partitioned import JudgedTable
    from owpc_ltr.training.cross_validation import Fold, Selection
    from owpc_ltr.training.fitting import WorkerPool


@job
def select(
    data: Annotated[
        JudgedTable | Path | str | Sequence[Path | str] | Sequence[Fold[Any]],
        Reads(
            "A dataset, to be cut into folds; or folders with train, vali and test.",
            cli=list[Path],
            project="data",
        ),
        Argument.DATA,
    ],
    *,
    folds: Annotated[int, Help("How many folds one dataset is cut into.", min=3)] = FOLDS,
    losses: Annotated[
        Sequence[Any],
        Help("A loss.", flag="--loss", cli=list[str], metavar="NAME"),
    ] = (DEFAULT_LOSS,),
    optimizers: Annotated[
        Sequence[Any],
        Help("An optimizer.", flag="--optimizer", cli=list[str], metavar="NAME"),
    ] = (DEFAULT_OPTIMIZER,),
    settings: Settings = None,
    grid: Grid = None,
    select_metric: Annotated[
        Any,
        Help(
            "Validation queries choose by this metric; default: the first of `metrics`.",
            metavar="METRIC",
            cli=str,
            panel="Model",
        ),
    ] = None,
    metrics: Annotated[
        Sequence[Any] | str,
        Help(
            f"What is measured on test queries, between commas; default: "
            f"{', '.join(REPORTED_METRICS)}.",
            flag="--metric",
            metavar="METRIC",
            cli=list[str],
        ),
    ] = REPORTED_METRICS,
    normalise: Normalise = DEFAULT_NORMALISATION,
    jobs: Annotated[int, Help("How many fits run side by side.", min=1, panel="Advanced")] = 1,
    journal: Annotated[
        Path | str | None,
        Writes(
            "A file for finished work: the same command resumes an interrupted run.",
            standard_output="`journal` keeps finished work for the next run: name a file, not -",
        ),
    ] = None,
    max_feature_number: MaxFeatureNumber = None,
    memory: Memory = None,
    dask: Dask = None,
    workers: Annotated[Any, "What `use_workers` returned, for fits by Dask workers."] = None,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> Selection:
    """Compare losses, optimizers and settings over folds.

    C is chosen on each fold's validation queries. Figures are means over folds of the folds' test
    means. The last row lets validation choose among everything (g_All of the OWPC paper, where only
    loss.generator varies).

    Python: `data` is also a list of folds (`owpc_ltr.training.cross_validation.Fold`). With
    `workers` (see `use_workers`) each path of fits over a folder of parts is one worker's, and as
    many are walked side by side as the workers have threads, whatever `jobs` is.
    """
    from itertools import product

    from owpc_ltr.evaluation.judged_data import unused_weights
    from owpc_ltr.host.registry import load
    from owpc_ltr.inspection.measures import constant_in_training
    from owpc_ltr.metrics import parse_metrics
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.cross_validation import Selection, choose, cross_validate, families_of
    from owpc_ltr.training.fitting import constant_in_all, workers_at
    from owpc_ltr.training.plan import model_plan

    registry = load(map(Path, plugins))
    measured = parse_metrics(metrics, registry)
    plans = [
        model_plan(
            loss,
            optimizer,
            settings,
            grid,
            metric=measured[0] if select_metric is None else select_metric,
            normalise=normalise,
            registry=registry,
        )
        for loss, optimizer in product(losses, optimizers)
    ]
    files = [data] if isinstance(data, Path | str) else data if isinstance(data, Sequence) else []
    with workers_at(dask, files, plugins) as started:
        workers = started if workers is None else workers
        cut = _folds(data, folds, workers, max_feature_number, memory)
        notes = [note for fold in cut for note in unused_weights(fold.test)]
        constant = constant_in_all([fold.training for fold in cut])
        give_warnings(dict.fromkeys([*notes, *constant_in_training(constant)]))
        rows = cross_validate(
            cut,
            plans,
            measured,
            Run(seed=seed, progress=progress),
            jobs=jobs if workers is None else workers.threads,
            journal=None if journal is None else Path(journal),
            workers=workers,
        )
    return Selection(
        tuple(fold.name for fold in cut),
        tuple(rows),
        tuple(choose(rows, plans[0].metric, families_of(rows))),
        str(plans[0].metric),
    )


def _folds(
    data: Any,
    folds: int,
    workers: WorkerPool | None,
    max_feature_number: int | None,
    memory: int | str | None,
) -> list[Any]:
    """The folds that the data are, or are cut into."""
    from owpc_ltr.data.partitioned import JudgedTable, PartitionedDataset
    from owpc_ltr.training.cross_validation import cut_folds, read_folds

    several = isinstance(data, Sequence) and data and isinstance(data[0], Path | str)
    if several or isinstance(data, Path | str):
        data = read_folds(data, max_feature_number=max_feature_number, memory=memory)
    if workers is not None and not isinstance(data, PartitionedDataset):
        raise UsageError("workers go through a folder of parts: make one with owpc-ltr partition")
    if workers is not None:
        data = workers.whole(data)
    return cut_folds(data, folds) if isinstance(data, JudgedTable) else list(data)
