"""Training: settings chosen on validation queries, and a model that knows how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from owpc_ltr.data.columns import column_facts, silent_features
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.joined_tables.source import as_joined, sources_in
from owpc_ltr.data.scaling import check_normalisation, with_scales
from owpc_ltr.data.sources import source_of
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.unused_weights import unused_weights
from owpc_ltr.host.grids import DEFAULT_C, combinations
from owpc_ltr.host.registry import class_of
from owpc_ltr.host.settings import configure, values_of
from owpc_ltr.kernels.blas import one_blas_thread
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.models.linear import with_record
from owpc_ltr.models.parity_samples import parity_samples_of
from owpc_ltr.protocols import Fit, Loss, Model, Optimizer, Run
from owpc_ltr.training.fitting import Data, fitted, mean_of
from owpc_ltr.training.history import kept_history
from owpc_ltr.training.missing_as_zero import ZERO, check_missing, taking_missing_as_zero
from owpc_ltr.training.ramps import KNOTS, check_basis, ramps_of
from owpc_ltr.version import VERSION

C = "optimizer.C"
_OF_TREES = ("importances", "interactions")


@dataclass(frozen=True)
class Plan:
    """What to train: a loss and an optimizer, their settings, and what to choose among.

    Loss and optimizer are classes, or names of installed ones. `settings` and `grid` are keyed by
    full names (`loss.generator`, `optimizer.C`). Without a grid, C is chosen from 10⁻³ … 10³ where
    the optimizer has one that was not set.
    """

    loss: type[Loss] | str
    optimizer: type[Optimizer] | str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    select: str | Metric = "map"
    normalise: str = "scale"
    missing: str | None = None
    """`zero`: missing values are 0 from the first to the last, as engines before 3.2 have them."""
    basis: str | None = None
    """`ramps`: a curve of straight pieces between `knots` quantiles of each feature, no weight."""
    knots: int = KNOTS

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", class_of("loss", self.loss))
        object.__setattr__(self, "optimizer", class_of("optimizer", self.optimizer))
        parse_metric(self.select)
        check_missing(self.missing)
        check_basis(self.basis, self.knots)
        check_normalisation(self.normalise)

    def candidates(self) -> list[dict[str, Any]]:
        """Every combination of the grid, over the fixed settings; C varies fastest."""
        grid = dict(self.grid)
        has_c = hasattr(self.optimizer, "C")
        if not grid and has_c and C not in self.settings:
            grid[C] = DEFAULT_C
        return [{**self.settings, **chosen} for chosen in combinations(grid, C)]

    def make(self, settings: Mapping[str, Any]) -> tuple[Loss, Optimizer]:
        """The loss and optimizer of these settings; refuses a pair that cannot work.

        Raises UsageError naming both and what would do, before any work.
        """
        parts: dict[str, dict[str, Any]] = {"loss": {}, "optimizer": {}}
        for name, value in settings.items():
            kind, _, setting = name.partition(".")
            if kind not in parts:
                raise UsageError(f"no part is called '{kind}' in '{name}': use loss or optimizer")
            parts[kind][setting] = value
        loss = configure(class_of("loss", self.loss), parts["loss"])
        optimizer = configure(class_of("optimizer", self.optimizer), parts["optimizer"])
        if optimizer.needs_convex and not loss.convex:
            raise UsageError(
                f"optimizer '{optimizer.name}' needs a convex loss, and '{loss.name}' with these "
                "settings is not: use --optimizer gradient or boosting, or a convex loss such as "
                "owpc"
            )
        return loss, optimizer


@dataclass(frozen=True)
class Trained:
    """The chosen model, its fit, and one row for every candidate that was tried.

    `silent_features` say nothing in the data: they have no value, or one and the same. Who calls
    tells of them (`owpc_ltr.inspection.constant`).
    """

    model: Model
    fit: Fit
    settings: dict[str, Any]
    table: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]
    silent_features: tuple[str, ...] = ()


def train(
    data: RankingDataset,
    plan: Plan,
    run: Run,
    validation: RankingDataset | None = None,
    source: Mapping[str, Any] | None = None,
) -> Trained:
    """Fit every candidate to `data` and keep the one with the best validation metric.

    Of equal ones the first is kept, which is the more regularised. With several candidates and
    no validation queries UsageError is raised: training data would choose the least regularised.
    `source` (files, split) goes into the model's record; without it, the split that the queries are
    sides of. The record also has the digests of the queries.
    """
    candidates = plan.candidates()
    pairs = [plan.make(settings) for settings in candidates]
    check_choosable(len(candidates), validation)
    metric = parse_metric(plan.select)
    check_trainable(data)
    known = data, validation
    if plan.missing == ZERO:
        data, validation = data.without_missing(), validation and validation.without_missing()
    filled = data
    ramps = None if plan.basis is None else ramps_of(data, plan.knots)
    if ramps is not None:
        data, validation = ramps.expanded(data), validation and ramps.expanded(validation)
    data = with_scales(data, plan.normalise)
    run = replace(run, validation=validation, metric=plan.select)
    with one_blas_thread():
        table, index, fit = fit_all(data, candidates, pairs, metric, run)
    if ramps is not None:
        data, fit = filled, replace(fit, model=ramps.model_of(fit.model))
    if plan.missing == ZERO:
        fit = replace(fit, model=taking_missing_as_zero(fit.model, known[0]))
    silent = silent_features(column_facts(data.features), data.feature_names)
    ranges = _ranges(known[0].without_missing())
    chosen = Chosen(fit, index, candidates[index], pairs[index], table)
    return recorded(chosen, plan, run, known, source, ranges, silent, data)


class Chosen(NamedTuple):
    """The best fit, the number and settings of its candidate, and the rows of all."""

    fit: Fit
    number: int
    settings: dict[str, Any]
    pair: tuple[Loss, Optimizer]
    table: list[dict[str, Any]]


def recorded(
    chosen: Chosen,
    plan: Plan,
    run: Run,
    known: tuple[Data, Data | None],
    source: Mapping[str, Any] | None,
    ranges: list[list[float]],
    silent: list[str],
    sample: RankingDataset,
) -> Trained:
    """The chosen model with the record of its training on `known` queries; `sample` warns."""
    fit, table = chosen.fit, chosen.table
    warnings = _warnings(fit, sample)
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
    return Trained(model, fit, chosen.settings, tuple(table), tuple(warnings), tuple(silent))


def check_choosable(candidates: int, validation: Data | None) -> None:
    """Refuse several candidates with nothing to choose them by."""
    if candidates > 1 and validation is None:
        raise UsageError(
            f"{candidates} candidates need validation queries to choose among: give "
            "--validation FILE or a share, or fix the settings with --set"
        )


def fit_all(
    data: Data,
    candidates: Sequence[dict[str, Any]],
    pairs: Sequence[tuple[Loss, Optimizer]],
    metric: Metric,
    run: Run,
) -> tuple[list[dict[str, Any]], int, Fit]:
    """A row for each candidate, and the number and the fit of the best one."""
    best: tuple[float, int, Fit] | None = None
    table: list[dict[str, Any]] = []
    fit: Fit | None = None
    validation = run.validation or run.validation_parts
    sign = 1.0 if metric.higher_is_better else -1.0
    for index, (settings, (loss, optimizer)) in enumerate(zip(candidates, pairs, strict=True)):
        start = fit if index and _neighbours(candidates[index - 1], settings) else None
        _report(run, index, len(candidates), settings)
        fit = fitted(optimizer, loss, data, run, start)
        row = {**settings, **fit.certificate.as_dict()}
        value = float("nan")
        if validation is not None:
            value = row["validation"] = mean_of(metric, fit.model, validation)
        table.append(row)
        if best is None or sign * value > sign * best[0]:
            best = (value, index, fit)
    assert best is not None  # noqa: S101 - there is at least one candidate
    return table, best[1], best[2]


def _how(plan: Plan, loss: Loss, optimizer: Optimizer, metric: Metric, run: Run) -> dict[str, Any]:
    """What a record says of the way a model was trained."""
    return {
        "owpc_ltr": VERSION,
        "loss": {"name": loss.name, "settings": values_of(loss)},
        "optimizer": {"name": optimizer.name, "settings": values_of(optimizer)},
        "normalise": plan.normalise,
        **({} if plan.missing is None else {"missing": plan.missing}),
        **({} if plan.basis is None else {"basis": {"name": plan.basis, "knots": plan.knots}}),
        "seed": run.seed,
        "select": str(metric),
        "convention": metric.convention,
    }


def _from_what(data: Data) -> dict[str, Any]:
    """What a record says of the queries that a model was trained on."""
    return {
        "queries": data.n_queries,
        "documents": data.n_documents,
        "fingerprint": data.fingerprint,
        "featureset_hash": data.featureset_hash,
        **as_joined(sources_in(data.manifest, "the dataset's manifest")),
    }


def check_trainable(data: RankingDataset) -> None:
    """Refuse data that nothing can be learned from, or that would poison the result."""
    if np.isinf(data.features).any():
        row, column = np.argwhere(np.isinf(data.features))[0]
        query = int(np.searchsorted(data.offsets, row, side="right")) - 1
        raise Refused(
            f"feature '{data.feature_names[column]}' is infinite for query "
            f"'{data.query_ids[query].as_py()}', document {row - data.offsets[query] + 1}: mend "
            "the feature, or leave the document out"
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


def _warnings(fit: Fit, data: RankingDataset) -> list[str]:
    warnings = []
    certificate = fit.certificate
    if certificate.collapsed:
        warnings.append(
            f"the optimum has collapsed: the risk is {certificate.risk_ratio:.4f} of that of "
            "scoring everything 0; top-heavy weights need few relevant documents and separable "
            "data: try loss.generator=constant or logarithmic"
        )
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
