"""Forest: binary decision trees as flat arrays, checked whole before anything walks them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import BadInput

DEEPEST = 64
LARGEST = 1_000_000
LEAF = -1
HIGHEST = float(np.finfo(np.float32).max)
"""The largest finite float32: no threshold, weight or output of a model is beyond ±it."""
ROUNDS_TO_FINITE = 3.4028235677973362e38
"""The largest float64 that still rounds to a finite float32: what a reader may be given."""
_BLOCK = 64  # documents that go down a tree together
_NODE = np.dtype([("feature", "i4"), ("left", "i4"), ("threshold", "f4"), ("missing", "i4")])


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose nodes are numbered so that children follow their parent, side by side.

    Node i is a leaf with output `value[i]` where `feature[i]` is −1. Otherwise a document goes to
    node `left[i]` where its value is below `threshold[i]`, else to `left[i] + 1`; where the value
    is missing, to the one that `default_left[i]` says. `roots` (ascending, the first is 0) starts
    one tree each. Thresholds are float32, as features are; outputs float64.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    default_left: NDArray[np.bool_]
    value: NDArray[np.float64]

    def __post_init__(self) -> None:
        sizes = {len(getattr(self, field.name)) for field in fields(self)[1:]}
        if len(sizes) != 1:
            raise BadInput(f"the arrays of a forest have different lengths: {sorted(sizes)}")
        if not 0 < len(self.feature) <= LARGEST:
            raise BadInput(f"a forest has 1 to {LARGEST} nodes, not {len(self.feature)}")
        _check_roots(self)
        _check_numbers(self)
        _check_children(self)

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Which nodes are leaves."""
        return np.asarray(self.feature == LEAF)

    @property
    def tree_of_node(self) -> NDArray[np.intp]:
        """The tree that each node belongs to."""
        return np.searchsorted(self.roots, np.arange(len(self.feature)), side="right") - 1

    def tree_nodes(self) -> list[range]:
        """The node numbers of each tree."""
        ends = [*self.roots[1:].tolist(), len(self.feature)]
        return [range(start, end) for start, end in zip(self.roots.tolist(), ends, strict=True)]

    def score(self, features: Matrix) -> NDArray[np.float64]:
        """The sum of the outputs for each row, added in float64."""
        scores = np.zeros(len(features))
        _add_outputs(_rows(features), self.roots, self._nodes, self.value, scores)
        return scores

    def score_single(
        self, features: Matrix, *, outputs: type[np.floating[Any]] = np.float32
    ) -> NDArray[np.float32]:
        """The sum of the outputs, rounded to float32 at every step, as engines add them.

        `outputs` is the precision in which an engine holds a leaf before it adds it.
        """
        scores = np.zeros(len(features), dtype=np.float32)
        _add_outputs(_rows(features), self.roots, self._nodes, self.value.astype(outputs), scores)
        return scores

    @cached_property
    def _nodes(self) -> NDArray[np.void]:
        """All of a node in 16 bytes, so that a step reads one line of memory."""
        nodes = np.empty(len(self.feature), dtype=_NODE)
        nodes["feature"], nodes["left"] = self.feature, self.left
        nodes["threshold"], nodes["missing"] = self.threshold, ~self.default_left
        return nodes


@compiled
def _add_outputs(features: Any, roots: Any, nodes: Any, value: Any, scores: Any) -> None:
    """Add every tree's output to `scores`, trees in order, in the precision of `scores`.

    The documents of a block go down together, a step each in turn: their steps do not wait for
    each other's memory.
    """
    at = np.empty(_BLOCK, dtype=np.int64)
    for start in range(0, features.shape[0], _BLOCK):
        size = min(_BLOCK, features.shape[0] - start)
        for root in roots:
            at[:size] = root
            moved = True
            while moved:
                moved = False
                for i in range(size):
                    node = nodes[at[i]]
                    if node.feature >= 0:
                        x = features[start + i, node.feature]
                        right = np.int32(not (x < node.threshold))
                        if x != x:  # noqa: PLR0124 - NaN
                            right = node.missing
                        at[i] = node.left + right
                        moved = True
            for i in range(size):
                scores[start + i] += value[at[i]]


def _rows(features: Matrix) -> NDArray[np.float32]:
    return np.ascontiguousarray(features, dtype=np.float32)


def _check_roots(forest: Forest) -> None:
    roots = forest.roots
    if len(roots) == 0 or roots[0] != 0 or (np.diff(roots) <= 0).any():
        raise BadInput("the roots of a forest do not ascend from node 0")
    if roots[-1] >= len(forest.feature):
        raise BadInput(f"root {roots[-1]} is beyond the forest's {len(forest.feature)} nodes")


def _check_numbers(forest: Forest) -> None:
    bad = np.flatnonzero(forest.feature < LEAF)
    if len(bad):
        raise BadInput(f"node {bad[0]} splits on feature number {forest.feature[bad[0]]}")
    for what, numbers in (("threshold", forest.threshold), ("output", forest.value)):
        bad = np.flatnonzero(~(np.abs(numbers.astype(np.float64)) <= HIGHEST))
        if len(bad):
            raise BadInput(
                f"the {what} of node {bad[0]} is {numbers[bad[0]]}, not a finite float32 number"
            )


def _check_children(forest: Forest) -> None:
    parents = np.flatnonzero(~forest.is_leaf)
    children = forest.left[parents].astype(np.int64)
    bad = np.flatnonzero((children <= parents) | (children + 1 >= len(forest.feature)))
    if len(bad):
        raise BadInput(f"node {parents[bad[0]]} has children out of place: {children[bad[0]]}")
    uses = np.zeros(len(forest.feature), dtype=np.int64)
    np.add.at(uses, forest.roots, 1)
    np.add.at(uses, children, 1)
    np.add.at(uses, children + 1, 1)
    bad = np.flatnonzero(uses != 1)
    if len(bad):
        raise BadInput(f"node {bad[0]} has {uses[bad[0]]} parents, not one")
    tree = forest.tree_of_node
    bad = np.flatnonzero((tree[parents] != tree[children]) | (tree[parents] != tree[children + 1]))
    if len(bad):
        raise BadInput(f"node {parents[bad[0]]} has a child in another tree")
    _check_depth(forest)


def _check_depth(forest: Forest) -> None:
    level = forest.roots
    for _ in range(DEEPEST + 1):
        level = level[~forest.is_leaf[level]]
        if not len(level):
            return
        level = np.concatenate([forest.left[level], forest.left[level] + 1])
    raise BadInput(f"a tree is deeper than {DEEPEST} splits")
