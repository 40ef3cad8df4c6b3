"""Every candidate of a plan, fitted; the best one on the validation queries, with its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import (
    RankingDataset,
    deviation_of,
    scales_of,
    squares_within_queries,
    with_scales,
)
from owpc_ltr.data.external_features.sources import external_entry, sources_in
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.splits import source_of
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.judged_data import unused_weights
from owpc_ltr.host.settings import values_of
from owpc_ltr.inspection.columns import silent_features
from owpc_ltr.inspection.totals import ColumnFacts, column_facts, facts_together
from owpc_ltr.kernels.linear import one_blas_thread
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.models.model_file import parity_samples_of, with_record
from owpc_ltr.protocols import Fit, Loss, Model, Optimizer, Run, StreamingOptimizer
from owpc_ltr.signatures import row_number, spelled
from owpc_ltr.training.plan import (
    ZERO,
    C,
    Data,
    Plan,
    Settings,
    fitted,
    levels_of,
    mean_of,
    taking_missing_as_zero,
)
from owpc_ltr.version import VERSION

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

    `silent_features` say nothing in the data: they have no value, or one and the same. Who calls
    tells of them (`owpc_ltr.inspection.columns`).
    """

    model: Model
    fit: Fit
    settings: dict[str, Any]
    table: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]
    silent_features: tuple[str, ...] = ()


def train_plan(
    data: RankingDataset,
    plan: Plan,
    run: Run,
    validation: RankingDataset | None = None,
    source: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """Fit every candidate to `data` and keep the one with the best validation metric.

    Of equal ones the first is kept, which is the more regularised. With several candidates and
    no validation queries UsageError is raised: training data would choose the least regularised.
    `source` (files, split) goes into the model's record; without it, the split that the queries are
    sides of. The record also has the digests of the queries.
    """
    plan = plan.for_labels(levels_of(data))
    candidates = plan.candidates()
    check_choosable(len(candidates), validation)
    check_trainable(data)
    known = data, validation
    if plan.missing == ZERO:
        data, validation = data.without_missing(), validation and validation.without_missing()
    filled = data
    curves = None
    if plan.piecewise_linear:
        from owpc_ltr.training.piecewise_linear import piecewise_linear_columns

        curves = piecewise_linear_columns(data, plan.knots)
    if curves is not None:
        data, validation = curves.expanded(data), validation and curves.expanded(validation)
    data = with_scales(data, plan.normalise)
    run = replace(run, validation=validation, metric=plan.select)
    with one_blas_thread():
        chosen = fit_all(plan, candidates, data, run)
    fit = chosen.fit
    if curves is not None:
        data, fit = filled, replace(fit, model=curves.model_of(fit.model))
    if plan.missing == ZERO:
        fit = replace(fit, model=taking_missing_as_zero(fit.model, known[0]))
    silent = silent_features(column_facts(data.features), data.feature_names)
    ranges = _ranges(known[0].without_missing())
    return recorded(
        chosen._replace(fit=fit), plan, run,
        known=known, source=source, ranges=ranges, silent=silent, sample=data,
    )  # fmt: skip


class BestCandidate(NamedTuple):
    """The best fit, the number and settings of its candidate, and the rows of all."""

    fit: Fit
    number: int
    settings: dict[str, Any]
    pair: tuple[Loss, Optimizer]
    table: list[dict[str, Any]]


def recorded(
    chosen: BestCandidate,
    plan: Plan,
    run: Run,
    *,
    known: tuple[Data, Data | None],
    source: Mapping[str, Any] | None,
    ranges: list[list[float]],
    silent: list[str],
    sample: RankingDataset,
) -> TrainingResult:
    """The chosen model with the record of its training on `known` queries; `sample` warns."""
    fit, table = chosen.fit, chosen.table
    warnings = _warnings(fit, chosen.pair[0], sample)
    if known[1] is not None:
        warnings += [f"validation: {one}" for one in unused_weights(known[1])]
    record = {
        **_how(plan, *chosen.pair, parse_metric(plan.select), run),
        "validation": table[chosen.number].get("validation"),
        "certificate": fit.certificate.as_dict(),
        "table": table,
        "history": kept_history(fit.history),
        **_from_what(known[0]),
        "feature_ranges": ranges,
        "warnings": list(warnings),
        "source": source_of(*known, source),
        "probes": parity_samples_of(known[0] if known[1] is None else known[1]),
        # What splits gained, and which may meet, is known to who grew the trees alone.
        **{key: fit.model.record[key] for key in _OF_TREES if key in fit.model.record},
    }
    model = with_record(fit.model, record)
    return TrainingResult(
        model=model,
        fit=fit,
        settings=chosen.settings,
        table=tuple(table),
        warnings=tuple(warnings),
        silent_features=tuple(silent),
    )


def check_choosable(candidates: int, validation: Data | None) -> None:
    """Refuse several candidates with nothing to choose them by."""
    if candidates > 1 and validation is None:
        raise UsageError(
            f"{candidates} candidates need validation queries to choose among: give "
            f"{spelled('validation')} or a share, or fix the settings with {spelled('settings')}"
        )


class FittedCandidate(NamedTuple):
    """A candidate's settings, its loss and optimizer, their fit, and its mean on validation."""

    settings: dict[str, Any]
    pair: tuple[Loss, Optimizer]
    fit: Fit
    value: float


def fit_each(
    plan: Plan,
    candidates: Sequence[dict[str, Any]],
    data: Data,
    run: Run,
    validation: Data | None,
) -> Iterator[FittedCandidate]:
    """Fit one candidate after another, of neighbours in C each from the one before.

    Where the best of the default values of C is at their end, more follow. The value is NaN without
    validation queries.
    """
    metric = parse_metric(plan.select)
    sign = 1.0 if metric.higher_is_better else -1.0
    waiting, tried = [*candidates], list[tuple[Settings, float]]()
    before: FittedCandidate | None = None
    while waiting:
        settings = waiting.pop(0)
        pair = loss, optimizer = plan.make(settings)
        start = before.fit if before and _neighbours(before.settings, settings) else None
        _report(run, len(tried), len(tried) + 1 + len(waiting), settings)
        fit = fitted(optimizer, loss, data, run, start)
        value = float("nan") if validation is None else mean_of(metric, fit.model, validation)
        before = FittedCandidate(settings, pair, fit, value)
        yield before
        tried.append((settings, sign * value))
        if not waiting and (more := plan.beyond(tried)) is not None:
            waiting.append(more)


def fit_all(
    plan: Plan, candidates: Sequence[dict[str, Any]], data: Data, run: Run
) -> BestCandidate:
    """The best candidate, and a row for each."""
    metric = parse_metric(plan.select)
    sign = 1.0 if metric.higher_is_better else -1.0
    validation = run.validation or run.validation_parts
    best: tuple[int, FittedCandidate] | None = None
    table: list[dict[str, Any]] = []
    for number, one in enumerate(fit_each(plan, candidates, data, run, validation)):
        row = {**one.settings, **one.fit.certificate.as_dict()}
        if validation is not None:
            row["validation"] = one.value
        table.append(row)
        if best is None or sign * one.value > sign * best[1].value:
            best = number, one
    assert best is not None  # noqa: S101 - there is at least one candidate
    number, chosen = best
    return BestCandidate(chosen.fit, number, chosen.settings, chosen.pair, table)


def _how(plan: Plan, loss: Loss, optimizer: Optimizer, metric: Metric, run: Run) -> dict[str, Any]:
    """What a record says of the way a model was trained."""
    return {
        "owpc_ltr": VERSION,
        "loss": {"name": loss.name, "settings": values_of(loss)},
        "optimizer": {"name": optimizer.name, "settings": values_of(optimizer)},
        "normalise": plan.normalise,
        **({} if plan.missing is None else {"missing": plan.missing}),
        **({"basis": {"name": "ramps", "knots": plan.knots}} if plan.piecewise_linear else {}),
        "seed": run.seed,
        "select": str(metric),
        "convention": metric.convention,
    }


def _from_what(data: Data) -> dict[str, Any]:
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


def check_trainable(data: RankingDataset) -> None:
    """Refuse data that nothing can be learned from, or that would poison the result."""
    if np.isinf(data.features).any():
        row, column = np.argwhere(np.isinf(data.features))[0]
        query = int(np.searchsorted(data.offsets, row, side="right")) - 1
        raise Refused(
            f"feature '{data.feature_names[column]}' is infinite for query "
            f"'{data.query_ids[query].as_py()}', document "
            f"{row_number(row - data.offsets[query])}: fix the feature, or leave the document out"
        )
    highest = np.maximum.reduceat(data.labels, data.offsets[:-1])
    lowest = np.minimum.reduceat(data.labels, data.offsets[:-1])
    check_order(some=bool((highest > lowest).any()))


def check_order(*, some: bool) -> None:
    """Refuse labels that put no document above another."""
    if not some:
        raise Refused(
            "no query has two documents with different labels: there is no order to learn"
        )


def _warnings(fit: Fit, loss: Loss, data: RankingDataset) -> list[str]:
    warnings = []
    certificate = fit.certificate
    if certificate.collapsed:
        told = (
            f"the optimum has collapsed: the risk is {certificate.risk_ratio:.4f} of that of "
            "scoring everything 0"
        )
        if hasattr(loss, "generator"):
            told += (
                "; top-heavy weights need few relevant documents and separable data: try "
                "loss.generator=constant or logarithmic"
            )
        warnings.append(told)
    if len(np.unique(fit.model.score(data.features[:1000]))) == 1:
        warnings.append("the model scores documents alike: it does not rank")
    return warnings


def _ranges(data: RankingDataset) -> list[list[float]]:
    """The smallest and the largest value of each feature, a missing one being 0."""
    return [data.features.min(axis=0).tolist(), data.features.max(axis=0).tolist()]


def _neighbours(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two candidates differ in C alone."""
    return {**one, C: None} == {**other, C: None}


def _report(run: Run, index: int, count: int, settings: Mapping[str, Any]) -> None:
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    run.progress(f"candidate {index + 1} of {count} {shown}".rstrip(), index / count)


_BY_PARTS = "bundle, larank, gradient and boosting"


def train_plan_by_parts(
    data: PartitionedDataset,
    plan: Plan,
    run: Run,
    validation: Data | None = None,
    source: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """Fit every candidate and keep the one with the best validation metric; see `train`.

    Data that an optimizer needs in memory are loaded where they fit in what `data` may keep there.
    Raises UsageError, before any part is read, where they do not.
    """
    candidates = plan.candidates()
    pairs = [plan.make(settings) for settings in candidates]
    check_choosable(len(candidates), validation)
    if not goes_through_parts(plan, pairs, data, validation):
        return train_plan(data.load(), plan, run, loaded(validation), source)
    known = data, validation
    facts = facts_of(data)
    plan = plan.for_labels(facts.levels)
    candidates = plan.candidates()
    check_order(some=facts.ordered)
    if plan.missing == ZERO:
        data, validation = data.without_missing(), validation and validation.without_missing()
    data = _scaled(data, facts, plan.normalise)
    run = replace(run, **named_validation(validation), metric=plan.select)
    with one_blas_thread():
        chosen = fit_all(plan, candidates, data, run)
    fit = chosen.fit
    if plan.missing == ZERO:
        fit = replace(fit, model=taking_missing_as_zero(fit.model, data.head))
    columns = facts.filled() if plan.missing == ZERO else facts.columns
    silent = silent_features(columns, data.feature_names)
    return recorded(
        chosen._replace(fit=fit), plan, run,
        known=known, source=source, ranges=facts.ranges, silent=silent, sample=data.head,
    )  # fmt: skip


def check_room(plan: Plan, data: PartitionedDataset, validation: Data | None = None) -> None:
    """Refuse, before any part is read, what `train_plan_by_parts` would. Raises UsageError."""
    pairs = [plan.make(settings) for settings in plan.candidates()]
    check_choosable(len(pairs), validation)
    goes_through_parts(plan, pairs, data, validation)


def scaled_parts(data: PartitionedDataset, normalise: str) -> PartitionedDataset:
    """The data with the scales of their features. Refused where there is nothing to learn."""
    facts = facts_of(data)
    check_order(some=facts.ordered)
    return _scaled(data, facts, normalise)


def _scaled(data: PartitionedDataset, facts: Facts, normalise: str) -> PartitionedDataset:
    scales = None if normalise == "none" else scales_of(facts.deviation)
    return replace(data, feature_scales=scales)


def goes_through_parts(
    plan: Plan,
    pairs: Sequence[tuple[Loss, Optimizer]],
    data: PartitionedDataset,
    validation: Data | None = None,
) -> bool:
    """Whether all that is planned can; False where what cannot may load the data instead.

    Raises UsageError, naming what can, where these do not fit in memory.
    """
    why = _why_not(plan, pairs)
    if why is None:
        return True
    parts = [part for part in (data, validation) if isinstance(part, PartitionedDataset)]
    needed = sum(part.nbytes for part in parts)
    if needed > data.memory:
        raise UsageError(
            f"{why} needs its data in memory, and these take {needed / 2**20:,.1f} MiB, more than "
            f"the {data.memory / 2**20:,.1f} MiB of --memory: give it more, or use {_BY_PARTS}, "
            "which go through parts"
        )
    return False


@overload
def loaded(data: Data) -> RankingDataset: ...
@overload
def loaded(data: Data | None) -> RankingDataset | None: ...
def loaded(data: Data | None) -> RankingDataset | None:
    """The data in memory."""
    return data.load() if isinstance(data, PartitionedDataset) else data


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


def named_validation(validation: Data | None) -> dict[str, Any]:
    """Validation queries as a `Run` names them."""
    if isinstance(validation, PartitionedDataset):
        return {"validation_parts": validation}
    return {"validation": validation}


@dataclass(frozen=True, eq=False)
class Facts:
    """Of each column its values and its spread within queries; whether labels differ anywhere."""

    columns: ColumnFacts
    squares: Vector
    largest: Vector
    ordered: bool
    levels: Vector

    @property
    def deviation(self) -> Vector:
        """The standard deviation of each feature within queries."""
        return deviation_of(self.squares, self.largest, self.columns.rows)

    @property
    def ranges(self) -> list[list[float]]:
        """The smallest and the largest value of each feature, a missing one being 0."""
        gaps = self.columns.missing > 0
        low = np.where(gaps, np.fmin(self.columns.lowest, 0), self.columns.lowest)
        high = np.where(gaps, np.fmax(self.columns.highest, 0), self.columns.highest)
        return [low.tolist(), high.tolist()]

    def filled(self) -> ColumnFacts:
        """The columns where a missing value is 0."""
        low, high = (np.array(ends, np.float32) for ends in self.ranges)
        return ColumnFacts(low, high, np.zeros_like(self.columns.missing), self.columns.rows)


def silent_in_all(datasets: Sequence[Data]) -> list[str]:
    """The features that say nothing in any of these data: folds share most of their rows."""
    found = []
    for data in datasets:
        if isinstance(data, PartitionedDataset):
            facts = facts_of(data).columns
        else:
            facts = column_facts(data.features)
        found.append(silent_features(facts, data.feature_names))
    return [name for name in found[0] if all(name in other for other in found)]


def facts_of(data: PartitionedDataset) -> Facts:
    """The facts of all parts, each of which is checked by its digest meanwhile."""
    found: Facts | None = None
    for own in data.each(_facts, whole=True):
        found = own if found is None else _together(found, own)
    assert found is not None  # noqa: S101 - a dataset has a part at least
    return found


def _facts(part: RankingDataset) -> Facts:
    highest = np.maximum.reduceat(part.labels, part.offsets[:-1])
    lowest = np.minimum.reduceat(part.labels, part.offsets[:-1])
    ordered = bool((highest > lowest).any())
    squares, largest = squares_within_queries(part)
    return Facts(column_facts(part.features), squares, largest, ordered, levels_of(part))


def _together(one: Facts, other: Facts) -> Facts:
    return Facts(
        facts_together(one.columns, other.columns),
        one.squares + other.squares,
        np.maximum(one.largest, other.largest),
        one.ordered or other.ordered,
        np.union1d(one.levels, other.levels),
    )
