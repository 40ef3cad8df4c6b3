"""Additive models served without a plugin: one script per feature, for its curve."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.features.score_analysis import scoring
from owpc_ltr.formats.plugin_free.scripts import CURVE, PRESENT, Query, lowest, scripted, summed
from owpc_ltr.models.linear import AdditiveModel, Curve
from owpc_ltr.models.score_range import LOWEST_RESCORED, ScoreInterval

TYPE = "model/plain-curves"
_FORMAT = 1


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
        return {"format": _FORMAT, **json.loads(json.dumps(asdict(self)))}


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
    try:
        content = json.loads(definition) if isinstance(definition, str) else dict(definition)
        if content["format"] != _FORMAT:
            raise BadInput(f"{where} was written by a later version of owpc-ltr: use that one")
        curves = tuple(_read(each) for each in content["curves"])
        shift = float(content["shift"])
        if not math.isfinite(shift):
            raise ValueError("its shift is not finite")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{where} is damaged: {type(error).__name__} {error}") from error
    return PluginFreeCurves(curves, shift)


def _lifted(name: str, curve: Curve, low: float, *, never_missing: bool) -> LiftedCurve:
    values = tuple((curve.values - low).tolist())
    missing = None if never_missing else curve.missing - low
    return LiftedCurve(name, tuple(curve.knots.tolist()), values, missing)


def _read(content: dict[str, Any]) -> LiftedCurve:
    missing = content["missing"]
    curve = Curve(
        np.array(content["knots"], dtype=np.float64),
        np.array(content["values"], dtype=np.float64),
        0.0 if missing is None else float(missing),
    )
    if min(curve.ends) < 0:
        raise ValueError("a lifted curve is negative somewhere")
    return _lifted(str(content["feature"]), curve, 0.0, never_missing=missing is None)
