"""Forests made of other models: sums of forests, and curves as steps between common thresholds.

An engine runs a forest as tables, one for each set of features that meet. Forests whose splits use
the same few thresholds have the same tables, so that their sum is as small as one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.trees import HIGHEST, LEAF, Forest, TreeModel

Weighted = tuple[LinearModel | AdditiveModel, float]
"""A model that adds up its features one by one, and what its scores are multiplied by."""


def sum_of_forests(models: Sequence[TreeModel], weights: Sequence[float]) -> TreeModel:
    """The trees of all models, so that scores are their weighted sum; links are the identity."""
    forests = [model.forest for model in models]
    starts = np.cumsum([0, *(len(forest.feature) for forest in forests)])[:-1]
    both = list(zip(forests, weights, strict=True))
    joined = Forest(
        roots=_joined([own.roots + start for own, start in zip(forests, starts, strict=True)]),
        feature=_joined([own.feature for own in forests]),
        threshold=np.concatenate([own.threshold for own in forests]),
        left=_joined([own.left + start for own, start in zip(forests, starts, strict=True)]),
        default_left=np.concatenate([own.default_left for own in forests]),
        value=np.concatenate([own.value * weight for own, weight in both]),
    )
    base = sum(model.base * weight for model, weight in zip(models, weights, strict=True))
    return TreeModel(models[0].feature_names, joined, float(base))


def _joined(columns: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate(columns).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Steps:
    """A few thresholds of each feature: between two of them, values count alike.

    `thresholds` (float32, ascending) are values of the feature in some data, that are above its
    `lowest`; `gaps` tells the features that are missing somewhere there.
    """

    feature_names: tuple[str, ...]
    thresholds: tuple[NDArray[np.float32], ...]
    lowest: NDArray[np.float32]
    gaps: NDArray[np.bool_]

    @classmethod
    def of(cls, data: RankingDataset, most: int) -> Steps:
        """At most so many steps of each feature, with as many documents each as its ties allow.

        Missing values are a step of their own.
        """
        columns = [data.features[:, column] for column in range(data.n_features)]
        missing = [np.isnan(column) for column in columns]
        known = [column[~gaps] for column, gaps in zip(columns, missing, strict=True)]
        lowest = [own.min() if len(own) else 0.0 for own in known]
        return cls(
            data.feature_names,
            tuple(
                _thresholds(own, most - int(gaps.any()))
                for own, gaps in zip(known, missing, strict=True)
            ),
            np.array(lowest, dtype=np.float32),
            np.array([gaps.any() for gaps in missing]),
        )

    def floored(self, data: RankingDataset) -> RankingDataset:
        """The data with each value lowered to the start of its step: trees split nowhere else."""
        features = np.empty_like(data.features)
        for column, own in enumerate(self.thresholds):
            values = data.features[:, column]
            starts = np.append(self.lowest[column], own)
            features[:, column] = starts[np.searchsorted(own, values, side="right")]
            features[np.isnan(values), column] = np.nan
        return replace(data, features=features)

    def forest_of(self, models: Sequence[Weighted], data: RankingDataset) -> TreeModel | None:
        """A tree for each feature: its mean effect in `models` on the data within each step.

        None where no feature has any effect.
        """
        trees = []
        for column, (own, gap) in enumerate(zip(self.thresholds, self.gaps, strict=True)):
            effects = _effects(models, column, own, data.features[:, column])
            given = np.append(effects.values, effects.missing) if gap else effects.values
            if np.ptp(given) > 0:
                trees.append(_tree(column, own, effects, gap=bool(gap)))
        if not trees:
            return None
        whole = [TreeModel(self.feature_names, tree) for tree in trees]
        return sum_of_forests(whole, [1.0] * len(whole))


def _thresholds(values: Matrix, most: int) -> NDArray[np.float32]:
    """Where steps begin, the first one apart.

    A value that many documents have takes one step, and the others share those that are left.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= most:
        return distinct[1:].astype(np.float32)
    reached = np.cumsum(np.minimum(counts, counts.sum() / most))
    steps = np.floor(reached[:-1] * most / reached[-1])
    begins = np.flatnonzero(np.diff(steps, prepend=0.0) > 0) + 1
    return distinct[begins[-most + 1 :]].astype(np.float32)


class _Effects(NamedTuple):
    """What a feature adds to scores: in each step, and where it is missing."""

    values: Vector
    missing: float


def _effects(
    models: Sequence[Weighted], column: int, thresholds: NDArray[np.float32], feature: Matrix
) -> _Effects:
    known = feature[~np.isnan(feature)].astype(np.float64)
    step = np.searchsorted(thresholds, known, side="right")
    counts = np.maximum(np.bincount(step, minlength=len(thresholds) + 1), 1)
    values, missing = np.zeros(len(counts)), 0.0
    for model, weight in models:
        own, of_missing = _of_feature(model, column, known)
        values += weight * np.bincount(step, own, minlength=len(counts)) / counts
        missing += weight * of_missing
    return _Effects(values, missing)


def _of_feature(
    model: LinearModel | AdditiveModel, column: int, known: Vector
) -> tuple[Vector, float]:
    """What these values of a feature add to scores, and a missing one."""
    if isinstance(model, LinearModel):
        weight = float(model.folded()[0][column])
        return weight * known, 0.0
    curve = model.curves.get(model.feature_names[column])
    return (np.zeros(len(known)), 0.0) if curve is None else (curve.at(known), curve.missing)


def _tree(column: int, thresholds: NDArray[np.float32], effects: _Effects, *, gap: bool) -> Forest:
    """A balanced tree of one feature with these effects between the thresholds.

    A missing value has a leaf of its own where there is a gap; elsewhere it goes where 0 goes.
    """
    changes = np.flatnonzero(np.diff(effects.values)) + 1
    leaves, cuts = effects.values[np.append(0, changes)], thresholds[changes - 1]
    nodes = list(_nodes(leaves, cuts, effects.missing if gap else None))
    feature = np.array([LEAF if node.left == 0 else column for node in nodes], dtype=np.int32)
    threshold = np.array([node.threshold for node in nodes], dtype=np.float32)
    return Forest(
        roots=np.zeros(1, dtype=np.int32),
        feature=feature,
        threshold=threshold,
        left=np.array([node.left for node in nodes], dtype=np.int32),
        default_left=(feature != LEAF) & ((threshold > 0) | (threshold == -HIGHEST)),
        value=np.array([node.value for node in nodes]),
    )


class _Node(NamedTuple):
    threshold: float
    left: int
    value: float


def _nodes(leaves: Vector, cuts: NDArray[np.float32], missing: float | None) -> Iterator[_Node]:
    """The nodes level by level: those between two of the leaves are split in the middle."""
    waiting, after = [(0, len(leaves))], 1
    if missing is not None:
        # Nothing but a missing value is below the lowest number.
        yield _Node(-HIGHEST, 1, 0.0)
        yield _Node(0.0, 0, missing)
        after = 3
    while waiting:
        following = []
        for first, last in waiting:
            if last - first == 1:
                yield _Node(0.0, 0, float(leaves[first]))
                continue
            middle = (first + last) // 2
            yield _Node(float(cuts[middle - 1]), after, 0.0)
            after += 2
            following += [(first, middle), (middle, last)]
        waiting = following
