"""Feature selection: how much quality is worth the time that features cost in each search.

Backward elimination: train with all features, take out the one whose loss is least for what it
costs, train again, down to one. The loss is first told by the model as it is, for all features; the
few that look best, and the dearest one, are then trained without, one at a time, for others may
stand in for them (of trees, which take long to train, the best one only). Of the models on this
path, that with the best validation metric less the price of its features is kept; or the cheapest
that keeps a share of the gain. The path was chosen on the validation queries, so that their metric
flatters a little: measure on others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.metrics import Metric, parse_metric, uneven
from owpc_ltr.models.additive import AdditiveModel
from owpc_ltr.models.features_used import features_used
from owpc_ltr.models.linear import LinearModel, with_record
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.feature_worth import Aim, Costs, aim_of, signed
from owpc_ltr.training.train import Plan, Trained, train

_TRIED = 5
_OF_THE_DATA = ("fingerprint", "feature_ranges", "source", "probes")
"""What a record says of the data, which a model trained on some of its columns saw in part."""


@dataclass(frozen=True)
class Step:
    """A model on the path: its features, what they cost, and how good it is on validation.

    `worth` is the metric (or its negative, where low is good) less the price of the features;
    with `Costs.keep_gain`, the share of the gain.
    """

    dropped: str | None
    features: int
    milliseconds: float
    validation: float
    worth: float


@dataclass(frozen=True)
class Selected:
    """The chosen model, which has all columns but uses only `kept`; and the whole path."""

    trained: Trained
    kept: tuple[str, ...]
    path: tuple[Step, ...]


def train_at_cost(
    data: RankingDataset,
    plan: Plan,
    run: Run,
    validation: RankingDataset | None,
    costs: Costs,
    source: Mapping[str, Any] | None = None,
) -> Selected:
    """Train along the path and keep the model that is worth most.

    Settings are chosen once, with all features. Raises UsageError without validation queries,
    BadInput for costs of other features, Refused for models of a kind that mixes its features.
    """
    if validation is None:
        raise UsageError(
            "--feature-cost chooses on validation queries: give --validation, or a share"
        )
    over = {costs.over} if isinstance(costs.over, str) else set[str]()
    named = over.union(costs.milliseconds, costs.derived)
    strange = sorted(named - set(data.feature_names))
    if strange:
        raise BadInput(f"the costs name '{strange[0]}', which is no feature of the data")
    trained = train(data, plan, run, validation, source)
    aim = aim_of(costs, parse_metric(plan.select), trained.model, validation)
    plan = replace(plan, settings={**plan.settings, **trained.settings}, grid={})
    found = _path(data, plan, run, validation, costs, aim, trained, source)
    path = tuple(step for step, _, _ in found)
    _, trained, in_use = found[aim.best([(step.worth, step.milliseconds) for step in path])]
    kept = tuple(name for name in data.feature_names if name in in_use)
    whole = found[0][1]
    return Selected(_recorded(trained, whole, aim, kept, path), kept, path)


def _path(
    data: RankingDataset,
    plan: Plan,
    run: Run,
    validation: RankingDataset,
    costs: Costs,
    aim: Aim,
    trained: Trained,
    source: Mapping[str, Any] | None,
) -> list[tuple[Step, Trained, frozenset[str]]]:
    """The models on the way from all features to one: each as a step, and its features."""
    metric = parse_metric(plan.select)
    found: list[tuple[Step, Trained, frozenset[str]]] = []
    dropped: str | None = None
    in_use = frozenset(data.feature_names)
    while True:
        # A feature that the model does not use is free to go.
        in_use &= _used(trained.model)
        value, milliseconds = _value(trained.model, validation, metric), costs.of(in_use)
        worth = aim.worth(signed(value, metric), milliseconds)
        found.append((Step(dropped, len(in_use), milliseconds, value, worth), trained, in_use))
        if len(in_use) <= 1:
            return found
        saved = {name: milliseconds - costs.of(in_use - {name}) for name in in_use}
        prices = {name: aim.price * saved[name] for name in sorted(in_use)}
        tried: dict[str, tuple[float, Trained]] = {}
        for name in _spared(trained.model, validation, metric, prices):
            other = _train_on(data, plan, run, validation, in_use - {name}, source)
            worth = signed(_value(other.model, validation, metric), metric) + prices[name]
            tried[name] = worth, other
        dropped = max(tried, key=lambda name: tried[name][0])
        in_use, trained = in_use - {dropped}, tried[dropped][1]


def _spared(
    model: Model, validation: RankingDataset, metric: Metric, prices: Mapping[str, float]
) -> list[str]:
    """The features without whose values this model is worth most, and the dearest of all."""
    features, weights = validation.features.copy(), uneven(validation.query_weights)
    worth = {}
    for name, price in prices.items():
        column = validation.feature_names.index(name)
        features[:, column] = np.nan
        value = metric.mean(model.score(features), validation.labels, validation.offsets, weights)
        features[:, column] = validation.features[:, column]
        worth[name] = signed(value, metric) + price
    best = sorted(worth, key=worth.__getitem__, reverse=True)
    if isinstance(model, TreeModel):
        return best[:1]
    # What a model leans on most may be what it needs least once it is trained without.
    return list(dict.fromkeys([*best[:_TRIED], max(prices, key=prices.__getitem__)]))


def _value(model: Model, data: RankingDataset, metric: Metric) -> float:
    weights = uneven(data.query_weights)
    return metric.mean(model.score(data.features), data.labels, data.offsets, weights)


def _train_on(
    data: RankingDataset,
    plan: Plan,
    run: Run,
    validation: RankingDataset,
    in_use: frozenset[str],
    source: Mapping[str, Any] | None,
) -> Trained:
    """A model of all columns that looks at these features only."""
    sides = [_blanked(side, in_use) for side in (data, validation)]
    trained = train(sides[0], plan, run, sides[1], source)
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
        f"--feature-cost takes features out of linear, additive and tree models, and this is a "
        f"{model.kind} model: train without it"
    )


def _recorded(
    trained: Trained,
    whole: Trained,
    aim: Aim,
    kept: tuple[str, ...],
    path: tuple[Step, ...],
) -> Trained:
    """What the record says of the data is of that with all features, as it was given."""
    record = {
        **trained.model.record,
        **{key: whole.model.record[key] for key in _OF_THE_DATA},
        "feature_cost": {
            **aim.as_dict(),
            "kept": list(kept),
            "path": [asdict(step) for step in path],
        },
    }
    # Features that were left out on purpose are no surprise.
    model = with_record(trained.model, record)
    return replace(trained, model=model, silent_features=whole.silent_features)
