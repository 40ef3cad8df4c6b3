"""The range of a model's scores: between which numbers all lie, whatever the document."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.trees import TreeModel, logistic
from owpc_ltr.protocols import Model

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
