"""Models that an engine without a plugin runs by scripts, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.score_analysis import always_matches
from owpc_ltr.formats.plugin_free.piecewise_linear import TYPE as CURVES
from owpc_ltr.formats.plugin_free.piecewise_linear import (
    plugin_free_curves,
    read_plugin_free_curves,
)
from owpc_ltr.formats.plugin_free.scripts import Query
from owpc_ltr.formats.plugin_free.trees import TYPE as TREES
from owpc_ltr.formats.plugin_free.trees import (
    check_queries,
    read_plugin_free_trees,
    store_plugin_free_trees,
)
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.linear import AdditiveModel
from owpc_ltr.models.score_range import ScoreInterval
from owpc_ltr.protocols import Model


class PluginFreeModel(Protocol):
    """A model as one query, whose scores are the model's plus a constant, and never negative."""

    @property
    def features(self) -> tuple[str, ...]:
        """The features that it asks for."""
        ...

    @property
    def shift(self) -> float:
        """By how much the engine's scores exceed the model's."""
        ...

    @property
    def interval(self) -> ScoreInterval:
        """Between which numbers the engine's scores lie, for every document."""
        ...

    def query(self, queries: Mapping[str, Query]) -> Query:
        """The query that scores every document, from the features' queries by name."""
        ...

    def score(self, feature_names: Sequence[str], features: Matrix) -> Vector:
        """What the engine gives for each row, rounded to float32 where it rounds."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """What an engine's work grows with: the feature queries that it asks, and the tables."""
        ...

    def in_words(self) -> str:
        """How the engine comes by its scores."""
        ...


_READERS: dict[str, Callable[[Any, str], PluginFreeModel]] = {
    TREES: read_plugin_free_trees,
    CURVES: read_plugin_free_curves,
}


_LARGEST_CACHE = 16
_CACHE: dict[int, tuple[StoredModel, PluginFreeModel]] = {}


def plugin_free_model(stored: StoredModel) -> PluginFreeModel | None:
    """The model that the engine runs by scripts; None for one that it does not.

    The last models are cached, since many searches use few of them. Raises BadInput if the stored
    one is damaged.
    """
    reader = _READERS.get(stored.type)
    if reader is None:
        return None
    # The cache holds the stored model, so that no other object gets its id.
    found = _CACHE.get(id(stored))
    if found is None:
        found = _CACHE[id(stored)] = stored, _read(reader, stored)
        for oldest in list(_CACHE)[:-_LARGEST_CACHE]:
            _CACHE.pop(oldest, None)
    return found[1]


def _read(reader: Callable[[Any, str], PluginFreeModel], stored: StoredModel) -> PluginFreeModel:
    form = reader(stored.definition, f"the stored model '{stored.name}'")
    unknown = sorted(set(form.features) - set(stored.featureset.feature_names))
    if unknown:
        raise BadInput(
            f"the stored model '{stored.name}' is damaged: it reads '{unknown[0]}', which is no "
            "feature of its set"
        )
    return form


def store_plugin_free(model: Model, featureset: FeatureSet, name: str) -> StoredModel:
    """The model as an engine without a plugin runs it. Raises Refused, saying what would fit."""
    if not isinstance(model, AdditiveModel):
        return store_plugin_free_trees(model, featureset, name)
    check_queries(model.curves, featureset)
    always = {feature.name for feature in featureset.features if always_matches(feature)}
    return StoredModel(name, CURVES, plugin_free_curves(model, always).as_dict(), featureset)


def score_shift(stored: StoredModel) -> float:
    """By how much an engine's scores of a stored model exceed the model's own."""
    form = plugin_free_model(stored)
    return form.shift if form else 0.0
