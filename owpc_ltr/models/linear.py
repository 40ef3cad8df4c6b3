"""Linear models with their normalisers, and additive ones: the sum of one curve a feature.

A curve is of straight pieces between knots; `piecewise_linear_columns` are what it is trained by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import take_numbers
from owpc_ltr.models.model_file import SavedRanker, model_matrix
from owpc_ltr.models.trees import HIGHEST
from owpc_ltr.protocols import Model
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset


@dataclass(frozen=True)
class Normaliser:
    """How the engine changes one feature before the model: (value − shift) / scale.

    `kind` is the LTR plugin's own word: "standard" (shift = mean, scale = standard deviation) or
    "min_max" (shift = minimum, scale = maximum − minimum).
    """

    kind: str
    shift: float
    scale: float

    def __post_init__(self) -> None:
        if self.kind not in {"standard", "min_max"}:
            raise BadInput(f"a normaliser is standard or min_max, not {shown(str(self.kind))}")
        if not (np.isfinite(self.shift) and np.isfinite(self.scale) and self.scale > 0):
            raise BadInput(
                f"a normaliser needs a finite shift and a positive scale, not {self.shift}, "
                f"{self.scale}"
            )


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(SavedRanker):
    """The weighted sum of the features; a missing one counts 0, as in every engine.

    `weights` (n_features,) is rounded to float32, which is what engines keep. A feature named in
    `normalisers` is normalised first (a missing one as if it were 0).
    """

    kind: ClassVar[str] = "linear"

    feature_names: tuple[str, ...]
    weights: Vector
    normalisers: dict[str, Normaliser] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):
            rounded = np.asarray(self.weights).astype(np.float32).astype(np.float64)
        if rounded.shape != (len(self.feature_names),):
            raise BadInput(
                f"a linear model of {len(self.feature_names)} features has {rounded.size} weights"
            )
        if not np.isfinite(rounded).all():
            name = self.feature_names[int(np.flatnonzero(~np.isfinite(rounded))[0])]
            raise BadInput(f"the weight of feature {shown(name)} is not a finite float32 number")
        unknown = set(self.normalisers) - set(self.feature_names)
        if unknown:
            name = shown(sorted(unknown)[0])
            raise BadInput(f"a normaliser is for a feature that is not there: {name}")
        object.__setattr__(self, "weights", rounded)
        with np.errstate(over="ignore", invalid="ignore"):
            folded, intercept = self.folded()
        if not (np.isfinite(folded).all() and np.isfinite(intercept)):
            raise BadInput("a normaliser makes a weight or the intercept larger than any number")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        weights, intercept = self.folded()
        missing = np.isnan(features)
        if missing.any():
            features = np.where(missing, 0.0, features)
        scores: Vector = features @ weights + intercept
        return scores

    def feature_uses(self) -> dict[str, float]:
        """The weights, by feature."""
        return dict(zip(self.feature_names, self.weights.tolist(), strict=True))

    def folded(self) -> tuple[Vector, float]:
        """Weights for the features as they are, and the intercept: normalisers multiplied in."""
        weights, intercept = self.weights.copy(), 0.0
        for index, name in enumerate(self.feature_names):
            normaliser = self.normalisers.get(name)
            if normaliser is not None:
                weights[index] /= normaliser.scale
                intercept -= weights[index] * normaliser.shift
        return weights, intercept

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        return {
            "weights": [float(weight) for weight in self.weights],
            "normalisers": {name: asdict(own) for name, own in self.normalisers.items()},
        }

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> LinearModel:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        normalisers = {}
        for name, own in content.get("normalisers", {}).items():
            numbers = {"numbers": [own["shift"], own["scale"]]}
            shift, scale = take_numbers(numbers, "numbers", "a normaliser").tolist()
            normalisers[name] = Normaliser(str(own["kind"]), shift, scale)
        weights = take_numbers(content, "weights", "the linear model")
        return cls(names, weights, normalisers, record)


@dataclass(frozen=True, eq=False, repr=False)
class Curve(ShortRepr):
    """What a feature gives: `values` at the ascending `knots`, straight between, level beyond.

    Where the feature is missing it gives `missing`.
    """

    knots: Vector
    values: Vector
    missing: float = 0.0

    def __post_init__(self) -> None:
        knots, values = (np.asarray(part, dtype=np.float64) for part in (self.knots, self.values))
        if not len(knots) or knots.shape != values.shape or knots.ndim != 1:
            raise BadInput(f"a curve of {knots.size} knots has {values.size} values")
        if not (np.abs(np.concatenate([knots, values, [self.missing]])) <= HIGHEST).all():
            raise BadInput("a curve has a number that is not a finite float32 number")
        if (np.diff(knots) <= 0).any():
            raise BadInput("the knots of a curve do not ascend")
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "values", values)

    def at(self, feature: Vector) -> Vector:
        """What each value of the feature gives."""
        # A missing value would be what interpolation makes of it.
        values = np.interp(feature, self.knots, self.values)
        return np.where(np.isnan(feature), self.missing, values)

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest that it gives, to a missing value too."""
        low, high = float(self.values.min()), float(self.values.max())
        return min(low, self.missing), max(high, self.missing)

    def as_dict(self) -> dict[str, Any]:
        """The curve as JSON."""
        knots, values = self.knots.tolist(), self.values.tolist()
        return {"knots": knots, "values": values, "missing": self.missing}


@dataclass(frozen=True, eq=False, repr=False)
class AdditiveModel(SavedRanker):
    """The sum of the features' `curves`; a feature without one gives nothing."""

    kind: ClassVar[str] = "additive"

    feature_names: tuple[str, ...]
    curves: Mapping[str, Curve]
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.curves) - set(self.feature_names))
        if unknown:
            raise BadInput(f"a curve is of '{unknown[0]}', which is not a feature of the model")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        total = np.zeros(features.shape[0])
        for column, name in enumerate(self.feature_names):
            if name in self.curves:
                total += self.curves[name].at(features[:, column].astype(np.float64))
        return total

    def sizes(self) -> dict[str, object]:
        """Curves and knots."""
        knots = sum(len(curve.knots) for curve in self.curves.values())
        return {"curves": len(self.curves), "knots": knots}

    def feature_uses(self) -> dict[str, float]:
        """From the lowest to the highest that each curve gives."""
        ends = {name: curve.ends for name, curve in self.curves.items()}
        return {name: high - low for name, (low, high) in ends.items()}

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        return {"curves": {name: curve.as_dict() for name, curve in self.curves.items()}}

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> AdditiveModel:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        curves = {}
        for name, curve in content["curves"].items():
            knots, values = (np.array([*map(float, curve[key])]) for key in ("knots", "values"))
            curves[str(name)] = Curve(knots, values, float(curve["missing"]))
        return cls(names, curves, record)


@dataclass(frozen=True)
class PiecewiseLinearColumns:
    """Each feature as several columns, of which a linear model is a curve.

    Between two neighbouring `knots`, which are quantiles of the feature in the training queries, a
    column rises from 0 to 1; its weight is what the curve rises there. A feature that is missing
    somewhere (`gaps`) has one more column, 1 where it is there. A loss that is convex in a linear
    model stays so.
    """

    feature_names: tuple[str, ...]
    knots: tuple[Vector, ...]
    gaps: tuple[bool, ...]

    def expanded(self, data: RankingDataset) -> RankingDataset:
        """The dataset with a column between each two knots, float32, none missing."""
        names = [
            f"{name} {number}"
            for name, knots, gap in zip(self.feature_names, self.knots, self.gaps, strict=True)
            for number in range(_columns(knots, gap))
        ]
        features = np.empty((data.n_documents, len(names)), dtype=np.float32)
        place = 0
        for column, (knots, gap) in enumerate(zip(self.knots, self.gaps, strict=True)):
            for values in _rises(data.features[:, column], knots, gap):
                features[:, place] = values
                place += 1
        return replace(data, features=features, feature_names=tuple(names))

    def model_of(self, model: Model) -> AdditiveModel:
        """The curves that a linear model of the columns is. Raises UsageError for another kind."""
        if not isinstance(model, LinearModel):
            raise UsageError(
                "a piecewise-linear model needs an optimizer of linear models, and this one made a "
                f"model of kind '{model.kind}': use the optimizer larank"
            )
        weights, _ = model.folded()
        curves = {}
        for name, knots, gap in zip(self.feature_names, self.knots, self.gaps, strict=True):
            own, weights = np.split(weights, [_columns(knots, gap)])
            if own.any():
                curves[name] = _curve(knots, own, gap=gap)
        return AdditiveModel(self.feature_names, curves)


def piecewise_linear_columns(data: RankingDataset, knots: int) -> PiecewiseLinearColumns:
    """Columns between so many quantiles of each feature, or fewer where these are equal.

    Raises UsageError where no feature differs between documents.
    """
    cuts, gaps = [], []
    for column in range(data.n_features):
        values = data.features[:, column]
        known = values[~np.isnan(values)]
        gaps.append(len(known) < len(values))
        cuts.append(_quantiles(known, knots))
    if not any(map(_columns, cuts, gaps)):
        raise UsageError("no feature differs between documents: there is nothing to learn from")
    return PiecewiseLinearColumns(data.feature_names, tuple(cuts), tuple(gaps))


def _quantiles(values: Matrix, count: int) -> Vector:
    if not len(values):
        return np.zeros(0)
    shares = np.linspace(0.0, 1.0, count)
    return np.unique(np.quantile(values, shares, method="nearest")).astype(np.float64)


def _columns(knots: Vector, gap: bool) -> int:
    """How many columns a feature has: one of its own for being there, where that says something."""
    return max(len(knots) - 1, 0) + (gap and len(knots) > 0)


def _rises(values: Matrix, knots: Vector, gap: bool) -> Iterator[Vector]:
    missing = np.isnan(values)
    known = np.where(missing, 0.0, values.astype(np.float64))
    for low, high in pairwise(knots.tolist()):
        yield np.where(missing, 0.0, np.clip((known - low) / (high - low), 0.0, 1.0))
    if _columns(knots, gap) > max(len(knots) - 1, 0):
        yield np.where(missing, 0.0, 1.0)


def _curve(knots: Vector, weights: Vector, *, gap: bool) -> Curve:
    rises = weights[: len(knots) - 1]
    start = float(weights[-1]) if gap else 0.0
    values = start + np.concatenate([[0.0], np.cumsum(rises)])
    # What was never missing is taken for 0 where it is, as in every linear model.
    missing = 0.0 if gap else float(np.interp(0.0, knots, values))
    return Curve(knots, values, missing)
