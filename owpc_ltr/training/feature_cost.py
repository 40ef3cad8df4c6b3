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

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.metrics import Metric, parse_metric, uneven
from owpc_ltr.models.feature_use import features_used
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.model_file import with_record
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model, Run
from owpc_ltr.signatures import public
from owpc_ltr.text import ShortRepr
from owpc_ltr.training.candidates import TrainingResult, train_plan
from owpc_ltr.training.options import FEATURE_PRICE
from owpc_ltr.training.plan import Plan, means_of


@dataclass(frozen=True, repr=False)
class Costs(ShortRepr):
    """Milliseconds of each feature, and how much of the metric one millisecond is worth.

    A feature that is not named costs nothing; a negative cost (noise of a measurement) is 0.
    `derived` names the features that others are derived from, which are computed then too. With
    `keep_gain` there is no price: it is the share that is kept of what all features gain over the
    feature `baseline` alone, by default the one that ranks the validation queries best; or, where
    it is a number, over a ranker with that validation metric.
    """

    milliseconds: Mapping[str, float]
    price: float
    derived: Mapping[str, Collection[str]] = field(default_factory=dict)
    keep_gain: float | None = None
    baseline: str | float | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.price) and self.price >= 0):
            raise UsageError(f"the price of a millisecond is 0 or more, not {self.price}")
        if self.keep_gain is not None and not 0 < self.keep_gain <= 1:
            raise UsageError(
                f"the share of the gain to keep is above 0, and 1 at most, not {self.keep_gain}"
            )
        if self.baseline is not None and self.keep_gain is None:
            raise UsageError(
                "a baseline is for a share of the gain: give that, as keep_gain=.95, too"
            )

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


@dataclass(frozen=True)
class SelectionAim:
    """Which model of a path is chosen, and what a millisecond is worth on the way.

    `over` names what a gain is over, whose metric is `floor`; `gain` is that of all features.
    Values of the metric are the higher the better here.
    """

    metric: Metric
    price: float
    keep_gain: float | None = None
    over: str | None = None
    floor: float = 0.0
    gain: float = 0.0

    def worth(self, value: float, milliseconds: float) -> float:
        """The metric less the price of the features; or the share of the gain."""
        if self.keep_gain is None:
            return value - self.price * milliseconds
        return (value - self.floor) / self.gain

    def best(self, path: Sequence[tuple[float, float]]) -> int:
        """Which of the models is chosen, by (worth, milliseconds); of equal ones the last."""
        places = range(len(path))
        if self.keep_gain is None:
            return max(places, key=lambda place: (path[place][0], place))
        enough = [place for place in places if path[place][0] >= self.keep_gain]
        return min(enough, key=lambda place: (path[place][1], -place))

    def as_dict(self) -> dict[str, Any]:
        """The aim as JSON."""
        if self.keep_gain is None:
            return {"price": self.price}
        return {"keep_gain": self.keep_gain, "over": self.over, "gain": self.gain}


def aim_of(costs: Costs, metric: Metric, model: Model, validation: RankingDataset) -> SelectionAim:
    """What is aimed at, by the model of all features on the validation queries.

    Raises Refused where a share of a gain is to be kept, and there is none.
    """
    if costs.keep_gain is None:
        return SelectionAim(metric, costs.price)
    over, floor = _baseline(costs.baseline, metric, validation)
    gain = signed(means_of([metric], model, validation)[0], metric) - floor
    if not gain > 0:
        raise Refused(
            f"there is no gain to keep a share of: on the validation queries {over} is as good as "
            "the model of all features; price their milliseconds, or train otherwise"
        )
    whole = costs.of(frozenset(validation.feature_names))
    price = gain / whole if whole else 0.0
    return SelectionAim(metric, price, costs.keep_gain, over, floor=floor, gain=gain)


def _baseline(
    over: str | float | None, metric: Metric, validation: RankingDataset
) -> tuple[str, float]:
    """What a gain is over, in words, and its metric."""
    if isinstance(over, int | float):
        return "the ranker that it is over", signed(over, metric)
    # A feature that is missing counts 0, as in the engine.
    columns = np.nan_to_num(validation.features, nan=0.0)
    alone = {
        name: _measured(metric, columns[:, place].astype(np.float64), validation)
        for place, name in enumerate(validation.feature_names)
        if over in {None, name}
    }
    best = max(alone, key=alone.__getitem__)
    return f"'{best}' alone", alone[best]


def signed(value: float, metric: Metric) -> float:
    """The metric, or its negative where low is good."""
    return value if metric.higher_is_better else -value


def _measured(metric: Metric, scores: Any, data: RankingDataset) -> float:
    weights = uneven(data.query_weights)
    return signed(metric.mean(scores, data.labels, data.offsets, weights), metric)


@public
def read_costs(
    path: Path | str,
    price: float | None = None,
    *,
    keep_gain: float | None = None,
    baseline: str | float | None = None,
) -> Costs:
    """Costs of features for `train`: what `profile --json` printed, or {"feature": milliseconds}.

    `price` is what a millisecond must gain of the metric that chooses. With `keep_gain` instead,
    the cheapest model is chosen that keeps this share of what all features gain over the feature
    `baseline` alone (by default the one that ranks best), or over that validation metric.
    """
    if price is not None and keep_gain is not None:
        raise UsageError("a price and a share of the gain are two ways to choose: give one")
    path, derived = Path(path), {}
    content = read_json_object(path)
    if isinstance(content.get("features"), list):
        derived = _derived(content.get("derived", {}), path)
        content = _profiled(content["features"], path)
    for name, cost in content.items():
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not abs(cost) < 1e9:
            raise BadInput(f"{path}: the cost of '{name}' is {cost!r}, not milliseconds")
    return Costs(content, FEATURE_PRICE if price is None else price, derived, keep_gain, baseline)


def _profiled(features: list[Any], path: Path) -> dict[str, Any]:
    try:
        return {str(feature["feature"]): feature["milliseconds"] for feature in features}
    except (KeyError, TypeError) as error:
        raise BadInput(f"{path} is not what profile --json prints: {error}") from error


def _derived(content: Any, path: Path) -> dict[str, list[str]]:
    """The features that each derived one comes from."""
    lists = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(each, list) and all(isinstance(n, str) for n in each) for each in lists):
        raise BadInput(f"{path} is not what profile --json prints: 'derived' names no features")
    return dict(content)


_TRIED = 5
_OF_THE_DATA = ("fingerprint", "feature_ranges", "source", "probes")
"""What a record says of the data, which a model trained on some of its columns saw in part."""


@dataclass(frozen=True)
class SelectionStep:
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

    trained: TrainingResult
    kept: tuple[str, ...]
    path: tuple[SelectionStep, ...]


def train_at_cost(
    data: RankingDataset,
    plan: Plan,
    run: Run,
    validation: RankingDataset | None,
    costs: Costs,
    *,
    source: Mapping[str, Any] | None = None,
) -> Selected:
    """Train along the path and keep the model that is worth most.

    Settings are chosen once, with all features. Raises UsageError without validation queries,
    BadInput for costs of other features, Refused for models of a kind that mixes its features.
    """
    if validation is None:
        raise UsageError(
            "features are priced on validation queries: give validation queries, or a share of the "
            "data"
        )
    baseline = {costs.baseline} if isinstance(costs.baseline, str) else set[str]()
    named = baseline.union(costs.milliseconds, costs.derived)
    unknown = sorted(named - set(data.feature_names))
    if unknown:
        raise BadInput(f"the costs name '{unknown[0]}', which is no feature of the data")
    trained = train_plan(data, plan, run, validation, source)
    aim = aim_of(costs, parse_metric(plan.select), trained.model, validation)
    plan = replace(plan, settings={**plan.settings, **trained.settings}, grid={})

    def train_on(in_use: frozenset[str]) -> TrainingResult:
        sides = [_blanked(side, in_use) for side in (data, validation)]
        return _using(train_plan(sides[0], plan, run, sides[1], source), in_use)

    models = _path(trained, train_on, validation, costs, aim)
    path = tuple(step for step, _, _ in models)
    whole = trained.model.record
    _, trained, in_use = models[aim.best([(step.worth, step.milliseconds) for step in path])]
    kept = tuple(name for name in data.feature_names if name in in_use)
    selection = {**aim.as_dict(), "kept": list(kept), "path": [asdict(step) for step in path]}
    # What the record says of the data is of that with all features, as it was given.
    of_the_data = {key: whole[key] for key in _OF_THE_DATA}
    record = {**trained.model.record, **of_the_data, "feature_cost": selection}
    # Features that were left out on purpose are no surprise.
    constant = models[0][1].constant_features
    model = with_record(trained.model, record)
    return Selected(replace(trained, model=model, constant_features=constant), kept, path)


def _path(
    trained: TrainingResult,
    train_on: Callable[[frozenset[str]], TrainingResult],
    validation: RankingDataset,
    costs: Costs,
    aim: SelectionAim,
) -> list[tuple[SelectionStep, TrainingResult, frozenset[str]]]:
    """The models on the way from all features to one: each as a step, and its features.

    `trained` uses all features; `train_on` makes a model that looks at some of them only.
    """
    metric = aim.metric
    models: list[tuple[SelectionStep, TrainingResult, frozenset[str]]] = []
    dropped: str | None = None
    in_use = frozenset(trained.model.feature_names)
    while True:
        # A feature that the model does not use is free to go.
        in_use &= _used(trained.model)
        value, milliseconds = means_of([metric], trained.model, validation)[0], costs.of(in_use)
        worth = aim.worth(signed(value, metric), milliseconds)
        step = SelectionStep(dropped, len(in_use), milliseconds, value, worth)
        models.append((step, trained, in_use))
        if len(in_use) <= 1:
            return models
        saved = {name: milliseconds - costs.of(in_use - {name}) for name in in_use}
        prices = {name: aim.price * saved[name] for name in sorted(in_use)}
        tried: dict[str, tuple[float, TrainingResult]] = {}
        for name in _spared(trained.model, validation, metric, prices):
            other = train_on(in_use - {name})
            worth = signed(means_of([metric], other.model, validation)[0], metric) + prices[name]
            tried[name] = worth, other
        dropped = max(tried, key=lambda name: tried[name][0])
        in_use, trained = in_use - {dropped}, tried[dropped][1]


def _spared(
    model: Model, validation: RankingDataset, metric: Metric, prices: Mapping[str, float]
) -> list[str]:
    """The features without whose values this model is worth most, and the dearest of all."""
    features = validation.features.copy()
    worth = {}
    for name, price in prices.items():
        column = validation.feature_names.index(name)
        features[:, column] = np.nan
        worth[name] = _measured(metric, model.score(features), validation) + price
        features[:, column] = validation.features[:, column]
    best = sorted(worth, key=worth.__getitem__, reverse=True)
    if isinstance(model, TreeModel):
        return best[:1]
    # What a model leans on most may be what it needs least once it is trained without.
    return list(dict.fromkeys([*best[:_TRIED], max(prices, key=prices.__getitem__)]))


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
        "a price takes features out of linear, additive and tree models, and this is a "
        f"{model.kind} model: train without it"
    )
