"""What training chooses where nobody did: the kind of model, and few features.

The choice that `train` makes where nobody chose: which kind of model, by folds of the data. The
kinds are few and go from simple to complex. Each is trained with its defaults without each fold of
the queries, and measured on all of them. Of those that run where the model is to run, the simplest
is chosen that is not significantly worse than the best.

Feature selection: a model of at most so many features, by validation queries and their cost.
Backward elimination: train with all features, leave out the one whose loss is least for what it
costs, train again, until so many are left. The loss is first told by the model as it is, for all
features; the few that look best, and the most expensive one, are then trained without, one at a
time, for others may stand in for them (of trees, which take long to train, the best one only).
Saving a share of the cost makes up for losing the same share of what all features gain over the
best single one. Features were left out by the validation queries, so that their metric flatters a
little: measure on others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.data.splits import clusters_of, fold_of_queries, query_positions
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.significance import LEVEL, Comparison, compare_paired
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.metrics import Metric, RankedQueries, uneven
from owpc_ltr.models.analysis import features_used
from owpc_ltr.models.combined import scores_by_fold
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.model_file import with_record
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.fitting import (
    TrainingResult,
    check_trainable,
    goes_through_parts,
    model_of_queries,
    train_plan,
)
from owpc_ltr.training.plan import MetricChoice, Plan, levels_of, means_of

FOLDS = 3
FEWEST_QUERIES = 30
"""Fewer independent queries show no difference between kinds: the simplest is taken."""
MOST_DOCUMENTS = 50_000
"""Of more, a sample of the queries is compared."""
_PAIRS = 20
_MOST_TABLES = 64
"""As many features and pairs of them run inside an engine."""
_MOST_CURVES = 200
"""Of more features no curves are tried: each has several columns, all of them in memory."""
RUNS_IN = ("engine", "plugin", "client")


@dataclass(frozen=True)
class Kind:
    """A kind of model: its plan, and where it runs, in one word for each place and in many."""

    name: str
    plan: Plan
    runs_in: frozenset[str]
    words: str


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


class KindChoice(NamedTuple):
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
    linear = make()
    metric = linear.metric
    measure = metric.name if metric.name in {"map", "mrr"} else "ndcg"
    everywhere, interactions = frozenset(RUNS_IN), min(_PAIRS, _MOST_TABLES - n_features)
    kinds_of_model = [Kind("linear", linear, everywhere, "engine")]
    if n_features <= _MOST_CURVES:
        curves = make(piecewise_linear=True)
        places = frozenset({"engine", "client"})
        kinds_of_model.append(Kind("piecewise-linear", curves, places, "engine, script"))
    boosted = partial(make, loss="lambdarank", optimizer="boosting")
    settings: dict[str, Any] = {"loss.measure": measure}
    if interactions > 0:
        small = {"depth": 2, "bins": 64, "interactions": interactions}
        small = {f"optimizer.{name}": value for name, value in small.items()}
        pairs = boosted(settings={**settings, **small})
        kinds_of_model.append(Kind("interaction trees", pairs, everywhere, "engine"))
    places = frozenset({"plugin", "client"})
    return [
        *kinds_of_model,
        Kind("boosted trees", boosted(settings=settings), places, "plugin, client"),
    ]


def metric_for(data: RankingDataset) -> str:
    """The metric that chooses where none is named: by all grades, if there are several."""
    levels = levels_of(data)
    return "ndcg@10" if len(levels) > 2 or levels[0] > 0 else "map"


def choose_kind(
    data: JudgedTable,
    make: Callable[..., Plan],
    metric: MetricChoice | None,
    runs_in: str,
    validation_share: float,
    run: Run,
) -> KindChoice:
    """The kind of model for these queries, none of which it will be measured on.

    `make` makes plans; `metric` chooses, by default one for the labels. Raises UsageError where
    `runs_in` is no place.
    """
    if runs_in not in RUNS_IN:
        raise UsageError(f"no model runs in '{runs_in}': choose among {', '.join(RUNS_IN)}")
    sample = _sample(data)
    check_trainable(sample)
    metric = metric_for(sample) if metric is None else metric
    candidates = []
    for kind in kinds(partial(make, metric=metric), sample.n_features):
        # Only those that go through data in parts, or may load them.
        with suppress(UsageError):
            goes_through_parts(kind.plan, data, data)
            candidates.append(kind)
    allowed = [kind for kind in candidates if runs_in in kind.runs_in]
    clusters = clusters_of(sample)
    independent = len(np.unique(clusters))
    if independent < FEWEST_QUERIES:
        why = f"{independent} independent queries are too few to compare kinds of models"
        return KindChoice(allowed[0], (), why)
    try:
        trained = _trained(sample, candidates, validation_share, run)
    except (BadInput, Refused) as error:
        why = f"kinds of models cannot be compared on parts of these queries ({error})"
        return KindChoice(allowed[0], (), why)
    chooses = candidates[0].plan.metric
    values = {
        name: chooses.of(RankedQueries(scores, sample.labels, sample.offsets))
        for name, (_, scores) in trained.items()
    }

    def compared(first: Kind, other: Kind) -> Comparison:
        a, b = values[first.name], values[other.name]
        counted = ~(np.isnan(a) | np.isnan(b))
        return compare_paired(
            a[counted],
            b[counted],
            seed=run.seed,
            weights=sample.query_importance[counted],
            span=chooses.span,
            clusters=clusters[counted],
        )

    results = tuple(
        _result(kind, compared(kind, candidates[0]), trained[kind.name][0]) for kind in candidates
    )
    sign = 1.0 if chooses.higher_is_better else -1.0
    means = {result.kind: sign * result.mean for result in results}
    best = max(allowed, key=lambda kind: means[kind.name])
    kind = next(kind for kind in allowed if kind is best or not _differ(compared(best, kind)))
    why = _why(kind, best, runs_in)
    top = max(candidates, key=lambda kind: means[kind.name])
    more = compared(top, kind)
    if top not in allowed and _differ(more):
        place = next(place for place in RUNS_IN if place in top.runs_in)
        gain = f"{more.mean_difference:+.4f}"
        why = f"{why}; {top.name} would change it by {gain}: `runs_in` {place}"
    return KindChoice(kind, results, why)


def _trained(
    data: RankingDataset, candidates: Sequence[Kind], validation_share: float, run: Run
) -> dict[str, tuple[list[Model], Vector]]:
    """By kind a model without each fold of the queries, and the scores that these give theirs."""
    fold = fold_of_queries(data, FOLDS, "owpc-ltr kinds")
    rest = [data.select(np.flatnonzero(fold != turn)) for turn in range(FOLDS)]
    quiet = Run(seed=run.seed, threads=run.threads)
    trained = {}
    for number, kind in enumerate(candidates):
        models = []
        for turn, queries in enumerate(rest):
            run.progress(
                f"comparing kinds of models: {kind.name}, fold {turn + 1} of {FOLDS}",
                (number * FOLDS + turn) / (len(candidates) * FOLDS),
            )
            models.append(model_of_queries(queries, kind.plan, quiet, validation_share))
        trained[kind.name] = models, scores_by_fold(data, fold, dict(enumerate(models)))
    return trained


def _differ(comparison: Comparison) -> bool:
    return not comparison.includes_zero and comparison.p_permutation < LEVEL


def _result(kind: Kind, comparison: Comparison, models: Sequence[Model]) -> KindResult:
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
        trees=float(np.mean([0 if forest is None else len(forest.roots) for forest in forests])),
    )


def _why(kind: Kind, best: Kind, where: str) -> str:
    place = {"engine": "every engine", "plugin": "an engine with the LTR plugin"}.get(where)
    of = f" of those that run in {place}" if place else ""
    if kind is best:
        return f"the best{of}"
    return f"the simplest{of} that is not significantly worse than the best ({best.name})"


def _sample(data: JudgedTable) -> RankingDataset:
    """At most so many documents, of queries that are drawn by the hash of their ids."""
    order = np.argsort(query_positions(data, "owpc-ltr sample"), kind="stable")
    count = max(FEWEST_QUERIES, int(data.n_queries * MOST_DOCUMENTS / max(1, data.n_documents)))
    part = data.select(np.sort(order[:count])) if count < data.n_queries else data
    return part.load()


@dataclass(frozen=True)
class Costs:
    """Milliseconds of each feature.

    A feature that is not named costs nothing; a negative cost (noise of a measurement) is 0.
    `derived` names the features that others are derived from, which are computed then too.
    """

    milliseconds: Mapping[str, float] = field(default_factory=dict)
    derived: Mapping[str, Collection[str]] = field(default_factory=dict)

    def of(self, names: frozenset[str]) -> float:
        """What these features cost together, each that is computed once."""
        computed: set[str] = set()
        waiting = sorted(names)
        while waiting:
            name = waiting.pop()
            if name not in computed:
                computed.add(name)
                waiting += self.derived.get(name, ())
        return float(sum(max(0.0, self.milliseconds.get(name, 0.0)) for name in sorted(computed)))


def costs_of(given: Mapping[str, Any] | Path | str) -> Costs:
    """Costs of features: what `profile` measured, or {"feature": milliseconds}, or a file of it."""
    source, content = "the cost of features", given
    if isinstance(content, Path | str):
        source, content = str(content), read_json_object(Path(content))
    derived: dict[str, list[str]] = {}
    if isinstance(content.get("features"), list):
        derived = _derived(content.get("derived", {}), source)
        content = _profiled(content["features"], source)
    for name, cost in content.items():
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not abs(cost) < 1e9:
            raise BadInput(f"{source}: the cost of '{name}' is {cost!r}, not milliseconds")
    return Costs(content, derived)


def _profiled(features: list[Any], source: str) -> dict[str, Any]:
    try:
        return {str(feature["feature"]): feature["milliseconds"] for feature in features}
    except (KeyError, TypeError) as error:
        raise BadInput(f"{source} is not the JSON that profile prints: {error}") from error


def _derived(content: object, source: str) -> dict[str, list[str]]:
    """The features that each derived one comes from."""
    content = content if isinstance(content, dict) else {"": None}
    lists = content.values()
    if not all(isinstance(each, list) and all(isinstance(n, str) for n in each) for each in lists):
        raise BadInput(f"{source} is not the JSON that profile prints: 'derived' names no features")
    return dict(content)


class FewFeatures(NamedTuple):
    """The most features of a model, and what each costs, where that counts."""

    most: int
    costs: Costs | None


def few_features(
    max_features: int | None, feature_cost: Mapping[str, Any] | Path | str | None
) -> FewFeatures | None:
    """What was asked of the number of features. Raises UsageError for costs alone."""
    if max_features is not None:
        if max_features < 1:
            raise UsageError(f"`max_features` is 1 or more, not {max_features}")
        return FewFeatures(max_features, None if feature_cost is None else costs_of(feature_cost))
    if feature_cost is None:
        return None
    raise UsageError("`feature_cost` decides which features `max_features` leaves out: give both")


_TRIED = 5
_OF_THE_DATA = ("fingerprint", "feature_ranges", "source", "probes")
"""What a record says of the data, which a model trained on some of its columns saw in part."""


def train_on_few_features(
    data: RankingDataset,
    plan: Plan,
    run: Run,
    validation: RankingDataset | None,
    *,
    max_features: int,
    costs: Costs | None = None,
    source: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """Train along a path until a model, which has all columns, uses `max_features` at most.

    Settings are chosen once, with all features. The record's `path` has a row for each model: the
    feature `dropped` before it was trained, which lost least for its cost (None: with all), those
    that it does not use (`unused`), which are left out from here on, how many are left, what they
    cost, and how good it is on validation. Raises UsageError without validation queries,
    BadInput for costs of other features, Refused for models of a kind that mixes its features.
    """
    if validation is None:
        raise UsageError(
            "features are left out by validation queries: give validation queries, or a share of "
            "the data"
        )
    costs = costs or Costs()
    unknown = sorted({*costs.milliseconds, *costs.derived} - set(data.feature_names))
    if unknown:
        raise BadInput(f"the costs name '{unknown[0]}', which is not a feature of the data")
    first = train_plan(data, plan, run, validation, source)
    plan = replace(plan, settings={**plan.settings, **first.settings}, grid={})

    def train_on(in_use: frozenset[str]) -> TrainingResult:
        sides = [_blanked(side, in_use) for side in (data, validation)]
        return _using(train_plan(sides[0], plan, run, sides[1], source), in_use)

    metric = plan.metric
    path: list[dict[str, Any]] = []
    worth = _worth_of_a_millisecond(costs, metric, first.model, validation)
    trained, dropped, in_use = first, None, frozenset(data.feature_names)
    while True:
        used = in_use & _used(trained.model)
        unused, in_use = tuple(sorted(in_use - used)), used
        value = means_of([metric], trained.model, validation)[0]
        path.append(
            {
                "dropped": dropped,
                "unused": unused,
                "features": len(in_use),
                "milliseconds": costs.of(in_use),
                "validation": value,
            }
        )
        if len(in_use) <= max_features:
            break
        saved = {name: costs.of(in_use) - costs.of(in_use - {name}) for name in sorted(in_use)}
        saved = {name: worth * milliseconds for name, milliseconds in saved.items()}
        dropped, trained = _next(trained.model, train_on, validation, metric, saved)
        in_use -= {dropped}
    selection = {
        "max_features": max_features,
        "milliseconds": dict(costs.milliseconds),
        "kept": [name for name in data.feature_names if name in in_use],
        "path": path,
    }
    # What the record says of the data is of that with all features, as it was given.
    of_the_data = {key: first.model.record[key] for key in _OF_THE_DATA}
    record = {**trained.model.record, **of_the_data, "feature_selection": selection}
    model = with_record(trained.model, record)
    # Features that were left out on purpose are no surprise.
    return replace(trained, model=model, constant_features=first.constant_features)


def _worth_of_a_millisecond(
    costs: Costs, metric: Metric, model: Model, validation: RankingDataset
) -> float:
    """What all features gain of the metric over the best single one, per millisecond."""
    whole = costs.of(frozenset(validation.feature_names))
    if not whole:
        return 0.0
    # A feature that is missing counts 0, as in the engine.
    columns = np.nan_to_num(validation.features, nan=0.0).astype(np.float64).T
    best = max(_measured(metric, column, validation) for column in columns)
    return max(0.0, _measured(metric, model.score(validation.features), validation) - best) / whole


def _next(
    model: Model,
    train_on: Callable[[frozenset[str]], TrainingResult],
    validation: RankingDataset,
    metric: Metric,
    saved: Mapping[str, float],
) -> tuple[str, TrainingResult]:
    """The feature to leave out next, and the model without it.

    `saved` is what each feature's cost is worth, in units of the metric.
    """
    tried: dict[str, tuple[float, TrainingResult]] = {}
    for name in _spared(model, validation, metric, saved):
        trained = train_on(frozenset(saved) - {name})
        value = _measured(metric, trained.model.score(validation.features), validation)
        tried[name] = value + saved[name], trained
    dropped = max(tried, key=lambda name: tried[name][0])
    return dropped, tried[dropped][1]


def _spared(
    model: Model, validation: RankingDataset, metric: Metric, saved: Mapping[str, float]
) -> list[str]:
    """The features without whose values this model is worth most, and the most expensive."""
    features = validation.features.copy()
    worth = {}
    for name, cost in saved.items():
        column = validation.feature_names.index(name)
        features[:, column] = np.nan
        worth[name] = _measured(metric, model.score(features), validation) + cost
        features[:, column] = validation.features[:, column]
    best = sorted(worth, key=worth.__getitem__, reverse=True)
    if isinstance(model, TreeModel):
        return best[:1]
    # What a model leans on most may be what it needs least once it is trained without.
    expensive = [max(saved, key=saved.__getitem__)] if any(saved.values()) else []
    return list(dict.fromkeys([*best[:_TRIED], *expensive]))


def _measured(metric: Metric, scores: Vector, data: RankingDataset) -> float:
    """The mean of the metric, or its negative where low is good."""
    value = metric.mean(scores, data.labels, data.offsets, uneven(data.query_weights))
    return value if metric.higher_is_better else -value


def _using(trained: TrainingResult, in_use: frozenset[str]) -> TrainingResult:
    """The model of all columns, which looks at these features only."""
    model = trained.model
    if isinstance(model, LinearModel):
        # What an optimizer leaves on a column of zeros is nothing, or noise.
        keep = np.array([name in in_use for name in model.feature_names])
        model = replace(model, weights=np.where(keep, model.weights, 0.0))
    return replace(trained, model=model)


def _blanked(data: RankingDataset, in_use: frozenset[str]) -> RankingDataset:
    features = data.features.copy()
    features[:, [name not in in_use for name in data.feature_names]] = 0
    return replace(data, features=features)


def _used(model: Model) -> frozenset[str]:
    """The features that a model looks at."""
    if isinstance(model, LinearModel | TreeModel | AdditiveModel):
        return features_used(model)
    raise Refused(
        f"`max_features` leaves features out of linear, additive and tree models, "
        f"and this is a {model.kind} model: train without it"
    )
