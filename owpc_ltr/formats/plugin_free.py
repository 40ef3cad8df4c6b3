"""Models that an engine without a plugin runs by scripts: trees, and curves of straight pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.mustache import scoring
from owpc_ltr.features.score_analysis import always_matches
from owpc_ltr.formats.plugin_free_trees import (
    TREES,
    PluginFreeTrees,
    Query,
    check_queries,
    form_content,
    lowest,
    read_plugin_free_trees,
    scripted,
    store_plugin_free_trees,
    summed,
    written_form,
)
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.linear import AdditiveModel, Curve
from owpc_ltr.models.score_range import LOWEST_RESCORED, ScoreInterval
from owpc_ltr.protocols import Model

CURVES = "model/plain-curves"
CURVE = """\
List t = params.knots; List v = params.values; double x = _score; int high = t.size() - 1;
if (x <= (double)t.get(0)) { return (double)v.get(0); }
if (x >= (double)t.get(high)) { return (double)v.get(high); }
int low = 0;
while (high - low > 1) {
  int middle = (low + high) / 2;
  if (x >= (double)t.get(middle)) { low = middle; } else { high = middle; }
}
double a = (double)t.get(low); double b = (double)t.get(high);
double from = (double)v.get(low); double to = (double)v.get(high);
return Math.max(0.0, from + (to - from) * ((x - a) / (b - a)));"""
"""What a curve of straight pieces gives for a feature's score; level beyond its knots."""
PRESENT = "return _score == 0 ? params.missing : Math.max(0.0, _score - params.span);"
"""What is above `span`; of a document that has nothing, what is for those."""


@dataclass(frozen=True)
class LiftedCurve:
    """A feature's curve, lifted so that nothing is negative; `missing` None: it never is."""

    feature: str
    knots: tuple[float, ...]
    values: tuple[float, ...]
    missing: float | None

    def query(self, query: Query) -> Query:
        """What it gives to every document."""
        asked = scoring(query)
        if not self.missing:
            return scripted(asked, CURVE, knots=list(self.knots), values=list(self.values))
        # A document without the feature is one whose sum is 0: all others are lifted above that.
        span = self._span
        lifted = [value + span for value in self.values]
        curve = scripted(asked, CURVE, knots=list(self.knots), values=lifted)
        return scripted(summed([curve]), PRESENT, span=span, missing=self.missing)

    def at(self, values: Vector) -> Vector:
        """What it gives, rounded to float32 where the engine rounds."""
        span = self._span if self.missing else 0.0
        found = np.interp(values, self.knots, np.array(self.values) + span).astype(np.float32)
        known = np.maximum(0.0, found.astype(np.float64) - span)
        return np.where(np.isnan(values), self.missing or 0.0, known).astype(np.float32)

    @property
    def _span(self) -> float:
        return max(*self.values, self.missing or 0.0)


@dataclass(frozen=True)
class PluginFreeCurves:
    """Lifted curves, whose sum exceeds the model's score by `shift`."""

    curves: tuple[LiftedCurve, ...]
    shift: float

    @property
    def features(self) -> tuple[str, ...]:
        """The features that it asks for."""
        return tuple(curve.feature for curve in self.curves)

    @property
    def interval(self) -> ScoreInterval:
        """Between which numbers the engine's scores lie, for every document."""
        high = sum(max(*curve.values, curve.missing or 0.0) for curve in self.curves)
        return ScoreInterval(LOWEST_RESCORED, LOWEST_RESCORED + 1.001 * high, proven=True)

    def query(self, queries: Mapping[str, Query]) -> Query:
        """The query whose score is the model's plus the shift, for every document."""
        parts = [curve.query(queries[curve.feature]) for curve in self.curves]
        return summed([*parts, lowest(LOWEST_RESCORED)])

    @property
    def size(self) -> tuple[int, int]:
        """The feature queries, and a table for each."""
        return len(self.curves), len(self.curves)

    def in_words(self) -> str:
        """How the engine comes by its scores."""
        return f"{len(self.curves)} curves of one feature each"

    def score(self, feature_names: Sequence[str], features: Matrix) -> Vector:
        """What the engine gives, rounded to float32 where it rounds."""
        rows = features.astype(np.float32).astype(np.float64)
        total = np.full(len(rows), LOWEST_RESCORED)
        for curve in self.curves:
            total += curve.at(rows[:, list(feature_names).index(curve.feature)])
        return np.asarray(total.astype(np.float32), dtype=np.float64)

    def as_dict(self) -> dict[str, Any]:
        """The form as JSON."""
        return written_form(self)


def plugin_free_curves(model: AdditiveModel, always: Collection[str] = ()) -> PluginFreeCurves:
    """The form of an additive model; the features of `always` are never missing."""
    curves, lows = [], []
    for name, curve in model.curves.items():
        own = curve.values if name in always else np.append(curve.values, curve.missing)
        low = float(own.min())
        curves.append(_lifted(name, curve, low, never_missing=name in always))
        lows.append(low)
    return PluginFreeCurves(tuple(curves), LOWEST_RESCORED - math.fsum(lows))


def read_plugin_free_curves(definition: Any, where: str) -> PluginFreeCurves:
    """The form whose `as_dict` gave the definition. Raises BadInput where it is damaged."""
    with form_content(definition, where) as content:
        curves = tuple(_read_curve(each) for each in content["curves"])
        shift = float(content["shift"])
        if not math.isfinite(shift):
            raise ValueError("its shift is not finite")
    return PluginFreeCurves(curves, shift)


def _lifted(name: str, curve: Curve, low: float, *, never_missing: bool) -> LiftedCurve:
    values = tuple((curve.values - low).tolist())
    missing = None if never_missing else curve.missing - low
    return LiftedCurve(name, tuple(curve.knots.tolist()), values, missing)


def _read_curve(content: dict[str, Any]) -> LiftedCurve:
    missing = content["missing"]
    curve = Curve(
        np.array(content["knots"], dtype=np.float64),
        np.array(content["values"], dtype=np.float64),
        0.0 if missing is None else float(missing),
    )
    if min(curve.ends) < 0:
        raise ValueError("a lifted curve is negative somewhere")
    return _lifted(str(content["feature"]), curve, 0.0, never_missing=missing is None)


def store_plugin_free(model: Model, featureset: FeatureSet, name: str) -> StoredModel:
    """The model as an engine without a plugin runs it. Raises Refused, saying what would fit."""
    if not isinstance(model, AdditiveModel):
        return store_plugin_free_trees(model, featureset, name)
    check_queries(model.curves, featureset)
    always = {feature.name for feature in featureset.features if always_matches(feature)}
    return StoredModel(name, CURVES, plugin_free_curves(model, always).as_dict(), featureset)


PluginFreeModel = PluginFreeCurves | PluginFreeTrees
"""A model as one query, whose scores are the model's plus a constant, and never negative."""
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


def score_shift(stored: StoredModel) -> float:
    """By how much an engine's scores of a stored model exceed the model's own."""
    form = plugin_free_model(stored)
    return form.shift if form else 0.0


def _read(reader: Callable[[Any, str], PluginFreeModel], stored: StoredModel) -> PluginFreeModel:
    form = reader(stored.definition, f"the stored model '{stored.name}'")
    unknown = sorted(set(form.features) - set(stored.featureset.feature_names))
    if unknown:
        raise BadInput(
            f"the stored model '{stored.name}' is damaged: it reads '{unknown[0]}', which is no "
            "feature of its set"
        )
    return form
