"""Profile: what features, windows and a model cost in the live query, and the room they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.search.capacity import Capacity, capacity
from owpc_ltr.engine.search.feature_latency import FeatureCost, derived_from, feature_costs
from owpc_ltr.engine.search.latency import Samples, Subject, window_latencies
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.export import is_client_scored
from owpc_ltr.formats.plugin_free.form import plugin_free_model
from owpc_ltr.formats.stored_model import StoredModel


@dataclass(frozen=True)
class Profile:
    """What each feature costs, whole searches (`all`, `none`), windows by their size, and room.

    `derived` names the features that others are derived from.
    """

    index: str
    store_kind: str
    queries: int
    costs: tuple[FeatureCost, ...]
    searches: dict[str, Samples]
    windows: dict[int, Samples]
    derived: dict[str, list[str]]
    capacity: Capacity

    def as_dict(self) -> dict[str, Any]:
        """Every figure, as JSON."""
        return {
            "features": [cost.as_dict() for cost in self.costs],
            "searches": {name: samples.as_dict() for name, samples in self.searches.items()},
            "windows": [{"window": w, **found.as_dict()} for w, found in self.windows.items()],
            "derived": self.derived,
            "capacity": self.capacity.as_dict(),
        }


def profile(
    engine: Engine,
    store: Store,
    index: str,
    query: dict[str, Any],
    featureset: FeatureSet,
    model: StoredModel | None,
    params: Sequence[dict[str, Any]],
    *,
    repeat: int,
    window: int,
    seed: int,
    progress: Callable[[str, float | None], None],
) -> Profile:
    """Time the query without and with all features, with groups of them, and by window."""
    # Without the plugin the client may score: the engine gives the features. Of a model that runs
    # by scripts, which read several features at once, those features are what can be told apart.
    runs = model is not None and not is_client_scored(model)
    subject = Subject(index, query, featureset, model if runs else None)
    whole_model = runs and model is not None and plugin_free_model(model) is not None
    parts = replace(subject, model=None) if whole_model else subject
    asked = list(params)
    costs, whole = feature_costs(
        engine, store, parts, asked, repeat=repeat, window=window, seed=seed,
        progress=lambda done: progress("features", done),
    )  # fmt: skip
    latencies = window_latencies(
        engine, store, subject, asked, repeat=repeat, seed=seed,
        progress=lambda done: progress("windows", done),
    )  # fmt: skip
    room = capacity(engine, store, subject.featureset, subject.model, params[0])
    return Profile(
        index, store.kind, len(params), tuple(costs), whole, latencies,
        derived_from(featureset), room,
    )  # fmt: skip
