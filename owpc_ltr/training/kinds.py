"""The model that `train` makes where nobody chose one: its kind, its settings, and the model.

The kinds are few and go from simple to complex. Each is fitted by folds of the queries (see
`fold_fits`) and measured on all of them, each query ranked by a model that never saw it. Of those
that run where the model is to run, the simplest is taken that loses next to nothing to the best.
The model itself is of all queries: with the settings that the folds chose, or the mean of the
models of the folds.

The sum adds up a linear model, a piecewise-linear one and pairwise-interaction trees, each divided
by the spread of its scores within the queries that it was not fitted to. As steps between the
thresholds of the trees, the curves are trees too, and the whole is one forest that every engine
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import join_datasets
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.data.splits import clusters_of, query_positions
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.judged_data import unused_weights
from owpc_ltr.evaluation.significance import LEVEL, Comparison, compare_paired
from owpc_ltr.metrics import Metric, RankedQueries, uneven
from owpc_ltr.models.analysis import features_used
from owpc_ltr.models.forests import Steps, sum_of_forests
from owpc_ltr.models.model_file import with_record
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Certificate, Fit, Model, Run
from owpc_ltr.training.fitting import (
    TrainingResult,
    check_trainable,
    goes_through_parts,
    kept_history,
    ranking_warnings,
    record_of_method,
    recorded_model,
    split_and_train,
    train_plan,
)
from owpc_ltr.training.fold_fits import (
    FOLDS,
    FoldFits,
    QueryFolds,
    fit_by_folds,
    mean_of_trees,
)
from owpc_ltr.training.plan import (
    MetricChoice,
    Plan,
    deviation_within_queries,
    levels_of,
    taking_missing_as_zero,
)

FEWEST_QUERIES = 30
"""Fewer independent queries show no difference between kinds: the simplest is taken."""
MOST_DOCUMENTS = 30_000
"""Of more, a sample of the queries is compared."""
_PAIRS = 20
_MOST_TABLES = 64
"""As many features and pairs of them run inside an engine."""
_MOST_CURVES = 200
"""Of more features no curves are tried: each has several columns, all of them in memory."""
_STEPS = 63
"""Of a feature, in all trees that run without a plugin: with one more for missing values, four
features are one number there."""
_MOST_LOSS = 0.002
"""A simpler kind may lose half a standard error to the best, and no more than this."""
_ELSEWHERE = 0.005
"""What another place must give to be named."""
_HALF_WIDTH = 1.96
"""Of an interval of 95 %, in standard errors."""
_HIGHEST_GRADE = 31
"""Of labels that are grades, to metrics and losses of gains 2^label − 1."""
RUNS_IN = ("engine", "plugin", "client")
LINEAR, CURVES, PAIRS, BOOSTED = (
    "linear",
    "piecewise-linear",
    "interaction trees",
    "boosted trees",
)
SUM = "sum"
SUMMED = (LINEAR, CURVES, PAIRS)
_OF_A_PART = ("loss", "optimizer", "validation")
_SHARED = ("owpc_ltr", "normalise", "missing", "seed", "select", "convention")
"""What a record says of each part of a sum, and of all of them."""
_TREES = "optimizer.trees"
_MORE_TREES = 0.5
"""The number of trees that are best grows with this power of the documents, as measured."""


@dataclass(frozen=True)
class Kind:
    """A kind of model: its plan, and where it runs, in one word for each place and in many.

    The plan of a sum is None: it has those of its parts. A model that is `averaged` is the mean of
    those of the folds, not one more of all queries.
    """

    name: str
    plan: Plan | None
    runs_in: frozenset[str]
    words: str
    averaged: bool = False


@dataclass(frozen=True)
class KindResult:
    """A kind's mean over all queries, and its difference from the simplest.

    `used` counts the features that its models read, `trees` their trees (means over folds).
    """

    kind: str
    mean: float
    difference: float
    low: float
    high: float
    p: float
    runs_in: str
    used: float
    trees: float


@dataclass(frozen=True)
class KindChoice:
    """What was chosen, from what, and why; `results` is empty where nothing was compared."""

    kind: Kind
    results: tuple[KindResult, ...]
    why: str

    def as_dict(self) -> dict[str, Any]:
        """The choice as a record has it."""
        return {
            "kind": self.kind.name,
            "why": self.why,
            "compared": [asdict(result) for result in self.results],
        }


def kinds(make: Callable[..., Plan], n_features: int) -> list[Kind]:
    """The kinds of models, the simplest first; `make` makes their plans."""
    make_linear = partial(make, settings={"loss.generator": "logarithmic"})
    linear = make_linear()
    metric = linear.metric
    measure = metric.name if metric.name in {"map", "mrr"} else "ndcg"
    everywhere, interactions = frozenset(RUNS_IN), min(_PAIRS, _MOST_TABLES - n_features)
    found = [Kind(LINEAR, linear, everywhere, "engine")]
    if n_features <= _MOST_CURVES:
        curves = make_linear(piecewise_linear=True)
        places = frozenset({"engine", "client"})
        found.append(Kind(CURVES, curves, places, "engine, script"))
    boosted = partial(make, loss="lambdarank", optimizer="boosting")
    settings: dict[str, Any] = {"loss.measure": measure}
    if interactions > 0:
        # Pairs need more trees than whole features do, or deeper ones, which need more queries.
        few = {"interactions": interactions, "trees": 500, "patience": 75}
        pairs = {f"optimizer.{name}": value for name, value in few.items()}
        depths = {"optimizer.depth": (2, 4)}
        plan = boosted(settings={**settings, **pairs}, grid=depths)
        found.append(Kind(PAIRS, plan, everywhere, "engine"))
        found.append(Kind(SUM, None, everywhere, "engine"))
    places = frozenset({"plugin", "client"})
    plan = boosted(settings=settings)
    return [*found, Kind(BOOSTED, plan, places, "plugin, client", averaged=True)]


def metric_for(data: RankingDataset) -> str:
    """The metric that chooses where none is named: by all grades, if there are several."""
    levels = levels_of(data)
    if len(levels) <= 2 and levels[0] <= 0:
        return "map"
    # Beside the gain 2^label − 1 of a large label all others count nothing.
    return "ndcg@10" if levels[-1] <= _HIGHEST_GRADE else "ndcg@10,gain=linear"


def train_best_kind(
    data: JudgedTable,
    validation: JudgedTable | None,
    make: Callable[..., Plan],
    metric: MetricChoice | None,
    runs_in: str,
    run: Run,
    *,
    validation_share: float,
    source: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """The best kind of model for these queries, trained on all of them.

    `make` makes plans; `metric` chooses, by default one for the labels. Of data in parts that stay
    in their folder, a share or the `validation` queries choose the settings. Raises UsageError
    where `runs_in` is no place.
    """
    if runs_in not in RUNS_IN:
        raise UsageError(f"no model runs in '{runs_in}': choose among {', '.join(RUNS_IN)}")

    def by_validation(kind: Kind) -> TrainingResult:
        assert kind.plan is not None  # noqa: S101 - a sum is fitted in memory
        if validation is None:
            return split_and_train(data, kind.plan, run, validation_share, source)
        return train_plan(data, kind.plan, run, validation, source)

    whole = _with_others(data, validation)
    sample = sample_of(whole)
    facts = check_trainable(sample)
    make = partial(make, metric=metric_for(sample) if metric is None else metric)
    candidates = _that_fit(kinds(make, sample.n_features), whole)
    try:
        fitted, choice = compare_kinds(QueryFolds.of(sample, facts), candidates, runs_in, run)
    except (BadInput, Refused) as error:
        simplest = _simplest(candidates, runs_in)
        why = f"kinds of models cannot be compared on parts of these queries ({error})"
        choice = KindChoice(simplest, (), why)
        return _with_choice(by_validation(simplest), choice)
    kind = choice.kind
    if kind.plan is not None and goes_through_parts(kind.plan, whole, whole):
        return _with_choice(by_validation(kind), choice)
    if whole.n_queries > sample.n_queries:
        fitted = fitted.on(whole.load(), kind, run)
    return _with_choice(fitted.trained(kind, run, source), choice)


def _with_others(data: JudgedTable, validation: JudgedTable | None) -> JudgedTable:
    """The queries together with the validation queries that are not among them."""
    if not (isinstance(data, RankingDataset) and isinstance(validation, RankingDataset)):
        return data
    new = ~pc.is_in(validation.query_ids, value_set=data.query_ids).to_numpy(zero_copy_only=False)
    if not new.any():
        return data
    others = validation.select(np.flatnonzero(new))
    return join_datasets([data, others], ["the data", "the validation data"])


def _that_fit(candidates: Sequence[Kind], data: JudgedTable) -> list[Kind]:
    """The kinds that go through data in parts, or may load them."""
    fit = []
    for kind in candidates:
        with suppress(UsageError):
            if kind.plan is not None:
                goes_through_parts(kind.plan, data, data)
            fit.append(kind)
    names = {kind.name for kind in fit}
    return [kind for kind in fit if kind.plan is not None or names.issuperset(SUMMED)]


def _with_choice(result: TrainingResult, choice: KindChoice) -> TrainingResult:
    model = result.model
    return replace(result, model=with_record(model, {**model.record, "kinds": choice.as_dict()}))


def sample_of(data: JudgedTable) -> RankingDataset:
    """What kinds are compared on: so many documents at most, of queries by their ids' hashes."""
    order = np.argsort(query_positions(data, "owpc-ltr sample"), kind="stable")
    count = max(FEWEST_QUERIES, int(data.n_queries * MOST_DOCUMENTS / max(1, data.n_documents)))
    part = data.select(np.sort(order[:count])) if count < data.n_queries else data
    return part.load()


def compare_kinds(
    queries: QueryFolds, candidates: Sequence[Kind], runs_in: str, run: Run
) -> tuple[FittedKinds, KindChoice]:
    """The kinds fitted by folds, and the one to take; of few queries only the simplest is."""
    clusters = clusters_of(queries.data)
    independent = len(np.unique(clusters))
    if independent < FEWEST_QUERIES:
        simplest = _simplest(candidates, runs_in)
        why = f"{independent} independent queries are too few to compare kinds of models"
        return fit_kinds(queries, [simplest], run), KindChoice(simplest, (), why)
    fitted = fit_kinds(queries, candidates, run)
    return fitted, fitted.choice(candidates, clusters, runs_in, run.seed)


def _simplest(candidates: Sequence[Kind], runs_in: str) -> Kind:
    return next(kind for kind in candidates if runs_in in kind.runs_in)


def fit_kinds(
    queries: QueryFolds,
    candidates: Sequence[Kind],
    run: Run,
    what: str = "comparing kinds of models",
) -> FittedKinds:
    """These kinds, fitted by folds; the parts of a sum come before it. `what` is its progress."""
    missing = next(kind.plan.missing for kind in candidates if kind.plan is not None)
    fitted = FittedKinds(queries, missing)
    for number, kind in enumerate(candidates):

        def progress(
            message: str, done: float | None = None, number: int = number, kind: Kind = kind
        ) -> None:
            share = (number + (done or 0.0)) / len(candidates)
            run.progress(f"{what}: {kind.name}, {message}", share)

        fitted.fit(kind, replace(run, progress=progress))
    return fitted


class FittedKinds:
    """Kinds that were fitted by the folds of some queries.

    By kind, `held_out` has the models that score each fold, `scores` a score for each document, and
    `values` the mean of the metric. `weights` multiply the parts of a sum; `steps` are the
    thresholds that its trees share.
    """

    def __init__(self, queries: QueryFolds, missing: str | None) -> None:
        self.queries, self.missing = queries, missing
        self.fitted_documents = queries.data.n_documents * (1 - 1 / FOLDS)
        self.filled = queries.data if missing is None else queries.data.without_missing()
        self.steps = Steps.of(self.filled, _STEPS)
        self.fits: dict[str, FoldFits] = {}
        self.held_out: dict[str, tuple[Model, ...]] = {}
        self.scores: dict[str, Vector] = {}
        self.values: dict[str, float] = {}
        self.weights: dict[str, float] = {}

    def fit(self, kind: Kind, run: Run) -> None:
        """Fit a kind without each fold; a sum adds up what was fitted before."""
        if kind.plan is None:
            self.weights = {part: self._weight(part) for part in SUMMED}
            self.held_out[kind.name] = tuple(
                self._sum_of({part: self.held_out[part][fold] for part in SUMMED})
                for fold in self.queries.numbers
            )
        else:
            self.fits[kind.name] = self._fit(kind.name, kind.plan, run)
            self.held_out[kind.name] = self.fits[kind.name].held_out
        self.scores[kind.name] = self.queries.scores(self.held_out[kind.name])
        data = self.queries.data
        weights = uneven(data.query_importance)
        values = self.metric.mean(self.scores[kind.name], data.labels, data.offsets, weights)
        self.values[kind.name] = values

    def on(self, data: RankingDataset, kind: Kind, run: Run) -> FittedKinds:
        """The same for more queries, of which these are a sample; only an average is fitted again.

        C, the number of trees, and the weights of a sum are those of the sample.
        """
        whole = FittedKinds(QueryFolds.of(data, check_trainable(data)), self.missing)
        whole.fits, whole.values, whole.weights = self.fits, self.values, self.weights
        whole.fitted_documents = self.fitted_documents
        if kind.averaged:
            whole.fits = {kind.name: whole._fit(kind.name, self.fits[kind.name].plan, run)}
        return whole

    def _fit(self, name: str, plan: Plan, run: Run) -> FoldFits:
        return fit_by_folds(plan, replace(self.queries, data=self._data(name)), run)

    def _data(self, name: str) -> RankingDataset:
        """The data that a kind is fitted to."""
        return self.steps.floored(self.filled) if name == PAIRS else self.queries.data

    def choice(
        self, candidates: Sequence[Kind], clusters: NDArray[np.int64], runs_in: str, seed: int
    ) -> KindChoice:
        """The kind to take, and how all of them compare on the queries of the folds."""
        values = {name: self.by_query(name) for name in self.scores}
        sign = 1.0 if self.metric.higher_is_better else -1.0

        def compared(first: Kind, other: Kind) -> Comparison:
            return self.compared(values[first.name], values[other.name], clusters, seed)

        against = {kind.name: compared(kind, candidates[0]) for kind in candidates}
        results = tuple(self._result(kind, against[kind.name]) for kind in candidates)

        def height(kind: Kind) -> float:
            return sign * against[kind.name].mean_a

        allowed = [kind for kind in candidates if runs_in in kind.runs_in]
        best = max(allowed, key=height)
        kind, least = best, 0.0
        for simpler in allowed[: allowed.index(best)]:
            difference = compared(best, simpler)
            least = allowed_loss(difference)
            if sign * difference.mean_difference <= least:
                kind = simpler
                break
        why = _why(kind, best, runs_in, least)
        top = max(candidates, key=height)
        more = compared(top, kind)
        if top not in allowed and (_differ(more) or sign * more.mean_difference > _ELSEWHERE):
            place = next(place for place in RUNS_IN if place in top.runs_in)
            gain = f"{more.mean_difference:+.4f}"
            why = f"{why}; {top.name} would change it by {gain}: `runs_in` {place}"
        return KindChoice(kind, results, why)

    def by_query(self, name: str) -> Vector:
        """The metric of each query by a kind's held-out scores; NaN where it leaves one out."""
        data = self.queries.data
        return self.metric.of(RankedQueries(self.scores[name], data.labels, data.offsets))

    def compared(self, a: Vector, b: Vector, clusters: NDArray[np.int64], seed: int) -> Comparison:
        """Two rankers compared by their values on these queries."""
        counted = ~(np.isnan(a) | np.isnan(b))
        return compare_paired(
            a[counted],
            b[counted],
            seed=seed,
            weights=self.queries.data.query_importance[counted],
            span=self.metric.span,
            clusters=clusters[counted],
        )

    def trained(self, kind: Kind, run: Run, source: Mapping[str, Any] | None) -> TrainingResult:
        """The model of a kind of all queries, by the settings that the folds chose."""
        if kind.plan is None:
            return self._trained_sum(run, source)
        if not kind.averaged:
            return self._refitted(kind.name, run, source)
        models = self.fits[kind.name].models
        mean: Model = mean_of_trees(models)
        if self.missing is not None:
            mean = taking_missing_as_zero(mean, self.queries.data)
        return self._recorded(mean, self._method(kind.name, run), source)

    def _refitted(
        self, name: str, run: Run, source: Mapping[str, Any] | None = None
    ) -> TrainingResult:
        """The model of all queries, with the C or the number of trees that the folds chose."""
        fits = self.fits[name]
        plan = fits.plan
        if fits.passes:
            most, more = plan.settings[_TREES], self.queries.data.n_documents
            trees = round(fits.passes * (more / self.fitted_documents) ** _MORE_TREES)
            plan = replace(plan, settings={**plan.settings, _TREES: min(trees, most)})
        result = train_plan(self._data(name), plan, run)
        method = {
            **result.model.record,
            "validation": fits.value,
            "table": list(fits.table),
            "history": kept_history(fits.history or result.fit.history),
        }
        data, facts = self.queries.data, self.queries.facts
        model = recorded_model(result.model, method, data, facts, source)
        return replace(result, model=model, table=fits.table)

    @property
    def metric(self) -> Metric:
        """The metric that chooses."""
        return next(iter(self.fits.values())).plan.metric

    def _weight(self, part: str) -> float:
        """One over the root of the mean variance within queries of what was held out."""
        scores = self.scores[part].astype(np.float32)[:, None]
        held_out = replace(self.queries.data, features=scores, feature_names=(part,))
        deviation = float(deviation_within_queries(held_out)[0])
        return 1.0 / deviation if deviation > 0 else 0.0

    def _sum_of(self, models: Mapping[str, Any]) -> TreeModel:
        """One forest whose scores are the weighted sum of the parts'."""
        *curves, trees = ((models[part], self.weights[part]) for part in SUMMED)
        stepped = self.steps.forest_of(curves, self.filled)
        if stepped is None:
            return sum_of_forests([trees[0]], [trees[1]])
        return sum_of_forests([stepped, trees[0]], [1.0, trees[1]])

    def _trained_sum(self, run: Run, source: Mapping[str, Any] | None) -> TrainingResult:
        models = {part: self._refitted(part, run).model for part in SUMMED}
        whole = self._sum_of(models)
        pairs = {key: own for key, own in models[PAIRS].record.items() if key == "interactions"}
        whole = replace(whole, record=pairs)
        parts = {
            part: {"weight": self.weights[part], **{key: model.record[key] for key in _OF_A_PART}}
            for part, model in models.items()
        }
        record, value = models[LINEAR].record, self.values[SUM]
        shared = {key: record[key] for key in _SHARED if key in record}
        method = {**shared, "parts": parts, "validation": value, "table": [{"validation": value}]}
        return self._recorded(whole, method, source)

    def _method(self, name: str, run: Run) -> dict[str, Any]:
        """What a record says of the mean of the models of the folds."""
        fits = self.fits[name]
        plan = fits.plan
        pair = plan.make(plan.candidates()[0])
        reason = f"the mean of {FOLDS} models, each without one of {FOLDS} folds"
        certificate = Certificate(float("nan"), passes=fits.passes, stop_reason=reason)
        return {
            **record_of_method(*pair, "optimizer", plan.metric, run, **plan.columns_record),
            "validation": fits.value,
            "certificate": certificate.as_dict(),
            "table": list(fits.table),
            "history": kept_history(fits.history),
        }

    def _recorded(
        self, model: Model, method: dict[str, Any], source: Mapping[str, Any] | None
    ) -> TrainingResult:
        data, facts = self.queries.data, self.queries.facts
        warnings = [f"validation: {text}" for text in unused_weights(data)]
        warnings += ranking_warnings(model, data)
        recorded = recorded_model(model, {**method, "warnings": warnings}, data, facts, source)
        return TrainingResult(
            model=recorded,
            fit=Fit(recorded, Certificate(float("nan"))),
            settings={},
            table=tuple(method["table"]),
            warnings=tuple(warnings),
            constant_features=tuple(
                facts.constant(data.feature_names, filled=self.missing is not None)
            ),
        )

    def _result(self, kind: Kind, comparison: Comparison) -> KindResult:
        models = self.held_out[kind.name]
        forests = [getattr(model, "forest", None) for model in models]
        return KindResult(
            kind.name,
            comparison.mean_a,
            comparison.mean_difference,
            comparison.low,
            comparison.high,
            p=comparison.p_permutation,
            runs_in=kind.words,
            used=float(np.mean([len(features_used(model)) for model in models])),
            trees=float(
                np.mean([0 if forest is None else len(forest.roots) for forest in forests])
            ),
        )


def _differ(comparison: Comparison) -> bool:
    return not comparison.includes_zero and comparison.p_permutation < LEVEL


def allowed_loss(best: Comparison) -> float:
    """How much less than the best a simpler kind may have: a part of the noise of the two."""
    error = (best.high - best.low) / (2 * _HALF_WIDTH)
    return min(_MOST_LOSS, error / 2)


def _why(kind: Kind, best: Kind, where: str, allowed: float) -> str:
    place = {"engine": "every engine", "plugin": "an engine with the LTR plugin"}.get(where)
    of = f" of those that run in {place}" if place else ""
    if kind is best:
        return f"the best{of}"
    return f"the simplest{of} within {allowed:.4f} of the best ({best.name})"
