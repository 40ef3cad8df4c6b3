"""The data of a training job: read, split, brought to where fits go through them, and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow.compute as pc

from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import check_same_features
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.datasets import dataset_of, is_partitioned
from owpc_ltr.data.options import judgment_list, row_number
from owpc_ltr.data.partitioned import JudgedTable, PartitionedDataset, in_memory
from owpc_ltr.data.splits import DatasetSplits, HashSplit, split_queries, with_validation
from owpc_ltr.errors import Refused, UsageError, give_warnings
from owpc_ltr.host.commands import plugin_answer
from owpc_ltr.inspection.measures import (
    ColumnFacts,
    column_facts,
    constant_features,
    facts_together,
)
from owpc_ltr.protocols import Loss, Optimizer, StreamingOptimizer
from owpc_ltr.training.plan import Plan, levels_of

R = TypeVar("R")
Readable = JudgedTable | Path | str


class WorkerPool(Protocol):
    """Workers of a plugin, who go through a folder of parts."""

    @property
    def threads(self) -> int:
        """The number of calls that they run in parallel."""

    def parts(self, data: PartitionedDataset) -> PartitionedDataset:
        """The same dataset, with the workers computing on its parts."""

    def whole(self, data: PartitionedDataset) -> PartitionedDataset:
        """The same dataset, for calls on single workers."""

    def call(self, call: Callable[[], R]) -> R:
        """The result of a call on any free worker; threads may call it in parallel."""

    def stop(self) -> None:
        """Stop the calls of other threads."""


@dataclass(frozen=True, eq=False)
class TrainingQueries:
    """The queries to train on and to choose settings on, and what a record says of their source.

    `splits` are the sides as they were read. `source` is None for data without a name, of which a
    record says what they know.
    """

    splits: DatasetSplits[Any]
    training: JudgedTable
    validation: JudgedTable | None
    source: Mapping[str, Any] | None

    def in_memory(self, why: str) -> TrainingQueries:
        """The same in memory, which `why` needs. Raises UsageError where they do not fit."""
        validation = None if self.validation is None else self.validation.load()
        return replace(self, training=in_memory(self.training, why), validation=validation)

    def fit_for(self, plan: Plan, workers: WorkerPool | None = None) -> TrainingQueries:
        """The same, where the fits of a plan go through them: by the workers, or as `loaded_for`.

        Raises UsageError, before any part is read, where these cannot.
        """
        training, validation = self.training, self.validation
        if workers is not None:
            training = _by_workers(training, workers)
            validation = None if validation is None else _by_workers(validation, workers)
        training, validation = loaded_for(plan, training, validation)
        return replace(self, training=training, validation=validation)


def read_training_queries(
    data: Readable,
    validation: Readable | None,
    shares: tuple[float, float],
    *,
    memory: int | str | None = None,
    max_feature_number: int | None = None,
    source: Mapping[str, Any] | None = None,
) -> TrainingQueries:
    """The queries to train on and to choose settings on, of files or of what was read before.

    Without validation queries the data are split by `shares` (validation, test), unless they are
    one side of a split already. A record says of the source what is known here, unless `source`
    says it.
    """

    def read(file: Readable) -> tuple[Any, str | None]:
        opened = dataset_of(file, memory=memory, max_feature_number=max_feature_number)
        if isinstance(opened, list | tuple):
            raise UsageError("train takes one dataset: read several files as one by read_dataset")
        if not hasattr(opened, "n_features"):
            raise UsageError(judgment_list("these are judgments, which have no features:"))
        return opened, Path(file).name if isinstance(file, Path | str) else None

    whole, name = read(data)
    if validation is not None:
        chosen_on, other = read(validation)
        check_same_features(whole, name or "the data", chosen_on, other or "the validation data")
        give_warnings(_shared_queries(whole, chosen_on))
        splits = with_validation(whole, chosen_on, name, other)
    elif whole.origin is not None:
        splits = DatasetSplits(whole, {"train": whole}, {})
    else:
        splits = split_queries(whole, HashSplit(*shares), name, ("train", "validation"))
    if source is None and name is not None and splits.source:
        source = splits.source
    return TrainingQueries(splits, splits.training, splits.optional_validation, source)


def _by_workers(data: JudgedTable, workers: WorkerPool) -> JudgedTable:
    """The data, gone through by the workers where they have parts."""
    return workers.parts(data) if isinstance(data, PartitionedDataset) else data


def _shared_queries(training: JudgedTable, validation: JudgedTable) -> list[str]:
    """Where queries of both have one id and the same first document: other files reuse ids."""
    if not (isinstance(training, RankingDataset) and isinstance(validation, RankingDataset)):
        return []
    places = pc.index_in(validation.query_ids, training.query_ids)
    one = training.features[training.offsets[places.drop_null().to_numpy()]]
    other = validation.features[validation.offsets[np.flatnonzero(places.is_valid())]]
    shared = int(((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1).sum())
    if not shared:
        return []
    return [
        f"{shared:,} of {validation.n_queries:,} validation queries are in the training data: "
        "settings are then chosen on what was learned; give other queries"
    ]


@contextmanager
def workers_at(
    place: str | None, data: Sequence[Any], plugins: Sequence[Path | str] = ()
) -> Iterator[WorkerPool | None]:
    """Workers of the plugin that offers some, while the block lasts; None where no place is given.

    Raises UsageError, before any is started, for a file among the `data`: workers go through
    folders of parts.
    """
    if place is None:
        yield None
        return
    for source in data:
        if isinstance(source, Path | str) and not is_partitioned(Path(source)):
            raise UsageError(
                f"workers go through a folder of parts, and {source} is none: make one with "
                f"`partition('{source}', out=FOLDER)`"
            )
    use_workers = plugin_answer("ltr_workers")
    if use_workers is None:
        raise UsageError("no plugin offers workers: leave out `dask`")
    with use_workers(place, plugins=plugins) as workers:
        yield workers


def check_choosable(candidates: int, validation: JudgedTable | None) -> None:
    """Refuse several candidates with nothing to choose them by."""
    if candidates > 1 and validation is None:
        raise UsageError(
            f"{candidates} candidates need validation queries to choose among: give "
            f"`validation` or a share, or fix the settings with "
            f"`settings`"
        )


def loaded_for(
    plan: Plan, data: JudgedTable, validation: JudgedTable | None
) -> tuple[JudgedTable, JudgedTable | None]:
    """The data and validation queries, loaded where a fit of the plan does not go through parts.

    Raises UsageError as `goes_through_parts` does.
    """
    if goes_through_parts(plan, data, validation):
        return data, validation
    return data.load(), None if validation is None else validation.load()


_BY_PARTS = "bundle, larank, gradient and boosting"


def goes_through_parts(plan: Plan, data: JudgedTable, validation: JudgedTable | None) -> bool:
    """Whether all that is planned goes through the data part by part; False where it loads them.

    Raises UsageError, before any part is read, where they do not fit in memory, naming what goes
    through parts; and where there is nothing to choose candidates by.
    """
    pairs = [plan.make(settings) for settings in plan.candidates()]
    check_choosable(len(pairs), validation)
    if isinstance(data, RankingDataset):
        return False
    why = _why_not(plan, pairs)
    if why is None:
        return True
    parts = [part for part in (data, validation) if isinstance(part, PartitionedDataset)]
    needed = sum(part.nbytes for part in parts)
    if needed > data.memory:
        raise UsageError(
            f"{why} needs its data in memory, and these take {needed / 2**20:,.1f} MiB, more than "
            f"the {data.memory / 2**20:,.1f} MiB of `memory`: give it more, or use {_BY_PARTS}, "
            "which go through parts"
        )
    return False


def _why_not(plan: Plan, pairs: Sequence[tuple[Loss, Optimizer]]) -> str | None:
    """What needs all data at once; None where nothing does."""
    if plan.piecewise_linear:
        return "a piecewise-linear model"
    for loss, optimizer in pairs:
        if not isinstance(optimizer, StreamingOptimizer):
            return f"optimizer '{optimizer.name}'"
        if not optimizer.streams(loss):
            return f"optimizer '{optimizer.name}' with loss '{loss.name}' and these settings"
    return None


@dataclass(frozen=True, eq=False)
class Facts:
    """Of each column its values; the lowest labels; whether labels differ within any query."""

    columns: ColumnFacts
    levels: Vector
    ordered: bool

    @property
    def ranges(self) -> list[list[float]]:
        """The smallest and the largest value of each feature, a missing one being 0."""
        gaps = self.columns.missing > 0
        low = np.where(gaps, np.fmin(self.columns.lowest, 0), self.columns.lowest)
        high = np.where(gaps, np.fmax(self.columns.highest, 0), self.columns.highest)
        return [low.tolist(), high.tolist()]

    def constant(self, names: Sequence[str], *, filled: bool = False) -> list[str]:
        """The features without values or differences; `filled`: missing values are 0."""
        columns = self.columns
        if filled:
            low, high = (np.array(ends, np.float32) for ends in self.ranges)
            columns = ColumnFacts(low, high, np.zeros_like(columns.missing), columns.rows)
        return constant_features(columns, names)


def facts_of(data: JudgedTable) -> Facts:
    """The facts of the data, each part of which is checked by its digest meanwhile.

    Raises Refused where a value is infinite.
    """
    columns, levels, ordered = zip(*data.each(_facts, whole=True), strict=True)
    return Facts(reduce(facts_together, columns), reduce(np.union1d, levels), any(ordered))


def check_trainable(data: JudgedTable) -> Facts:
    """The facts of the data. Raises Refused where nothing can be learned from them."""
    facts = facts_of(data)
    if not facts.ordered:
        raise Refused(
            "no query has two documents with different labels: there is no order to learn"
        )
    return facts


def constant_in_all(datasets: Sequence[JudgedTable]) -> list[str]:
    """The features that are constant in each of these data: folds share most of their rows."""
    first, *others = (facts_of(data).constant(data.feature_names) for data in datasets)
    return [name for name in first if all(name in names for names in others)]


def _facts(part: RankingDataset) -> tuple[ColumnFacts, Vector, bool]:
    columns = column_facts(part.features)
    if np.isinf(columns.lowest).any() or np.isinf(columns.highest).any():
        row, column = np.argwhere(np.isinf(part.features))[0]
        query = int(np.searchsorted(part.offsets, row, side="right")) - 1
        raise Refused(
            f"feature '{part.feature_names[column]}' is infinite for query "
            f"'{part.query_ids[query].as_py()}', document "
            f"{row_number(row - part.offsets[query])}: fix the feature, or leave the document out"
        )
    highest = np.maximum.reduceat(part.labels, part.offsets[:-1])
    lowest = np.minimum.reduceat(part.labels, part.offsets[:-1])
    return columns, levels_of(part), bool((highest > lowest).any())
