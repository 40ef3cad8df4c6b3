"""The fits of a plan: their data, every candidate fitted, and the best one with its record.

The data are read, split, brought to where fits go through them, and checked. The best candidate is
the one on the validation queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow.compute as pc

from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import check_same_features
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.datasets import dataset_of, is_partitioned
from owpc_ltr.data.feature_sources import external_entry, sources_in
from owpc_ltr.data.options import judgment_list, row_number
from owpc_ltr.data.partitioned import JudgedTable, PartitionedDataset, in_memory
from owpc_ltr.data.splits import (
    DatasetSplits,
    HashSplit,
    fold_of_queries,
    source_of,
    split_queries,
    with_validation,
)
from owpc_ltr.errors import Refused, UsageError, give_warnings
from owpc_ltr.evaluation.judged_data import unused_weights
from owpc_ltr.host.commands import plugin_answer
from owpc_ltr.host.settings import values_of
from owpc_ltr.inspection.measures import (
    ColumnFacts,
    column_facts,
    constant_features,
    constant_in_training,
    facts_together,
)
from owpc_ltr.kernels.kernel import one_blas_thread
from owpc_ltr.metrics import Metric
from owpc_ltr.models.model_file import parity_samples_of, with_record
from owpc_ltr.protocols import Fit, Loss, Model, Optimizer, Reranker, Run, StreamingOptimizer
from owpc_ltr.training.plan import (
    ZERO,
    C,
    Plan,
    Settings,
    checked_fit,
    levels_of,
    means_of,
    taking_missing_as_zero,
    with_scales,
)
from owpc_ltr.version import VERSION

if TYPE_CHECKING:
    from owpc_ltr.models.linear import PiecewiseLinearColumns


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
    rows = training.features[training.offsets[places.drop_null().to_numpy()]]
    other = validation.features[validation.offsets[np.flatnonzero(places.is_valid())]]
    shared = int(((rows == other) | (np.isnan(rows) & np.isnan(other))).all(axis=1).sum())
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
            f"{candidates} candidates need validation queries to choose among: give `validation` "
            "or a share, or fix the settings with `settings`"
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


HISTORY_ROWS = 100
"""Rows that are kept of a history: enough for a curve, and some kilobytes in a model's file."""


def kept_history(
    history: Sequence[Mapping[str, Any]], most: int = HISTORY_ROWS
) -> list[dict[str, Any]]:
    """All rows of a short history; of a long one the first, the last, and others evenly between.

    >>> [row["pass"] for row in kept_history([{"pass": n} for n in range(1, 10)], most=4)]
    [1, 4, 6, 9]
    """
    if len(history) <= most:
        return [dict(row) for row in history]
    places = np.unique(np.linspace(0, len(history) - 1, most).round().astype(int))
    return [dict(history[place]) for place in places.tolist()]


_OF_TREES = ("importances", "interactions")


@dataclass(frozen=True)
class TrainingResult:
    """The chosen model, its fit, and one row for every candidate that was tried.

    `constant_features` have no value in the data, or one and the same. The caller warns.
    """

    model: Model
    fit: Fit
    settings: dict[str, Any]
    table: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]
    constant_features: tuple[str, ...] = ()

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """What to warn of: the fit, and features that nothing was learned from."""
        return (*self.warnings, *constant_in_training(self.constant_features))


def train_plan(
    data: JudgedTable,
    plan: Plan,
    run: Run,
    validation: JudgedTable | None = None,
    source: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """Fit every candidate to `data` and keep the one with the best validation metric.

    Of equal ones the first is kept, which is the more regularised. With several candidates and
    no validation queries UsageError is raised: training data would choose the least regularised.
    Data in parts that an optimizer needs in memory are loaded, see `loaded_for`.
    `source` (files, split) goes into the model's record; without it, the split that the queries are
    sides of. The record also has the digests of the queries.
    """
    data, validation = loaded_for(plan, data, validation)
    facts = check_trainable(data)
    plan = plan.for_labels(facts.levels)
    columns = columns_for(plan, data, validation)
    run = replace(run, validation=columns.validation, metric=plan.metric)
    with one_blas_thread():
        chosen, table = _best_of(plan, columns.data, run)
    fit = replace(chosen.fit, model=columns.in_place(chosen.fit.model, data.head))
    warnings = _warnings(fit, chosen.pair[0], columns.sample)
    if validation is not None:
        warnings += [f"validation: {warning}" for warning in unused_weights(validation)]
    method = {
        **record_of_method(*chosen.pair, "optimizer", plan.metric, run, **plan.columns_record),
        "validation": None if validation is None else chosen.value,
        "certificate": fit.certificate.as_dict(),
        "table": table,
        "history": kept_history(fit.history),
        "warnings": list(warnings),
    }
    model = recorded_model(fit.model, method, data, facts, source, validation=validation)
    return TrainingResult(
        model=model,
        fit=fit,
        settings=chosen.settings,
        table=tuple(table),
        warnings=tuple(warnings),
        constant_features=tuple(facts.constant(data.feature_names, filled=plan.missing == ZERO)),
    )


def recorded_model(
    model: Model,
    method: Mapping[str, Any],
    data: JudgedTable,
    facts: Facts,
    source: Mapping[str, Any] | None = None,
    validation: JudgedTable | None = None,
) -> Model:
    """The model with the record of its training: the `method`, and what is known of the data."""
    record = {
        **method,
        **record_of_data(data),
        "feature_ranges": facts.ranges,
        "source": source_of(data, validation, source),
        "probes": parity_samples_of(data if validation is None else validation),
        # What splits gained, and which may meet, is known to who grew the trees alone.
        **{key: model.record[key] for key in _OF_TREES if key in model.record},
    }
    return with_record(model, record)


@dataclass(frozen=True, eq=False)
class FittedColumns:
    """The data as fits take them by a plan, and what makes of their model one of the data.

    `sample` are some of the queries with the features that the model is of.
    """

    plan: Plan
    data: JudgedTable
    validation: JudgedTable | None
    sample: RankingDataset
    curves: PiecewiseLinearColumns | None

    def in_place(self, model: Model, head: RankingDataset) -> Model:
        """The model of the data as they are, of which `head` are some, by one of the columns."""
        model = model if self.curves is None else self.curves.model_of(model)
        return taking_missing_as_zero(model, head) if self.plan.missing == ZERO else model


def columns_for(plan: Plan, data: JudgedTable, validation: JudgedTable | None) -> FittedColumns:
    """The data as the fits of a plan take them: filled, expanded to curves, with their scales."""
    if plan.missing == ZERO:
        data = data.without_missing()
        validation = None if validation is None else validation.without_missing()
    sample, curves = data.head, None
    if plan.piecewise_linear:
        from owpc_ltr.models.linear import piecewise_linear_columns

        curves = piecewise_linear_columns(data.load(), plan.knots)
        data = curves.expanded(data.load())
        validation = None if validation is None else curves.expanded(validation.load())
    return FittedColumns(plan, with_scales(data, plan.normalise), validation, sample, curves)


class FittedCandidate(NamedTuple):
    """A candidate's settings, its loss and optimizer, their fit, and its mean on validation."""

    settings: dict[str, Any]
    pair: tuple[Loss, Optimizer]
    fit: Fit
    value: float


def fit_each(
    plan: Plan, candidates: Sequence[dict[str, Any]], data: JudgedTable, run: Run
) -> Iterator[FittedCandidate]:
    """Fit one candidate after another, of neighbours in C each from the one before.

    Where the best of the default values of C is at their end, more follow. The value is that on the
    validation queries of the run, NaN without any.
    """
    sign = 1.0 if plan.metric.higher_is_better else -1.0
    waiting, tried = [*candidates], list[tuple[Settings, float]]()
    before: FittedCandidate | None = None
    while waiting:
        settings = waiting.pop(0)
        pair = loss, optimizer = plan.make(settings)
        # Neighbours differ in C alone.
        near = before is not None and {**before.settings, C: None} == {**settings, C: None}
        start = before.fit if before is not None and near else None
        count = len(tried) + 1 + len(waiting)
        values = ", ".join(f"{name}={value}" for name, value in settings.items())
        text = f"candidate {len(tried) + 1} of {count} {values}".rstrip()
        run.progress(text, len(tried) / count)
        # Data in parts are for optimizers that go through them.
        returned = optimizer.minimise(loss, data, run, start)  # type: ignore[arg-type]
        fit = checked_fit(optimizer.name, returned, data.head)
        value = float("nan")
        if run.validation is not None:
            value = means_of([plan.metric], fit.model, run.validation)[0]
        before = FittedCandidate(settings, pair, fit, value)
        yield before
        tried.append((settings, sign * value))
        if not waiting and (more := plan.beyond(tried)) is not None:
            waiting.append(more)


def _best_of(
    plan: Plan, data: JudgedTable, run: Run
) -> tuple[FittedCandidate, list[dict[str, Any]]]:
    """The best candidate, and a row for each."""
    sign = 1.0 if plan.metric.higher_is_better else -1.0
    best: FittedCandidate | None = None
    table: list[dict[str, Any]] = []
    for candidate in fit_each(plan, plan.candidates(), data, run):
        chosen_by = {} if run.validation is None else {"validation": candidate.value}
        table.append({**candidate.settings, **candidate.fit.certificate.as_dict(), **chosen_by})
        if best is None or sign * candidate.value > sign * best.value:
            best = candidate
    assert best is not None  # noqa: S101 - there is at least one candidate
    return best, table


def record_of_method(
    loss: Loss, learner: Optimizer | Reranker, kind: str, metric: Metric, run: Run, **more: object
) -> dict[str, Any]:
    """What a record says of the way a model was trained, and how candidates were chosen."""
    return {
        "owpc_ltr": VERSION,
        "loss": {"name": loss.name, "settings": values_of(loss)},
        kind: {"name": learner.name, "settings": values_of(learner)},
        **more,
        "seed": run.seed,
        "select": str(metric),
        "convention": metric.convention,
    }


def record_of_data(data: JudgedTable) -> dict[str, Any]:
    """What a record says of the queries that a model was trained on."""
    what = {
        "queries": data.n_queries,
        "documents": data.n_documents,
        "fingerprint": data.fingerprint,
        "featureset_hash": data.featureset_hash,
    }
    if data.manifest is None:
        return what
    return {**what, **external_entry(sources_in(data.manifest, "the dataset's manifest"))}


def _warnings(fit: Fit, loss: Loss, data: RankingDataset) -> list[str]:
    warnings = []
    if fit.certificate.collapsed:
        advice = ""
        if hasattr(loss, "generator"):
            advice = (
                "; top-heavy weights need few relevant documents and separable data: try "
                "loss.generator=constant or logarithmic"
            )
        warnings.append(
            f"the optimum has collapsed: the risk is {fit.certificate.risk_ratio:.4f} of that of "
            f"scoring everything 0{advice}"
        )
    return warnings + ranking_warnings(fit.model, data)


def ranking_warnings(model: Model, data: RankingDataset) -> list[str]:
    """A sentence where the model ranks nothing."""
    alike = len(np.unique(model.score(data.features[:1000]))) == 1
    return ["the model scores documents alike: it does not rank"] * alike


_SALT = "owpc-ltr folds"


def fold_models(
    data: JudgedTable, train_on: Callable[[RankingDataset, Run], Model], run: Run, folds: int
) -> list[Model]:
    """A model for each fold, trained as one of all queries is, without the queries of the fold.

    `train_on` makes a model of some queries, as it did of all. Spellings of one query are in one
    fold. Raises BadInput for fewer queries than folds.
    """
    if not folds:
        return []
    data = in_memory(data, "`folds`")
    fold = fold_of_queries(data, folds, _SALT)
    models = []
    for number in range(folds):

        def progress(message: str, done: float | None = None, number: int = number) -> None:
            run.progress(f"fold {number + 1} of {folds}: {message}", done)

        others = data.select(np.flatnonzero(fold != number))
        models.append(train_on(others, replace(run, progress=progress)))
    return models


def split_and_train(
    data: JudgedTable,
    plan: Plan,
    run: Run,
    validation_share: float,
    source: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """A model of these queries, of which a share chooses the settings."""
    # Queries that another split has cut are not split by the same hash.
    sides = HashSplit(validation_share, 0.0, "owpc-ltr inner")
    splits = split_queries(data, sides, wanted=("train", "validation"))
    return train_plan(splits.training, plan, run, splits.optional_validation, source)
