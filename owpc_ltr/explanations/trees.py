"""Contributions of trees: Shapley values of the sum, carried through the link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.explanations.contributions import Contributions
from owpc_ltr.explanations.paths import Split, TreePath
from owpc_ltr.explanations.shapley import shapley_values, shares_of, tree_means
from owpc_ltr.models.forest import LEAF, Forest
from owpc_ltr.models.trees import TreeModel, logistic

METHOD = (
    "path-dependent TreeSHAP (Lundberg), against the documents of this list, whose mean score is "
    "the baseline"
)
THROUGH_THE_LINK = "; shared out in log-odds, and carried over to the score in proportion"


def of_trees(model: TreeModel, features: Matrix, background: Matrix) -> Contributions:
    """What each feature adds to the mean score of the background, in the score's own units.

    Log-odds are shared out first, where that is what the trees add up to: then all contributions
    of a document are multiplied by what its score moved for each unit that its log-odds did.
    """
    amounts, means = shapley_values(model.forest, features, background)
    mean = model.base + float(means.sum())
    if model.link == "identity":
        return Contributions(amounts, mean, METHOD)
    baseline = float(logistic(np.array(mean)))
    moved = amounts.sum(axis=1)
    still = np.abs(moved) < 1e-9
    slopes = (logistic(mean + moved) - baseline) / np.where(still, 1.0, moved)
    slopes = np.where(still, baseline * (1 - baseline), slopes)
    return Contributions(amounts * slopes[:, None], baseline, METHOD + THROUGH_THE_LINK)


def splits_in_words(model: TreeModel, row: Vector) -> tuple[str, ...]:
    """On how many splits of its ways down a document is asked for each feature."""
    counts = np.zeros(len(model.feature_names), dtype=np.int64)
    for node in _ways_down(model, row)[:-1]:
        columns = model.forest.feature[node]
        np.add.at(counts, columns[columns != LEAF], 1)
    return tuple(f"{count} split{'s'[: count != 1]}" for count in counts.tolist())


def heaviest_paths(model: TreeModel, row: Vector, background: Matrix, most: int) -> list[TreePath]:
    """The ways of a document down the trees whose outputs are furthest from their means."""
    means = tree_means(model.forest, shares_of(model.forest, background))
    ways = np.stack(_ways_down(model, row))
    outputs = model.forest.value[ways[-1]]
    chosen = np.argsort(-np.abs(outputs - means), kind="stable")[:most].tolist()
    return [
        TreePath(
            str(tree + 1), _splits(model, row, ways[:, tree]), float(outputs[tree]),
            float(means[tree]),
        )
        for tree in chosen
    ]  # fmt: skip


def thresholds_met(model: TreeModel, row: Matrix, column: int) -> Vector:
    """The thresholds at which a document's way may turn, whatever its value of one feature is."""
    forest, values = model.forest, row.astype(np.float32)
    at, found = forest.roots, []
    while len(at):
        at = at[forest.feature[at] != LEAF]
        open_ways = forest.feature[at] == column
        both, one = at[open_ways], at[~open_ways]
        found.append(forest.threshold[both])
        left = forest.left[both]
        at = np.concatenate([left, left + 1, forest.left[one] + ~_goes_left(forest, values, one)])
    return np.unique(np.concatenate(found)).astype(np.float64)


def _goes_left(forest: Forest, values: Matrix, nodes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether a document goes left at each of some splits."""
    x = values[forest.feature[nodes]]
    return np.where(np.isnan(x), forest.default_left[nodes], x < forest.threshold[nodes])


def _ways_down(model: TreeModel, row: Vector) -> list[NDArray[np.int32]]:
    """The nodes of a document in all trees, level by level; leaves are repeated to the end."""
    forest, values = model.forest, row.astype(np.float32)
    at = forest.roots
    levels = [at]
    while (forest.feature[at] != LEAF).any():
        inner = forest.feature[at] != LEAF
        # A leaf's feature, −1, is some column: what is found there is not used.
        at = np.where(inner, forest.left[at] + ~_goes_left(forest, values, at), at)
        levels.append(at)
    return levels


def _splits(model: TreeModel, row: Vector, way: NDArray[np.int32]) -> tuple[Split, ...]:
    forest = model.forest
    steps = zip(way[:-1].tolist(), way[1:].tolist(), strict=True)
    return tuple(
        Split(
            model.feature_names[forest.feature[node]],
            float(row[forest.feature[node]]),
            float(forest.threshold[node]),
            bool(below == forest.left[node]),
        )
        for node, below in steps
        if forest.feature[node] != LEAF
    )
