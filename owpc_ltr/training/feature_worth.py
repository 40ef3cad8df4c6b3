"""What features are worth: a price a millisecond, or most of a gain for the fewest of them.

A price needs somebody who knows it. Without, the cheapest model is wanted that keeps a share of
what all features gain over the best one alone; while features are left out, a millisecond is then
worth the whole gain divided by the whole cost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.metrics import Metric, uneven
from owpc_ltr.protocols import Model


@dataclass(frozen=True)
class Costs:
    """Milliseconds of each feature, and how much of the metric one millisecond is worth.

    A feature that is not named costs nothing; a negative cost (noise of a measurement) is 0.
    `derived` names the features that others are derived from, which are computed then too. With
    `keep_gain` there is no price: it is the share that is kept of what all features gain over the
    feature `over` alone, by default the one that ranks the validation queries best; or, where it is
    a number, over a ranker with that validation metric.
    """

    milliseconds: Mapping[str, float]
    price: float
    derived: Mapping[str, Collection[str]] = field(default_factory=dict)
    keep_gain: float | None = None
    over: str | float | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.price) and self.price >= 0):
            raise UsageError(f"the price of a millisecond is 0 or more, not {self.price}")
        if self.keep_gain is not None and not 0 < self.keep_gain <= 1:
            raise UsageError(
                f"the share of the gain to keep is above 0, and 1 at most, not {self.keep_gain}"
            )
        if self.over is not None and self.keep_gain is None:
            raise UsageError("a gain over a feature is for a share of it: give --keep-gain too")

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
class Aim:
    """Which model of a path is chosen, and what a millisecond is worth on the way.

    `over` names what a gain is over, whose metric is `floor`; `gain` is that of all features.
    Metrics are the higher the better here.
    """

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


def aim_of(costs: Costs, metric: Metric, model: Model, validation: RankingDataset) -> Aim:
    """What is aimed at, by the model of all features on the validation queries.

    Raises Refused where a share of a gain is to be kept, and there is none.
    """
    if costs.keep_gain is None:
        return Aim(costs.price)
    over, floor = _rival(costs.over, metric, validation)
    gain = _measured(metric, model.score(validation.features), validation) - floor
    if not gain > 0:
        raise Refused(
            f"there is no gain to keep a share of: on the validation queries {over} is as good as "
            "the model of all features; price their milliseconds, or train otherwise"
        )
    whole = costs.of(frozenset(validation.feature_names))
    return Aim(gain / whole if whole else 0.0, costs.keep_gain, over, floor, gain)


def _rival(
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
