"""From a library's node tables to a checked Forest; thresholds that decide the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.models.trees import DEEPEST, HIGHEST, LARGEST, LEAF, Forest, to_single

NUMBER = r"[-+]?(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][-+]?\d{1,3})?"
"""A finite number in a library's text: no word, and not so long that reading it takes long."""


@dataclass(frozen=True)
class NodeTable:
    """One tree, nodes numbered in any way, the root 0; `feature` −1 marks a leaf.

    A document goes left where its value is below the (float32) threshold.
    """

    feature: NDArray[np.int64]
    threshold: Vector
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    default_left: NDArray[np.bool_]
    value: Vector


Node = tuple[int, float, int, int, bool, float]
"""One node: feature, threshold, left, right, default_left, value."""


def leaf(value: float) -> Node:
    """A node without children."""
    return LEAF, 0.0, 0, 0, False, value


def node_table(nodes: Sequence[Node]) -> NodeTable:
    """The tree whose nodes are these, the root first."""
    types = (np.int64, np.float64, np.int64, np.int64, np.bool_, np.float64)
    columns = zip(zip(*nodes, strict=True), types, strict=True)
    return NodeTable(*(np.array(column, dtype=dtype) for column, dtype in columns))


@dataclass
class GrowingForest:
    """Collects trees; each is walked from its root, so that everything else is refused."""

    trees: list[NodeTable] = field(default_factory=list)
    nodes: int = 0

    def add(self, table: NodeTable, where: str) -> None:
        """Add one tree. Raises BadInput, naming `where`, for what is not a tree."""
        order = check_tree(table, where)
        self.nodes += len(order)
        if self.nodes > LARGEST:
            raise BadInput(f"{where}: the model has more than {LARGEST} nodes")
        new = np.zeros(len(table.feature), dtype=np.int64)
        new[order] = np.arange(len(order))
        feature = table.feature[order]
        is_leaf = feature == LEAF
        left = np.where(is_leaf, 0, new[np.where(is_leaf, 0, table.left[order])])
        self.trees.append(
            NodeTable(
                feature,
                np.where(is_leaf, 0.0, table.threshold[order]),
                left,
                np.where(is_leaf, 0, left + 1),
                default_left=table.default_left[order] & ~is_leaf,
                value=np.where(is_leaf, table.value[order], 0.0),
            )
        )

    def forest(self, where: str) -> Forest:
        """All trees, in order. Raises BadInput if there are none."""
        if not self.trees:
            raise BadInput(f"{where} has no trees")
        starts = np.cumsum([0, *(len(tree.feature) for tree in self.trees[:-1])])
        left = [tree.left + start for tree, start in zip(self.trees, starts, strict=True)]
        try:
            return Forest(
                roots=starts.astype(np.int32),
                feature=np.concatenate([tree.feature for tree in self.trees]).astype(np.int32),
                threshold=to_single(np.concatenate([tree.threshold for tree in self.trees])),
                left=np.concatenate(left).astype(np.int32),
                default_left=np.concatenate([tree.default_left for tree in self.trees]),
                value=np.concatenate([tree.value for tree in self.trees]),
            )
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from error


def check_tree(table: NodeTable, where: str) -> NDArray[np.int64]:
    """Nodes reached from the root, level by level, siblings side by side.

    Raises BadInput unless they are a tree of bounded depth.
    """
    size = len(table.feature)
    if size == 0:
        raise BadInput(f"{where} has no nodes")
    seen = np.zeros(size, dtype=bool)
    level = np.zeros(1, dtype=np.int64)
    levels = []
    for _ in range(DEEPEST + 1):
        if len(np.unique(level)) != len(level) or seen[level].any():
            raise BadInput(f"{where}: a node has two parents, or is its own ancestor")
        seen[level] = True
        levels.append(level)
        splits = level[table.feature[level] != LEAF]
        if not len(splits):
            return np.concatenate(levels)
        level = np.column_stack([table.left[splits], table.right[splits]]).ravel()
        outside = (level < 0) | (level >= size)
        if outside.any():
            raise BadInput(f"{where}: node {level[outside][0]} is not among its {size} nodes")
    raise BadInput(f"{where} is deeper than {DEEPEST} splits")


def below(threshold: Vector) -> Vector:
    """Float32 numbers t' such that, for every float32 v, v ≤ threshold exactly where v < t'.

    For v beyond the largest finite float32 this cannot be said, and is not needed.
    """
    with np.errstate(over="ignore", under="ignore"):
        rounded = threshold.astype(np.float32)
        floor = np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
        above = np.nextafter(floor, np.float32(np.inf))
    return np.asarray(np.clip(above, -HIGHEST, HIGHEST), dtype=np.float64)
