"""Feature selection: a model of at most so many features, by validation queries and their cost.

Backward elimination: train with all features, leave out the one whose loss is least for what it
costs, train again, until so many are left. The loss is first told by the model as it is, for all
features; the few that look best, and the most expensive one, are then trained without, one at a
time, for others may stand in for them (of trees, which take long to train, the best one only).
Saving a share of the cost makes up for losing the same share of what all features gain over the
best single one. Features were left out by the validation queries, so that their metric flatters a
little: measure on others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.metrics import Metric, uneven
from owpc_ltr.models.analysis import features_used
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.model_file import with_record
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.fitting import TrainingResult, train_plan
from owpc_ltr.training.plan import Plan, means_of


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
