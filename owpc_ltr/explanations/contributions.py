"""Contributions of features to the scores of a model of any kind, and by what they act.

Those of trees are path-dependent Shapley values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import IntVector, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import Refused
from owpc_ltr.models.combined import AverageModel
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.networks import Layer, LogisticNetwork, NetworkModel, missing_as_zero
from owpc_ltr.models.trees import LEAF, Forest, TreeModel, logistic
from owpc_ltr.protocols import Model
from owpc_ltr.text import ShortRepr


@dataclass(frozen=True, eq=False)
class Contributions:
    """`baseline` plus a document's row of `amounts` (n_documents, n_features) is its score.

    `method` says in words how the scores were shared out.
    """

    amounts: Vector
    baseline: float
    method: str

    @property
    def scores(self) -> Vector:
        """What they add up to."""
        return np.asarray(self.baseline + self.amounts.sum(axis=1))


@dataclass(frozen=True)
class Split:
    """A question of a tree, and the document's answer: `below` the threshold or not.

    `value` is the feature's, NaN where it is missing; `below` is then the way that the tree sends
    documents without it.
    """

    feature: str
    value: float
    threshold: float
    below: bool

    def __str__(self) -> str:
        missing = " (missing)" if self.value != self.value else ""
        return f"{self.feature} {'<' if self.below else '>='} {self.threshold:.4g}{missing}"


@dataclass(frozen=True, repr=False)
class TreePath(ShortRepr):
    """How a document went down one tree: which (its number), its splits, and what it gave.

    `output` is what the tree adds to the score (before a link), `mean_output` what it adds in the
    mean over the list.
    """

    tree: str
    splits: tuple[Split, ...]
    output: float
    mean_output: float

    def as_dict(self) -> dict[str, Any]:
        """The path as JSON."""
        return asdict(self)


def shapley_values(forest: Forest, features: Matrix, background: Matrix) -> tuple[Vector, Vector]:
    """What each feature adds (n_documents, n_features), and each tree's mean output.

    Shares and means are over the documents of `background`. Where none of these comes to a split,
    each leaf below it counts alike.
    """
    shares = shares_of(forest, background)
    rows = np.ascontiguousarray(features, dtype=np.float32)
    amounts = np.zeros(rows.shape)
    depth = len([*_levels(forest)]) - 1
    points, weights = np.polynomial.legendre.leggauss(max(1, (depth + 1) // 2))
    _add_values(
        rows,
        forest.roots,
        forest.feature,
        forest.threshold,
        forest.left,
        forest.default_left,
        forest.value,
        shares,
        (points + 1) / 2,
        weights / 2,
        depth,
        amounts,
    )
    return amounts, _tree_means(forest, shares)


def shares_of(forest: Forest, background: Matrix) -> Vector:
    """Of each node, the share of its parent's background documents that come to it; 1 of roots."""
    met = np.zeros(len(forest.feature))
    leaves = forest.is_leaf.astype(np.float64)
    for nodes, arrived in _ways_down(forest, background):
        met += np.bincount(nodes[arrived], minlength=len(met))
    for nodes in reversed([*_levels(forest)]):
        splits = nodes[~forest.is_leaf[nodes]]
        leaves[splits] = leaves[forest.left[splits]] + leaves[forest.left[splits] + 1]
    shares = np.ones(len(met))
    parents = np.flatnonzero(~forest.is_leaf)
    for child in (forest.left[parents], forest.left[parents] + 1):
        ratio = leaves[child] / leaves[parents]
        shares[child] = np.divide(met[child], met[parents], where=met[parents] > 0, out=ratio)
    return shares


def _tree_means(forest: Forest, shares: Vector) -> Vector:
    """The mean output of each tree."""
    reached = shares.copy()
    for nodes in _levels(forest):
        splits = nodes[~forest.is_leaf[nodes]]
        for child in (forest.left[splits], forest.left[splits] + 1):
            reached[child] *= reached[splits]
    return np.add.reduceat(np.where(forest.is_leaf, forest.value * reached, 0.0), forest.roots)


def _levels(forest: Forest) -> Iterator[NDArray[np.int32]]:
    """The nodes of all trees, level by level."""
    nodes = forest.roots
    while len(nodes):
        yield nodes
        left = forest.left[nodes[~forest.is_leaf[nodes]]]
        nodes = np.concatenate((left, left + 1))


def _ways_down(
    forest: Forest, features: Matrix
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
    """The node of each document in each tree, level by level, and where it has just arrived.

    Who arrived at a leaf stays there.
    """
    rows = np.asarray(features, np.float32)
    nodes = np.tile(forest.roots, (len(rows), 1))
    arrived = np.ones(nodes.shape, np.bool_)
    while arrived.any():
        yield nodes, arrived
        arrived = ~forest.is_leaf[nodes]
        # A leaf's feature, −1, is the last column, whose value is not used.
        values = np.take_along_axis(rows, forest.feature[nodes] % rows.shape[1], axis=1)
        left = np.where(
            np.isnan(values), forest.default_left[nodes], values < forest.threshold[nodes]
        )
        nodes = np.where(arrived, forest.left[nodes] + ~left, nodes)


@compiled
def _next(
    value: float,
    node: int,
    threshold: NDArray[np.float32],
    left: NDArray[np.int32],
    default_left: NDArray[np.bool_],
) -> Any:
    """The child that a document goes to."""
    if np.isnan(value):
        return left[node] + (0 if default_left[node] else 1)
    return left[node] + (0 if value < threshold[node] else 1)


@compiled
def _add_values(
    rows: Matrix,
    roots: NDArray[np.int32],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float32],
    left: NDArray[np.int32],
    default_left: NDArray[np.bool_],
    value: Vector,
    shares: Vector,
    points: Vector,
    weights: Vector,
    depth: int,
    amounts: NDArray[np.float64],
) -> None:
    """Add every leaf's values to `amounts`, going down each tree both ways.

    At each level of the way down, `on` features were met: `met` says which, `share` with what share
    of the background, `own` whether the document goes that way, too. `products` are those of their
    factors, at each point of the quadrature.
    """
    count = len(points)
    met, on = np.empty((depth + 1, depth + 1), dtype=np.int64), np.zeros(depth + 1, dtype=np.int64)
    share, own = np.empty((depth + 1, depth + 1)), np.empty((depth + 1, depth + 1))
    products = np.ones((depth + 1, count))
    waiting = np.empty((depth + 2, 3), dtype=np.int64)
    for i in range(len(rows)):
        for root in roots:
            waiting[0, 0], waiting[0, 1], waiting[0, 2] = root, -1, 0
            pending = 1
            while pending > 0:
                pending -= 1
                node, parent, level = waiting[pending]
                if parent >= 0:
                    x = rows[i, feature[parent]]
                    goes = _next(x, parent, threshold, left, default_left) == node
                    if not _go_down(
                        level,
                        feature[parent],
                        shares[node],
                        goes,
                        points,
                        met,
                        on,
                        share,
                        own,
                        products,
                    ):
                        continue
                if feature[node] < 0:
                    _add_leaf(
                        value[node],
                        met[level, : on[level]],
                        share[level],
                        own[level],
                        products[level],
                        points,
                        weights,
                        amounts[i],
                    )
                    continue
                for child in range(left[node], left[node] + 2):
                    waiting[pending, 0], waiting[pending, 1] = child, node
                    waiting[pending, 2] = level + 1
                    pending += 1


@compiled
def _go_down(
    level: int,
    column: int,
    its_share: float,
    goes: bool,
    points: Vector,
    met: NDArray[np.int64],
    on: IntVector,
    share: NDArray[np.float64],
    own: NDArray[np.float64],
    products: NDArray[np.float64],
) -> bool:
    """Make a level of the one above it and one split more; False where nobody comes here."""
    size = on[level - 1]
    met[level, :size], share[level, :size] = met[level - 1, :size], share[level - 1, :size]
    own[level, :size], products[level] = own[level - 1, :size], products[level - 1]
    place = size
    for a in range(size):
        if met[level, a] == column:
            place = a
    if place < size:
        for p in range(len(points)):
            products[level, p] /= _factor(share[level, place], own[level, place], points[p])
    else:
        size += 1
        met[level, place], share[level, place], own[level, place] = column, 1.0, 1.0
    on[level] = size
    share[level, place] *= its_share
    if not goes:
        own[level, place] = 0.0
    if share[level, place] == 0.0 and own[level, place] == 0.0:
        return False
    for p in range(len(points)):
        products[level, p] *= _factor(share[level, place], own[level, place], points[p])
    return True


@compiled
def _add_leaf(
    value: float,
    met: IntVector,
    share: Vector,
    own: Vector,
    products: Vector,
    points: Vector,
    weights: Vector,
    amounts: Vector,
) -> None:
    """Add what a leaf gives to each feature of its path."""
    for a in range(len(met)):
        total = 0.0
        for p in range(len(points)):
            total += weights[p] * products[p] / _factor(share[a], own[a], points[p])
        amounts[met[a]] += value * (own[a] - share[a]) * total


@compiled
def _factor(share: float, own: float, point: float) -> float:
    return share * (1.0 - point) + own * point


TREES_METHOD = (
    "path-dependent TreeSHAP (Lundberg), against the documents of this list, whose mean score is "
    "the baseline"
)
THROUGH_THE_LINK = "; shared out in log-odds, and carried over to the score in proportion"


def _of_trees(model: TreeModel, features: Matrix) -> Contributions:
    """What each feature adds to the mean score of the documents, in the score's own units.

    If the trees add up to log-odds, these are shared out first: then all contributions of a
    document are multiplied by the change of its score per unit of its log-odds.
    """
    amounts, means = shapley_values(model.forest, features, features)
    mean = model.base + float(means.sum())
    if model.link == "identity":
        return Contributions(amounts, mean, TREES_METHOD)
    baseline = float(logistic(np.array(mean)))
    log_odds = amounts.sum(axis=1)
    unchanged = np.abs(log_odds) < 1e-9
    slopes = (logistic(mean + log_odds) - baseline) / np.where(unchanged, 1.0, log_odds)
    slopes = np.where(unchanged, baseline * (1 - baseline), slopes)
    return Contributions(amounts * slopes[:, None], baseline, TREES_METHOD + THROUGH_THE_LINK)


PATHS = 3
"""How many of the heaviest trees are gone through."""


def contributions(model: Model, features: Matrix) -> Contributions:
    """What each feature adds to each document's score; float32 features, NaN where missing.

    Trees are explained against all documents of `features`. Raises Refused for a kind of model
    that is not known.
    """
    if isinstance(model, LinearModel):
        weights, intercept = model.folded()
        return Contributions(missing_as_zero(features) * weights, intercept, _LINEAR)
    if isinstance(model, AdditiveModel):
        amounts = np.zeros(features.shape)
        for column, name in enumerate(model.feature_names):
            if name in model.curves:
                values = features[:, column].astype(np.float64)
                amounts[:, column] = model.curves[name].at(values)
        return Contributions(amounts, 0.0, "each feature's curve at its value")
    if isinstance(model, TreeModel):
        return _of_trees(model, features)
    if isinstance(model, AverageModel):
        parts = [contributions(part, features) for part in model.parts]
        methods = "; ".join(dict.fromkeys(part.method for part in parts))
        weighted = list(zip(map(float, model.weights), parts, strict=True))
        return Contributions(
            np.sum([weight * part.amounts for weight, part in weighted], axis=0),
            float(sum(weight * part.baseline for weight, part in weighted)),
            f"the mean of its parts' contributions: {methods}",
        )
    if isinstance(model, NetworkModel | LogisticNetwork):
        return of_network(model, features)
    # A run is a ranker, and no model.
    kind = getattr(model, "kind", "run")
    raise Refused(
        f"a ranker of kind '{kind}' cannot be explained: linear, additive and tree models, "
        "networks, and averages of them can"
    )


def in_words(model: Model, row: Vector) -> tuple[str, ...]:
    """By what each feature acts on this document: a weight, a curve, so many splits."""
    if isinstance(model, LinearModel):
        return tuple(f"weight {weight:.4g}" for weight in model.folded()[0].tolist())
    if isinstance(model, AdditiveModel):
        curves = (model.curves.get(name) for name in model.feature_names)
        return tuple(f"curve, {len(c.knots)} knots" if c else "no curve" for c in curves)
    if isinstance(model, TreeModel):
        columns = model.forest.feature[_way_down(model, row)]
        counts = np.bincount(columns[columns != LEAF], minlength=len(model.feature_names))
        return tuple(f"{count} split{'s'[: count != 1]}" for count in counts.tolist())
    if isinstance(model, AverageModel):
        parts = [in_words(part, row) for part in model.parts]
        return tuple(", ".join(dict.fromkeys(words)) for words in zip(*parts, strict=True))
    return ("all neurons",) * len(model.feature_names)


def _way_down(model: TreeModel, row: Vector) -> NDArray[np.int32]:
    """The nodes of a document in all trees (columns), a row a level."""
    return np.concatenate(
        [nodes for nodes, _ in _ways_down(model.forest, row[None].astype(np.float32))]
    )


def paths(model: Model, row: Vector, background: Matrix, most: int = PATHS) -> tuple[TreePath, ...]:
    """The ways of a document down the trees whose outputs are furthest from their means.

    None for a model without trees.
    """
    if isinstance(model, TreeModel):
        return _paths_down(model, row, background, most)
    if not isinstance(model, AverageModel):
        return ()
    candidates = [
        replace(
            path,
            tree=f"{path.tree} of part {number}",
            output=weight * path.output,
            mean_output=weight * path.mean_output,
        )
        for number, (weight, part) in enumerate(zip(model.weights, model.parts, strict=True), 1)
        for path in paths(part, row, background, most)
    ]
    candidates.sort(key=lambda path: -abs(path.output - path.mean_output))
    return tuple(candidates[:most])


def _paths_down(
    model: TreeModel, row: Vector, background: Matrix, most: int
) -> tuple[TreePath, ...]:
    forest, ways = model.forest, _way_down(model, row)
    means = _tree_means(forest, shares_of(forest, background))
    outputs, paths = forest.value[ways[-1]], []
    for tree in np.argsort(-np.abs(outputs - means), kind="stable")[:most].tolist():
        splits = []
        for node, child in pairwise(ways[:, tree].tolist()):
            column, threshold = forest.feature[node], float(forest.threshold[node])
            if column != LEAF:
                below = bool(child == forest.left[node])
                name = model.feature_names[column]
                splits.append(Split(name, float(row[column]), threshold, below))
        paths.append(
            TreePath(str(tree + 1), tuple(splits), float(outputs[tree]), float(means[tree]))
        )
    return tuple(paths)


_LINEAR = "weight × value, and the intercept as the baseline"
_NETWORK = (
    "DeepLIFT's rescale rule, from the document whose features are all 0, which is the baseline"
)
_LEAST = 1e-6
"""An input that moved less moves the output by its derivative, to all digits that there are."""


def of_network(model: NetworkModel | LogisticNetwork, features: Matrix) -> Contributions:
    """What each feature moved the score by, from the score of the document of zeros."""
    rows = missing_as_zero(features)
    if isinstance(model, NetworkModel):
        layers = [Layer(model.weights, model.biases)]
        return _rescaled(rows, layers, np.tanh, lambda y: 1 - y * y, model.outputs)
    return _rescaled(rows, model.layers, logistic, lambda y: y * (1 - y), np.ones(1))


def _rescaled(
    rows: Vector,
    layers: list[Layer] | tuple[Layer, ...],
    neuron: Callable[[Vector], Vector],
    derivative: Callable[[Vector], Vector],
    outputs: Vector,
) -> Contributions:
    """The rule for layers of one kind of neuron, of which `outputs` weighs the last."""
    values, zero = rows, np.zeros((1, rows.shape[1]))
    # What a unit of each feature moves each value by: the identity, to begin with.
    moved = np.broadcast_to(np.eye(rows.shape[1]), (len(rows), rows.shape[1], rows.shape[1]))
    for layer in layers:
        inputs, at_zero = (
            rows_of_layer @ layer.weights.T + layer.bias for rows_of_layer in (values, zero)
        )
        values, zero = neuron(inputs), neuron(at_zero)
        slopes = _slopes(inputs - at_zero, values - zero, derivative(zero))
        moved = (moved @ layer.weights.T) * slopes[:, None, :]
    return Contributions(rows * (moved @ outputs), float((zero @ outputs)[0]), _NETWORK)


def _slopes(inputs: Vector, outputs: Vector, derivatives: Vector) -> Vector:
    still = np.abs(inputs) < _LEAST
    return np.where(still, derivatives, outputs / np.where(still, 1.0, inputs))
