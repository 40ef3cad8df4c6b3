"""Splits that count zeros as missing (LightGBM's `zero_as_missing`), as ordinary splits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput
from owpc_ltr.formats.tree_builder import NodeTable, check_tree
from owpc_ltr.models.forest import DEEPEST, LARGEST, LEAF

ZERO = np.float32(1e-35)
"""LightGBM's kZeroThreshold: what lies within ± this, ends included, is a zero."""
_ZERO_FROM = -float(ZERO)
_ZERO_UNTIL = float(np.nextafter(ZERO, np.float32(np.inf)))


def send_zeros(table: NodeTable, zeros: NDArray[np.bool_], where: str) -> NodeTable:
    """The tree with ordinary splits only; where `zeros`, zeros go where a missing value goes.

    A split whose zeros leave their side becomes up to three splits with copies of its subtrees.
    Raises BadInput where that makes the tree too large.
    """
    check_tree(table, where)
    return _Copy(table, zeros, where).whole()


@dataclass
class _Copy:
    source: NodeTable
    zeros: NDArray[np.bool_]
    where: str
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    children: list[tuple[int, int]] = field(default_factory=list)
    default_left: list[bool] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def whole(self) -> NodeTable:
        self.grow(0, 0)
        left, right = np.array(self.children, dtype=np.int64).T
        return NodeTable(
            np.array(self.feature, dtype=np.int64),
            np.array(self.threshold),
            left,
            right,
            np.array(self.default_left),
            np.array(self.value),
        )

    def grow(self, node: int, depth: int) -> int:
        """Copy the subtree of a node; the number of the copy."""
        source = self.source
        size = len(source.feature)
        if depth > DEEPEST or not 0 <= node < size:
            raise BadInput(f"{self.where} is deeper than {DEEPEST} splits, or not a tree")
        if source.feature[node] == LEAF:
            return self.append(LEAF, 0.0, False, float(source.value[node]))
        first, *rest = _pieces(
            float(source.threshold[node]), bool(source.default_left[node]), bool(self.zeros[node])
        )
        return self.chain(node, first[1], rest, depth)

    def chain(self, node: int, side: bool, rest: list[tuple[float, bool]], depth: int) -> int:
        """Splits of one feature from low to high: below the first bound go to `side`."""
        if not rest:
            return self.grow(self.child(node, side), depth + 1)
        missing = bool(self.source.default_left[node])
        # The side of missing values may be in either half: it is in the first if `side` is it.
        here = self.append(int(self.source.feature[node]), rest[0][0], side == missing, 0.0)
        low = self.grow(self.child(node, side), depth + 1)
        self.children[here] = (low, self.chain(node, rest[0][1], rest[1:], depth + 1))
        return here

    def child(self, node: int, side: bool) -> int:
        return int(self.source.left[node] if side else self.source.right[node])

    def append(self, feature: int, threshold: float, default_left: bool, value: float) -> int:
        if len(self.feature) >= LARGEST:
            raise BadInput(
                f"{self.where} would need more than {LARGEST} splits without zero_as_missing: "
                "train with zero_as_missing=false"
            )
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.default_left.append(default_left)
        self.children.append((0, 0))
        self.value.append(value)
        return len(self.feature) - 1


def _pieces(threshold: float, default_left: bool, zeros: bool) -> list[tuple[float, bool]]:
    """Where each range of values goes, from low to high: (lower bound, whether left)."""
    bounds = {-np.inf, threshold, _ZERO_FROM, _ZERO_UNTIL} if zeros else {-np.inf, threshold}
    pieces: list[tuple[float, bool]] = []
    for bound in sorted(bounds):
        left = default_left if zeros and _ZERO_FROM <= bound < _ZERO_UNTIL else bound < threshold
        if not pieces or pieces[-1][1] != left:
            pieces.append((bound, left))
    return pieces
