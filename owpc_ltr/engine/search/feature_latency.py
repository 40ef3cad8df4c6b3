"""What each feature costs in the live query: features are timed in groups, and told apart by sums.

A query is asked with about half of the features, and with other halves, as many times as there are
features, so that each is in one half of the searches and every two meet in a quarter: the cost of a
feature is then the difference of two means over all searches, whose noise is far below that of two
searches (weighing designs; Hotelling, Annals of Mathematical Statistics 15, 1944).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.search.latency import (
    WARM_UP,
    Params,
    Samples,
    Subject,
    ask_with,
    check_turns,
    one_turn,
    plain,
)
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import UsageError
from owpc_ltr.features.expressions import expression_variables
from owpc_ltr.features.feature_set import DERIVED, FeatureSet
from owpc_ltr.files.strict_json import finite_json
from owpc_ltr.formats.export import import_linear


@dataclass(frozen=True)
class FeatureCost:
    """What a feature costs, in milliseconds by our clock.

    `milliseconds` is the median over repeats; `low` and `high` are its 95 % interval, which has no
    upper end for a single repeat. `took` is the mean by the engine's clock. No feature costs less
    than nothing: all four are clipped at 0, and an interval that begins there (`in_noise`) includes
    no cost at all.
    """

    feature: str
    milliseconds: float
    low: float
    high: float
    took: float

    @property
    def in_noise(self) -> bool:
        """Whether the cost is not told from that of no feature at all."""
        return self.low <= 0

    def as_dict(self) -> dict[str, Any]:
        """The cost as JSON."""
        content: dict[str, Any] = finite_json(asdict(self))
        return content


def feature_costs(
    engine: Engine,
    store: Store,
    subject: Subject,
    queries: Sequence[Params],
    *,
    repeat: int = 30,
    window: int = 100,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> tuple[list[FeatureCost], dict[str, Samples]]:
    """The cost of each feature, dearest first, and the samples of `all` features and of `none`."""
    names = computed(store, subject)
    if not names:
        raise UsageError("there is no feature that the engine computes: nothing to profile")
    check_turns(queries, repeat)
    none, whole = plain(store, subject, window), ask_with(store, subject, window)
    random = np.random.default_rng(seed)
    both = np.empty((repeat, 2, 2))
    costs = np.empty((repeat, 2, len(names)))
    for turn in range(-WARM_UP, repeat):
        groups = weighing(len(names), random)
        asks = [none, whole] + [
            ask_with(store, subject, window, tuple(np.array(names)[group])) if group.any() else none
            for group in groups
        ]
        passed = one_turn(engine, subject.index, asks, queries[turn % len(queries)], random)
        if turn >= 0:
            both[turn] = passed[:, :2]
            costs[turn] = weighed(groups, passed[:, 2:])
            if progress is not None:
                progress((turn + 1) / repeat)
    found = [_cost(name, costs[:, :, place]) for place, name in enumerate(names)]
    kept = {name: Samples(*both[:, :, place].T) for place, name in enumerate(("none", "all"))}
    return sorted(found, key=lambda cost: -cost.milliseconds), kept


def weighing(n: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Which of `n` features each search of a turn has, (searches, n): by a Hadamard matrix.

    Each feature is in half of the searches, each two of them in a quarter. Which columns of the
    matrix they are, and which sign means that a search has the feature, is drawn anew each time.
    """
    from scipy.linalg import hadamard

    size = 1 << n.bit_length()
    signs = hadamard(size)[:, 1 + random.permutation(size - 1)[:n]]
    return np.asarray(signs * random.choice((-1, 1), size=n) > 0)


def weighed(groups: NDArray[np.bool_], passed: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each feature adds: the mean of the searches that have it less that of those without."""
    signs = np.where(groups, 2.0, -2.0) / len(groups)
    return np.asarray(passed @ signs)


def _cost(name: str, costs: NDArray[np.float64]) -> FeatureCost:
    """Of the costs of all repeats, (repeats, 2): by our clock, and by the engine's."""
    low, middle, high = np.percentile(costs[:, 0], (25, 50, 75))
    # The notch of a box plot (McGill, Tukey & Larsen 1978), the 95 % interval of a median.
    half = 1.57 * (high - low) / np.sqrt(len(costs)) if len(costs) > 1 else np.inf
    ends = (middle, middle - half, middle + half, costs[:, 1].mean())
    return FeatureCost(name, *(max(0.0, float(each)) for each in ends))


def derived_from(featureset: FeatureSet) -> dict[str, list[str]]:
    """The features that each derived one comes from: they cost its time."""
    names = set(featureset.feature_names)
    return {
        feature.name: sorted(expression_variables(str(feature.template)) & names)
        for feature in featureset.features
        if feature.template_language == DERIVED
    }


def computed(store: Store, subject: Subject) -> tuple[str, ...]:
    """The features that the engine computes for this subject, in order.

    Without the plugin a feature of weight 0 is left out of the rescorers.
    """
    names = tuple(f.name for f in subject.featureset.features if f.template_language != DERIVED)
    if subject.model is None or store.kind == "ltr-plugin":
        return names
    linear = import_linear(subject.model)
    weighed = dict(zip(linear.feature_names, linear.weights, strict=True))
    return tuple(name for name in names if weighed.get(name))
