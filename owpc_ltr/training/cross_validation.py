"""Cross-validation: plans compared over folds, settings chosen on each fold's validation.

Work is cut into paths: one fold and one combination of the settings other than C, along which C
grows and fits warm-start. Paths run side by side; finished ones are kept in a journal, so that an
interrupted selection goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.datasets import is_partitioned, open_or_read, read_dataset
from owpc_ltr.data.partitioned import JudgedTable, PartitionedDataset
from owpc_ltr.data.splits import fold_of_queries
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.output import Journal, output_file
from owpc_ltr.host.settings import values_of
from owpc_ltr.kernels.kernel import one_blas_thread
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Run
from owpc_ltr.signatures import public, silent
from owpc_ltr.text import ShortRepr
from owpc_ltr.training.fitting import (
    WorkerPool,
    check_trainable,
    fit_each,
    goes_through_parts,
    loaded_for,
)
from owpc_ltr.training.plan import C, Plan, levels_of, means_of, with_scales

D = TypeVar("D", RankingDataset, PartitionedDataset)


@dataclass(frozen=True, repr=False)
class Fold(ShortRepr, Generic[D]):
    """Queries to train on, to choose settings on, and to measure on; in memory or in parts."""

    name: str
    training: D
    validation: D
    test: D

    def __iter__(self) -> Iterator[D]:
        """Training, validation and test queries: `training, validation, test = fold`."""
        return iter((self.training, self.validation, self.test))


@dataclass(frozen=True, repr=False)
class FitRow(ShortRepr):
    """One fit: its fold, loss, optimizer and settings, and what it scores.

    `validation` is the value that chooses; `test` has the mean of each metric over the fold's
    test queries. Both weigh queries by their importance.
    """

    fold: str
    loss: str
    optimizer: str
    settings: dict[str, Any]
    validation: float
    test: dict[str, float]


@dataclass(frozen=True, repr=False)
class Choice(ShortRepr):
    """What validation chose in every fold for one family of settings, and how it does on test.

    `test` is the mean over folds of the folds' test means, as the LETOR results are reported.
    """

    name: str
    chosen: dict[str, dict[str, Any]]
    validation: float
    test: dict[str, float]


@dataclass(frozen=True, repr=False)
class Selection(BlockResult):
    """What was fitted over which folds, and what validation chose of it, by the metric `select`."""

    folds: tuple[str, ...]
    rows: tuple[FitRow, ...]
    choices: tuple[Choice, ...]
    select: str = "map"

    def as_dict(self) -> dict[str, Any]:
        """The choices and the fits as JSON."""
        return {
            "folds": list(self.folds),
            "select": self.select,
            "choices": [vars(choice) for choice in self.choices],
            "rows": [vars(row) for row in self.rows],
        }

    def _blocks(self) -> Iterator[Block]:
        """A row per choice; the settings that all of them share are told once, above."""
        words = [choice.name.split() for choice in self.choices if "=" in choice.name]
        shared = [word for word in words[0] if all(word in row for row in words)] if words else []
        rows: list[list[object]] = []
        for choice in self.choices:
            cs = dict.fromkeys(str(c.get(C, "–")) for c in choice.chosen.values())
            name = " ".join(word for word in choice.name.split() if word not in shared)
            rows.append([name, choice.validation, *choice.test.values(), ", ".join(cs)])
        how = f"chosen by {self.select} on validation queries; means over folds"
        yield "; ".join([*([" ".join(shared)] if shared else []), how])
        yield Table(["SETTINGS", "VALIDATION", *self.choices[0].test, "C"], rows)


def cut_folds(data: D, folds: int, salt: str = "owpc-ltr") -> list[Fold[D]]:
    """Folds by the hash of the query ids: fold k tests, fold k + 1 validates, the rest trains."""
    if folds < 3:
        raise BadInput(f"{folds} folds leave none to train on beside validation and test: use 3")
    fold = fold_of_queries(data, folds, salt)

    def cut(k: int, other: int) -> Fold[D]:
        sides = ((fold != k) & (fold != other), fold == other, fold == k)
        return Fold(f"fold {k + 1}", *(data.select(np.flatnonzero(side)) for side in sides))

    return [cut(k, (k + 1) % folds) for k in range(folds)]


@public
def read_folds(
    paths: Path | str | Sequence[Path | str],
    *,
    max_feature_number: int | None = None,
    memory: int | str | None = None,
) -> JudgedTable | list[Fold[RankingDataset]]:
    """One dataset; or the folds of folders that have a train, a vali and a test file each.

    One path is a dataset, or the folder of a single fold.

    Of a dataset that is a folder of parts, so many bytes may stay in `memory`.
    """
    folders = [Path(path) for path in ([paths] if isinstance(paths, Path | str) else paths)]
    if len(folders) == 1 and (is_partitioned(folders[0]) or not folders[0].is_dir()):
        return open_or_read(folders[0], memory=memory, max_feature_number=max_feature_number)
    folds = []
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(
                f"{folder} is not a folder: give one dataset, or a folder for each fold"
            )
        parts = [
            read_dataset(_part(folder, name), max_feature_number=max_feature_number)
            for name in ("train", "vali", "test")
        ]
        folds.append(Fold(folder.name, *parts))
    return folds


def cross_validate(
    folds: Sequence[Fold[Any]],
    plans: Sequence[Plan],
    metrics: Sequence[Metric],
    run: Run,
    *,
    jobs: int = 1,
    journal: Path | None = None,
    workers: WorkerPool | None = None,
) -> list[FitRow]:
    """Fit every candidate of every plan on every fold; rows in a fixed order.

    Paths are walked in this process, or by the `workers` (see `use_workers`); the journal is kept
    here.
    """
    for fold, plan in product(folds, plans):
        goes_through_parts(plan, fold.training, fold.validation)
    paths = [
        (fold, plan, path)
        for fold in folds
        for levels in [levels_of(fold.training)]
        for plan in [plan.for_labels(levels) for plan in plans]
        for path in _paths(plan).values()
    ]
    target = None if journal is None else output_file(journal)
    if journal is not None and target is None:
        raise UsageError("a journal keeps finished work for the next run: name a file, not -")
    finished = Journal(target)
    results: dict[int, list[FitRow]] = {}
    with one_blas_thread(), ThreadPoolExecutor(jobs) as pool:
        waiting = {}
        for number, (fold, plan, path) in enumerate(paths):
            key = _key(fold, plan, path, metrics, run)
            if key in finished.pieces:
                results[number] = [FitRow(**row) for row in finished.pieces[key].value]
                continue
            # Paths that run side by side would talk over each other.
            walk = partial(_walk, fold, plan, path, metrics, run=replace(run, progress=silent))
            future = pool.submit(walk) if workers is None else pool.submit(workers.call, walk)
            waiting[future] = number, key
        try:
            for future in as_completed(waiting):
                number, key = waiting[future]
                results[number] = future.result()
                finished.append(key, [vars(row) for row in results[number]])
                run.progress(f"{len(results)} of {len(paths)} paths", len(results) / len(paths))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            if workers is not None:
                workers.stop()
            raise
    return [row for number in range(len(paths)) for row in results[number]]


def choose(
    rows: Sequence[FitRow], metric: Metric, families: Mapping[str, Callable[[FitRow], bool]]
) -> list[Choice]:
    """For each family (a name, and which rows belong to it), the best row of each fold.

    Of equal ones the first is kept. Raises BadInput for a family without rows in some fold.
    """
    sign = 1.0 if metric.higher_is_better else -1.0
    folds = list(dict.fromkeys(row.fold for row in rows))
    choices = []
    for name, belongs in families.items():
        best: list[FitRow] = []
        for fold in folds:
            candidates = [row for row in rows if row.fold == fold and belongs(row)]
            if not candidates:
                raise BadInput(f"'{name}' has no candidates in {fold}")
            best.append(max(candidates, key=lambda row: sign * row.validation))
        choices.append(
            Choice(
                name,
                {row.fold: {"loss": row.loss, **row.settings} for row in best},
                float(np.mean([row.validation for row in best])),
                {key: float(np.mean([row.test[key] for row in best])) for key in best[0].test},
            )
        )
    return choices


def families_of(rows: Sequence[FitRow]) -> dict[str, Callable[[FitRow], bool]]:
    """Every loss, optimizer and combination of settings but C; and, of several, all together."""
    families: dict[str, Callable[[FitRow], bool]] = {
        name: lambda row, name=name: family_name(row) == name  # type: ignore[misc]
        for name in dict.fromkeys(map(family_name, rows))
    }
    if len(families) > 1:
        families["all of them, by validation"] = lambda _: True
    return families


def family_name(row: FitRow) -> str:
    """A row's loss, optimizer and settings but C, as a name."""
    settings = [f"{name}={value}" for name, value in row.settings.items() if name != C]
    return " ".join([row.loss, row.optimizer, *settings])


def _part(folder: Path, name: str) -> Path:
    files = sorted(path for path in folder.iterdir() if path.name.partition(".")[0] == name)
    if len(files) != 1:
        raise BadInput(f"{folder} needs one file {name}.txt (or .parquet, .gz, .xz)")
    return files[0]


def _paths(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Candidates of a plan, grouped by everything but C."""
    paths: dict[str, list[dict[str, Any]]] = {}
    for candidate in plan.candidates():
        rest = {name: value for name, value in candidate.items() if name != C}
        paths.setdefault(json.dumps(rest, sort_keys=True, default=str), []).append(candidate)
    return paths


def _walk(
    fold: Fold[Any], plan: Plan, path: list[dict[str, Any]], metrics: Sequence[Metric], run: Run
) -> list[FitRow]:
    """Fit along growing C, each fit starting from the one before."""
    data, validation = loaded_for(plan, fold.training, fold.validation)
    check_trainable(data)
    data = with_scales(data, plan.normalise)
    run = replace(run, validation=validation, metric=plan.metric)
    rows: list[FitRow] = []
    for settings, (loss, optimizer), fit, value in fit_each(plan, path, data, run):
        means = dict(zip(map(str, metrics), means_of(metrics, fit.model, fold.test), strict=True))
        names = fold.name, loss.name, optimizer.name
        rows.append(FitRow(*names, settings=dict(settings), validation=value, test=means))
    if isinstance(data, PartitionedDataset):
        # The next path is usually of other queries.
        data.files.cache.release()
    return rows


def _key(
    fold: Fold[Any],
    plan: Plan,
    path: list[dict[str, Any]],
    metrics: Sequence[Metric],
    run: Run,
) -> str:
    """Everything that decides a path's rows."""
    loss, optimizer = plan.make(path[0])
    parts = [
        [part.fingerprint for part in (fold.training, fold.validation, fold.test)],
        [fold.name, loss.name, optimizer.name, values_of(loss), values_of(optimizer)],
        [path, plan.metric, plan.normalise, list(metrics), run.seed],
    ]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
