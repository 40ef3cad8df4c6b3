"""What is known of a model without data: its use of features, and the range of its scores.

What each feature does in a model: whether it is used, how much, and the model without it.

The range of a model's scores: between which numbers all lie, whatever the document.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.models.combined import AverageModel
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.trees import TreeModel, logistic
from owpc_ltr.protocols import Model, RankingModel


def features_used(model: Model) -> frozenset[str]:
    """The features that can change a score: of kinds that mix their features, all of them."""
    names = np.array(model.feature_names)
    if isinstance(model, LinearModel):
        return frozenset(names[model.weights != 0].tolist())
    if isinstance(model, TreeModel):
        forest = model.forest
        return frozenset(names[np.unique(forest.feature[~forest.is_leaf])].tolist())
    if isinstance(model, AdditiveModel):
        return frozenset(model.curves)
    if isinstance(model, AverageModel):
        return frozenset().union(*map(features_used, model.parts))
    return frozenset(model.feature_names)


def without_last_columns(model: Model, columns: Collection[str]) -> Model:
    """The same scores from a matrix without its last columns, at which the model does not look.

    Raises ValueError where it does, or they are not the last.
    """
    if not columns:
        return model
    kept = model.feature_names[: -len(columns)]
    if set(model.feature_names[len(kept) :]) != set(columns):
        raise ValueError("only columns that are last can be left out so")
    return with_features(model, kept)


def with_features(model: Model, kept: Sequence[str]) -> Model:
    """The same scores from a matrix of these columns alone, in this order; new ones weigh nothing.

    Raises ValueError where the model looks at others, or is of a kind that uses all of them.
    """
    names = tuple(kept)
    if not features_used(model) <= {*names}:
        raise ValueError("only columns that are not used can be left out")
    if isinstance(model, LinearModel):
        normalisers = {name: own for name, own in model.normalisers.items() if name in names}
        own_weights = model.feature_uses()
        weights = np.array([own_weights.get(name, 0.0) for name in names])
        return replace(model, feature_names=names, weights=weights, normalisers=normalisers)
    if isinstance(model, AverageModel):
        parts = tuple(with_features(part, names) for part in model.parts)
        return replace(model, feature_names=names, parts=parts)
    if isinstance(model, TreeModel):
        places = {name: place for place, name in enumerate(names)}
        moved = np.array([places.get(name, 0) for name in model.feature_names])
        forest = model.forest
        feature = np.where(forest.is_leaf, forest.feature, moved[forest.feature])
        forest = replace(forest, feature=feature.astype(np.int32))
        return replace(model, feature_names=names, forest=forest)
    if isinstance(model, AdditiveModel):
        return replace(model, feature_names=names)
    raise ValueError(f"a {model.kind} model uses all of its features")


GAIN, COVER = "gain", "cover"


def importances(model: RankingModel) -> dict[str, dict[str, Any]]:
    """Facts of each feature, those that matter most first; nothing of a kind that has none.

    Of a linear model the weight, as the features come (normalisers multiplied in). Of trees the
    number of splits, and of the trees that split on it; where their maker told, the share of all
    gain and of all cover too. Of a curve its span, its ends, and what a missing value gives. Of an
    average, those of each part by number, in the parts' order.
    """
    if isinstance(model, LinearModel):
        weights, _ = model.folded()
        order = np.argsort(-np.abs(weights), kind="stable")
        return {model.feature_names[column]: {"weight": float(weights[column])} for column in order}
    if isinstance(model, TreeModel):
        return _splits(model)
    if isinstance(model, AdditiveModel):
        return _curves(model)
    if isinstance(model, AverageModel):
        facts: dict[str, dict[str, Any]] = {name: {} for name in model.feature_names}
        for number, part in enumerate(model.parts, 1):
            for name, own in importances(part).items():
                facts[name] |= {f"part {number}: {fact}": value for fact, value in own.items()}
        return {name: own for name, own in facts.items() if own}
    return {}


def _curves(model: AdditiveModel) -> dict[str, dict[str, Any]]:
    facts: dict[str, dict[str, Any]] = {}
    for name, span in sorted(model.feature_uses().items(), key=lambda item: -item[1]):
        curve = model.curves[name]
        ends = dict(zip(("lowest", "highest"), curve.ends, strict=True))
        facts[name] = {"span": span, **ends, "missing": curve.missing, "knots": len(curve.knots)}
    return facts


def _splits(model: TreeModel) -> dict[str, dict[str, Any]]:
    width, nodes = len(model.feature_names), model.splits
    columns = model.forest.feature[nodes]
    splits = np.bincount(columns, minlength=width)
    used = np.unique(np.stack([model.forest.tree_of_node[nodes], columns]), axis=1)
    trees = np.bincount(used[1], minlength=width)
    shares = _recorded_shares(model)
    sort_by = np.array([shares[GAIN].get(name, 0.0) for name in model.feature_names])
    order = np.lexsort((np.arange(width), -splits, -sort_by))
    return {
        name: {
            "splits": int(splits[column]),
            "trees": int(trees[column]),
            **{fact: share[name] for fact, share in shares.items() if name in share},
        }
        for column in order
        for name in [model.feature_names[column]]
    }


def _recorded_shares(model: TreeModel) -> dict[str, dict[str, float]]:
    """Gain and cover of the splits by the record of a model, as shares of the whole."""
    recorded = model.record.get("importances")
    shares: dict[str, dict[str, float]] = {GAIN: {}, COVER: {}}
    for fact, of_features in shares.items():
        values = recorded.get(fact) if isinstance(recorded, dict) else None
        if isinstance(values, dict) and (total := float(sum(values.values()))) > 0:
            of_features |= {str(name): float(value) / total for name, value in values.items()}
    return shares


LOWEST_RESCORED = 2.0**-20
"""The lowest score of a rescored document: above what is left of any other's, below 2⁸⁰."""


@dataclass(frozen=True)
class ScoreInterval:
    """Lowest and highest score; `proven` where no document can leave it.

    Otherwise it holds for features within given ranges, or for none (±infinity). Sums of some of a
    linear model's terms, in any number, lie in it too. `holds` says so in words.
    """

    low: float
    high: float
    proven: bool

    @property
    def holds(self) -> str:
        """For which documents no score leaves the interval."""
        if self.proven:
            return "for every document"
        if not math.isfinite(self.low):
            return "not known"
        return "within twice what was seen; beyond, a request holds scores at the low end"

    def as_dict(self) -> dict[str, Any]:
        """The interval as JSON, an end that is unknown as null."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> ScoreInterval:
        """The interval whose `as_dict` gave `content`."""
        low, high = content["low"], content["high"]
        return cls(
            -math.inf if low is None else float(low),
            math.inf if high is None else float(high),
            bool(content["proven"]),
        )


UNKNOWN = ScoreInterval(-math.inf, math.inf, proven=False)


def score_interval(
    model: Model,
    never_negative: Collection[str] = (),
    seen: Matrix | None = None,
    highest: Mapping[str, float] | None = None,
) -> ScoreInterval:
    """The interval of a model's scores, widened by what float32 sums may lose.

    `never_negative` names features that are 0 or more on any document, as all scores of queries
    are; `highest` has what some of them never exceed. `seen` (2, n_features) has the lowest and
    highest values to reckon with otherwise.
    """
    if isinstance(model, TreeModel):
        return _of_trees(model)
    if isinstance(model, AdditiveModel):
        return _of_curves(model)
    if not isinstance(model, LinearModel):
        return UNKNOWN
    low = np.array([0.0 if name in never_negative else -np.inf for name in model.feature_names])
    high = np.array([(highest or {}).get(name, np.inf) for name in model.feature_names])
    proven = _of_linear(model, low, high)
    if math.isfinite(proven.low) or seen is None:
        return ScoreInterval(proven.low, proven.high, math.isfinite(proven.low))
    # A missing feature counts as 0, also where none was seen.
    return _of_linear(model, np.minimum(seen[0], 0.0), np.maximum(seen[1], 0.0))


def _of_linear(model: LinearModel, low: Vector, high: Vector) -> ScoreInterval:
    weights, intercept = model.folded()
    used = weights != 0
    ends = weights[used, None] * np.column_stack([low, high])[used]
    lowest, highest = ends.min(axis=1, initial=np.inf), ends.max(axis=1, initial=-np.inf)
    return _of_terms(intercept, lowest, highest, len(weights) + 1, proven=False)


def _of_trees(model: TreeModel) -> ScoreInterval:
    """The sums of each tree's lowest and highest leaves."""
    forest = model.forest
    leaf = forest.is_leaf
    lowest = np.minimum.reduceat(np.where(leaf, forest.value, np.inf), forest.roots)
    highest = np.maximum.reduceat(np.where(leaf, forest.value, -np.inf), forest.roots)
    interval = _of_terms(model.base, lowest, highest, len(forest.roots) + 1, proven=True)
    if model.link == "identity":
        return interval
    low, high = logistic(np.array([interval.low, interval.high])).tolist()
    return ScoreInterval(low, high, proven=True)


def _of_curves(model: AdditiveModel) -> ScoreInterval:
    """The sums of each curve's lowest and highest points."""
    ends = np.array([curve.ends for curve in model.curves.values()]).reshape(-1, 2)
    low, high = ends.sum(axis=0).tolist()
    below, above = np.abs(ends).sum(axis=0).tolist()
    return _widened(low, high, below, above, len(ends) + 1, proven=True)


def _of_terms(
    constant: float, lowest: Vector, highest: Vector, terms: int, *, proven: bool
) -> ScoreInterval:
    """The interval of a constant and so many terms, each between its lowest and its highest."""
    low, high = (constant + float(ends.sum()) for ends in (lowest, highest))
    below, above = (
        abs(constant) + float(np.abs(ends[np.isfinite(ends)]).sum()) for ends in (lowest, highest)
    )
    return _widened(low, high, below, above, terms, proven=proven)


def _widened(
    low: float, high: float, below: float, above: float, terms: int, *, proven: bool
) -> ScoreInterval:
    """The interval of a float32 sum of so many terms, whose sizes add up to `below`, `above`."""
    # Each addition, and each product before it, is off by half a unit in the last place at most.
    slack = terms * float(np.finfo(np.float32).eps)
    return ScoreInterval(low - slack * below, high + slack * above, proven)
