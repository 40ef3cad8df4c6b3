"""Fits by folds of the queries: settings chosen on queries that no fit saw, and scores of these.

A plan that chooses C is fitted along growing C without each fold, and takes the C that is best on
the mean of the folds. A plan of an optimizer that stops early is fitted once for each candidate
without each fold, and takes the candidate and the number of passes that are best on the mean.

What is held out is scored without a look at it: a query by the model that was fitted without its
fold, with the settings that are best on the mean of the other folds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import fold_of_queries
from owpc_ltr.kernels.kernel import one_blas_thread
from owpc_ltr.metrics import Metric
from owpc_ltr.models.combined import scores_by_fold
from owpc_ltr.models.forests import sum_of_forests
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Fit, Model, Run
from owpc_ltr.training.fitting import Facts, FittedColumns, columns_for
from owpc_ltr.training.plan import C, Plan, checked_fit, means_of, with_scales

FOLDS = 3
_SALT = "owpc-ltr kinds"
_TOLERANCE = "optimizer.tolerance"
_OF_FOLDS = 1e-2
"""How exact fits are that choose C: closer to the optimum, the metric is within its noise."""


@dataclass(frozen=True, eq=False)
class QueryFolds:
    """Queries, the number of the fold that each is in, and what is known of them."""

    data: RankingDataset
    fold: NDArray[np.int64]
    facts: Facts

    @classmethod
    def of(cls, data: RankingDataset, facts: Facts) -> QueryFolds:
        """The queries in folds by the hash of their ids. Raises BadInput for too few queries."""
        return cls(data, fold_of_queries(data, FOLDS, _SALT), facts)

    @property
    def numbers(self) -> range:
        """The numbers of the folds."""
        return range(FOLDS)

    def without(self, number: int, data: RankingDataset) -> RankingDataset:
        """The queries of some data, in the same order, that are not in a fold."""
        return data.select(np.flatnonzero(self.fold != number))

    def only(self, number: int, data: RankingDataset) -> RankingDataset:
        """The queries of some data, in the same order, that are in a fold."""
        return data.select(np.flatnonzero(self.fold == number))

    @cached_property
    def importance(self) -> Vector:
        """The sum of the weights of each fold's queries."""
        sums = np.bincount(self.fold, self.data.query_importance, minlength=FOLDS)
        return np.asarray(sums, dtype=np.float64)

    def scores(self, models: Sequence[Model]) -> Vector:
        """A score for each document, by the model of its query's fold."""
        return scores_by_fold(self.data, self.fold, dict(enumerate(models)))


@dataclass(frozen=True, eq=False)
class FoldFits:
    """A plan with the settings that the folds chose, and its models for each fold.

    `held_out` are the models that score the queries of each fold: others chose their settings.
    `table` has a row for each candidate, `value` is the chosen one's. Where the optimizer stops
    early, `passes` is the chosen number of passes, `fits` are those of the chosen candidate, one a
    fold, and `history` has the mean of the folds after each pass.
    """

    plan: Plan
    held_out: tuple[Model, ...]
    table: tuple[dict[str, Any], ...]
    value: float
    passes: int = 0
    fits: tuple[Fit, ...] = ()
    history: tuple[dict[str, float], ...] = ()

    @property
    def models(self) -> tuple[TreeModel, ...]:
        """The model of each fold after the chosen number of passes."""
        return tuple(_after(fit, self.passes) for fit in self.fits)


class Means:
    """The mean of a metric on each fold, for one candidate after another."""

    def __init__(self, metric: Metric, importance: Vector) -> None:
        self.sign = 1.0 if metric.higher_is_better else -1.0
        self.importance = importance
        self.rows: list[Vector] = []

    def of_all(self) -> Vector:
        """The mean over the folds for each candidate; the higher, the better."""
        return self._means(np.ones(FOLDS, dtype=bool))

    def best(self, without: int | None = None) -> int:
        """The number of the candidate that is best on all folds, or on all but one."""
        kept = np.arange(FOLDS) != (-1 if without is None else without)
        return int(np.argmax(self._means(kept)))

    def _means(self, kept: Any) -> Vector:
        values = self.sign * np.array(self.rows)[:, kept]
        # A fold without any query that counts has no say.
        weights = np.where(np.isnan(values), 0.0, self.importance[kept])
        total = np.maximum(weights.sum(axis=1), np.finfo(float).tiny)
        means: Vector = (np.nan_to_num(values) * weights).sum(axis=1) / total
        return means


def fit_by_folds(plan: Plan, queries: QueryFolds, run: Run) -> FoldFits:
    """Fit a plan without each fold, and choose its C, unless it is set, or candidate and passes."""
    plan = plan.for_labels(queries.facts.levels)
    columns = columns_for(plan, queries.data, None)
    run = replace(run, metric=plan.metric)
    with one_blas_thread():
        if plan.chooses_by_default or C in plan.settings:
            return _along_c(plan, columns, queries, run)
        return _by_passes(plan, columns, queries, run)


def _along_c(plan: Plan, columns: FittedColumns, queries: QueryFolds, run: Run) -> FoldFits:
    data = columns.data.load()
    sides = [
        (with_scales(queries.without(k, data), plan.normalise), queries.only(k, data))
        for k in queries.numbers
    ]
    means, tried = Means(plan.metric, queries.importance), list[dict[str, Any]]()
    rough = {_TOLERANCE: _OF_FOLDS} if plan.chooses_by_default else {}
    models: list[list[Model]] = []
    starts: list[Fit | None] = [None] * FOLDS
    for settings in _walk(plan, tried, means):
        run.progress(f"C={settings[C]:g} without each of {FOLDS} folds", None)
        fits = []
        for k, (rest, own) in enumerate(sides):
            loss, optimizer = plan.make({**rough, **settings})
            fit = checked_fit(optimizer.name, optimizer.minimise(loss, rest, run, starts[k]), rest)
            starts[k] = fit
            fits.append((fit, means_of([plan.metric], fit.model, own)[0]))
        means.rows.append(np.array([value for _, value in fits]))
        models.append([columns.in_place(fit.model, queries.data) for fit, _ in fits])
        tried.append(settings)
    of_all, best = means.sign * means.of_all(), means.best()
    table = [{**own, "validation": float(v)} for own, v in zip(tried, of_all, strict=True)]
    return FoldFits(
        replace(plan, settings=tried[best]),
        tuple(models[means.best(without=k)][k] for k in queries.numbers),
        tuple(table),
        float(of_all[best]),
    )


def _walk(plan: Plan, tried: Sequence[dict[str, Any]], means: Means) -> Iterator[dict[str, Any]]:
    """The candidates of a plan, for as long as there may be a better one."""
    waiting = plan.candidates()
    while waiting:
        yield waiting.pop(0)
        values = list(zip(tried, means.of_all().tolist(), strict=True))
        if plan.has_fallen(values):
            waiting.clear()
        if not waiting and (more := plan.beyond(values)) is not None:
            waiting.append(more)


def _by_passes(plan: Plan, columns: FittedColumns, queries: QueryFolds, run: Run) -> FoldFits:
    data, candidates = columns.data.load(), plan.candidates()
    fits, places = list[list[Fit]](), list[tuple[int, int]]()
    means = Means(plan.metric, queries.importance)
    for number, settings in enumerate(candidates):
        loss, optimizer = plan.make(settings)
        fits.append([])
        for k in queries.numbers:
            rest = queries.without(k, data)
            of_fold = replace(run, validation=queries.only(k, data))
            fit = checked_fit(optimizer.name, optimizer.minimise(loss, rest, of_fold), rest)
            fits[-1].append(fit)
        curves = [[row["validation"] for row in fit.history] for fit in fits[-1]]
        # A fit that stopped would have gone on about as well.
        for passes in range(1, 1 + max(map(len, curves))):
            values = [curve[min(passes, len(curve)) - 1] for curve in curves]
            means.rows.append(np.array(values))
            places.append((number, passes))

    def held_out(k: int) -> TreeModel:
        number, passes = places[means.best(without=k)]
        return _after(fits[number][k], passes)

    of_all, best = means.sign * means.of_all(), means.best()
    chosen, passes = places[best]
    curves_of_all = [
        [float(value) for value, place in zip(of_all, places, strict=True) if place[0] == number]
        for number in range(len(candidates))
    ]
    table = [
        {**settings, "validation": float(means.sign * np.max(means.sign * np.array(curve)))}
        for settings, curve in zip(candidates, curves_of_all, strict=True)
    ]
    return FoldFits(
        replace(plan, settings=candidates[chosen], grid={}),
        tuple(columns.in_place(held_out(k), queries.data) for k in queries.numbers),
        tuple(table),
        float(of_all[best]),
        passes,
        fits=tuple(fits[chosen]),
        history=tuple(
            {"pass": n, "validation": own} for n, own in enumerate(curves_of_all[chosen], 1)
        ),
    )


def _after(fit: Fit, passes: int) -> TreeModel:
    """The trees of a fit after so many passes; all of them where it stopped before."""
    assert fit.after is not None  # noqa: S101 - kinds are fitted by optimizers that can tell
    model = fit.after(min(passes, len(fit.history)))
    assert isinstance(model, TreeModel)  # noqa: S101 - as above
    return model


def mean_of_trees(models: Sequence[TreeModel]) -> TreeModel:
    """The forest whose scores are the mean, with the importances of all."""
    mean = sum_of_forests(models, [1.0 / len(models)] * len(models))
    total: dict[str, dict[str, float]] = {}
    for model in models:
        for fact, of_features in model.record.get("importances", {}).items():
            own = total.setdefault(fact, {})
            for name, value in of_features.items():
                own[name] = own.get(name, 0.0) + value / len(models)
    return replace(mean, record={"importances": total}) if total else mean
