"""TreeModel: a sum of decision trees, from any library, in one exact form; and as tables.

An engine without the plugin runs a forest as a sum of tables, in blocks: features whose bins travel
as one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import take_integers, take_numbers
from owpc_ltr.models.model_file import SavedRanker, model_matrix
from owpc_ltr.text import ShortRepr

T = TypeVar("T")

DEEPEST = 64
LARGEST = 1_000_000
LEAF = -1
HIGHEST = float(np.finfo(np.float32).max)
"""The largest finite float32: no threshold, weight or output of a model is beyond ±it."""
ROUNDS_TO_FINITE = 3.4028235677973362e38
"""The largest float64 that still rounds to a finite float32: what a reader may be given."""
_BLOCK = 64  # documents that go down a tree together
_CHECKED_EVERY = 8  # steps down a tree, after which a block may be at leaves
_NODE = np.dtype([("feature", "u4"), ("left", "u4"), ("threshold", "f4"), ("missing", "u4")])


@dataclass(frozen=True, eq=False, repr=False)
class Forest(ShortRepr):
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
        _ = self._depths  # refuses a tree that is too deep

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
        self._add(features, self.value, scores)
        return scores

    def score_single(
        self, features: Matrix, *, outputs: type[np.floating[Any]] = np.float32
    ) -> NDArray[np.float32]:
        """The sum of the outputs, rounded to float32 at every step, as engines add them.

        `outputs` is the precision in which an engine holds a leaf before it adds it.
        """
        scores = np.zeros(len(features), dtype=np.float32)
        self._add(features, self.value.astype(outputs), scores)
        return scores

    def _add(self, features: Matrix, value: NDArray[Any], scores: NDArray[Any]) -> None:
        rows = np.ascontiguousarray(features, dtype=np.float32)
        _add_outputs(rows, self.roots, self._depths, self._nodes, value, scores)

    @cached_property
    def _nodes(self) -> NDArray[np.void]:
        """All of a node in 16 bytes, so that a step reads one line of memory.

        A leaf leads to itself: nothing is above its threshold, and nothing missing goes right.
        """
        nodes, is_leaf = np.empty(len(self.feature), dtype=_NODE), self.is_leaf
        nodes["feature"] = np.where(is_leaf, 0, self.feature)
        nodes["left"] = np.where(is_leaf, np.arange(len(nodes)), self.left)
        nodes["threshold"] = np.where(is_leaf, np.nan, self.threshold)
        nodes["missing"] = ~(is_leaf | self.default_left)
        return nodes

    @cached_property
    def _depths(self) -> NDArray[np.int32]:
        """The most splits on a way down each tree. Raises BadInput for more than `DEEPEST`."""
        depths = np.zeros(len(self.roots), dtype=np.int32)
        level, tree, is_leaf = self.roots, np.arange(len(self.roots)), self.is_leaf
        for depth in range(DEEPEST + 1):
            depths[tree] = depth
            splits = ~is_leaf[level]
            level, tree = level[splits], tree[splits]
            if not len(level):
                return depths
            level = np.concatenate([self.left[level], self.left[level] + 1])
            tree = np.concatenate([tree, tree])
        raise BadInput(f"a tree is deeper than {DEEPEST} splits")


def written_trees(
    forest: Forest, leaf: Callable[[int], T], split: Callable[[int, T, T], T]
) -> list[T]:
    """Each tree in another form, from its leaves up: `split` of a node and of both its children."""
    made: dict[int, T] = {}
    left, is_leaf = forest.left.tolist(), forest.is_leaf.tolist()
    for node in reversed(range(len(left))):
        if is_leaf[node]:
            made[node] = leaf(node)
        else:
            made[node] = split(node, made.pop(left[node]), made.pop(left[node] + 1))
    return [made[root] for root in forest.roots.tolist()]


@compiled
def _are_leaves(nodes: NDArray[np.void], at: NDArray[np.uint32]) -> bool:
    for i in range(len(at)):  # noqa: SIM110 - numba compiles no generator
        if nodes[at[i]].left != at[i]:
            return False
    return True


@compiled
def _add_outputs(
    features: Matrix,
    roots: NDArray[np.int32],
    depths: NDArray[np.int32],
    nodes: NDArray[np.void],
    value: NDArray[np.floating[Any]],
    scores: NDArray[np.floating[Any]],
) -> None:
    """Add every tree's output to `scores`, trees in order, in the precision of `scores`.

    The documents of a block go down together, a step each in turn: their steps do not wait for
    each other's memory. A step has no branch that a processor could predict wrongly; who is at a
    leaf stays there.
    """
    at = np.empty(_BLOCK, dtype=np.uint32)
    for start in range(0, features.shape[0], _BLOCK):
        rows = features[start : start + _BLOCK]
        size = rows.shape[0]
        for tree in range(len(roots)):
            at[:size] = roots[tree]
            for depth in range(1, depths[tree] + 1):
                for i in range(size):
                    node = nodes[at[i]]
                    x = rows[i, node.feature]
                    is_missing = np.uint32(x != x)  # noqa: PLR0124 - NaN
                    right = np.uint32(x >= node.threshold) | (is_missing & node.missing)
                    at[i] = node.left + right
                if depth % _CHECKED_EVERY == 0 and _are_leaves(nodes, at[:size]):
                    break
            for i in range(size):
                scores[start + i] += value[at[i]]


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


LINKS = ("identity", "logistic")
"""What is done to the sum of the trees: nothing, or 1 / (1 + exp(−sum))."""


@dataclass(frozen=True, eq=False, repr=False)
class TreeModel(SavedRanker):
    """`base` plus the outputs of the trees, through the link.

    A missing feature (NaN) goes where each split's `default_left` says; `with_missing_as_zero`
    makes that the way of a 0.
    """

    kind: ClassVar[str] = "trees"

    feature_names: tuple[str, ...]
    forest: Forest
    base: float = 0.0
    link: str = "identity"
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.feature_names)) != len(self.feature_names):
            raise BadInput("a tree model has two features of one name")
        highest = int(self.forest.feature.max())
        if highest >= len(self.feature_names):
            raise BadInput(
                f"a tree splits on feature number {highest}, the model has "
                f"{len(self.feature_names)} features"
            )
        if self.link not in LINKS:
            link = shown(str(self.link))
            raise BadInput(f"the link of a tree model is {' or '.join(LINKS)}, not {link}")
        if not abs(self.base) <= HIGHEST:
            raise BadInput(f"the base score {self.base} is not a finite float32 number")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        margin = self.forest.score(features) + self.base
        return margin if self.link == "identity" else logistic(margin)

    def sizes(self) -> dict[str, object]:
        """Trees and leaves."""
        return {"trees": len(self.forest.roots), "leaves": int(self.forest.is_leaf.sum())}

    def feature_uses(self) -> dict[str, float]:
        """How many splits read each feature; those that none reads are left out."""
        used = self.forest.feature[~self.forest.is_leaf]
        counts = np.bincount(used, minlength=len(self.feature_names)).tolist()
        return {
            name: float(count)
            for name, count in zip(self.feature_names, counts, strict=True)
            if count
        }

    @property
    def splits(self) -> NDArray[np.intp]:
        """The nodes that are not leaves."""
        return np.flatnonzero(~self.forest.is_leaf)

    def with_missing_as_zero(self) -> TreeModel:
        """The model that sends a missing feature where a feature of 0 goes."""
        forest = replace(self.forest, default_left=self.forest.threshold > 0)
        return replace(self, forest=forest)

    def with_base_as_tree(self) -> TreeModel:
        """The same model with the base score as one more tree, of a single leaf."""
        if self.base == 0:
            return self
        old, last = self.forest, len(self.forest.feature)
        forest = Forest(
            roots=np.append(old.roots, np.int32(last)),
            feature=np.append(old.feature, np.int32(LEAF)),
            threshold=np.append(old.threshold, np.float32(0)),
            left=np.append(old.left, np.int32(0)),
            default_left=np.append(old.default_left, False),
            value=np.append(old.value, self.base),
        )
        return replace(self, forest=forest, base=0.0)

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        forest = self.forest
        return {
            "link": self.link,
            "base": self.base,
            "roots": forest.roots.tolist(),
            "feature": forest.feature.tolist(),
            "threshold": shortest_floats(forest.threshold),
            "left": forest.left.tolist(),
            "default_left": forest.default_left.astype(int).tolist(),
            "value": forest.value.tolist(),
        }

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> TreeModel:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        where = "the tree model"
        default_left = take_integers(content, "default_left", where)
        if ((default_left != 0) & (default_left != 1)).any():
            raise BadInput("'default_left' of the tree model does not hold only 0 and 1")
        forest = Forest(
            roots=take_integers(content, "roots", where).astype(np.int32),
            feature=take_integers(content, "feature", where).astype(np.int32),
            threshold=to_single(take_numbers(content, "threshold", where)),
            left=take_integers(content, "left", where).astype(np.int32),
            default_left=default_left == 1,
            value=take_numbers(content, "value", where),
        )
        base = take_numbers({"base": [content["base"]]}, "base", where)[0]
        return cls(names, forest, float(base), str(content["link"]), record)


def logistic(margin: Vector) -> Vector:
    """1 / (1 + exp(−margin)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * margin)))


def to_single(values: Vector) -> NDArray[np.float32]:
    """The nearest float32 numbers; infinite where there is none."""
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(np.float32)


def shortest_floats(values: NDArray[np.float32]) -> list[float]:
    """Each float32 as the number with the fewest digits that reads back as the same float32."""
    return [
        float(text) if np.float32(float(text)) == value else float(value)
        for text, value in zip(values.astype(str), values, strict=True)
    ]


MOST_FEATURES = 3
"""How many features a path may touch."""
MOST_ENTRIES = 1 << 17
"""How many values all tables of a forest may have together."""
_A_TABLE_LESS = 64
"""How many entries more are worth one table less."""

Bins = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BinTable:
    """A value for each combination of the bins of a few columns.

    Bin 0 of a column is that of missing values, bin 1 lies below the first of its `thresholds`
    (float32, ascending), the last one from the last threshold on. `values` has one axis a column.
    """

    columns: tuple[int, ...]
    thresholds: tuple[NDArray[np.float32], ...]
    values: NDArray[np.float64]


def tables_of(forest: Forest, names: Sequence[str]) -> tuple[list[BinTable], float]:
    """Tables that add up to the forest, and the constant that is left, in few tables.

    Raises Refused, saying what would fit, for a path of more than three features and for tables
    that are too large; `names` are the features', by column.
    """
    leaves_by_columns: dict[tuple[int, ...], list[_Leaf]] = {}
    for leaf in _leaves(forest, names):
        leaves_by_columns.setdefault(tuple(sorted(leaf.bounds)), []).append(leaf)
    constant = math.fsum(leaf.value for leaf in leaves_by_columns.pop((), []))
    drafts = _merged([_draft(columns, leaves) for columns, leaves in leaves_by_columns.items()])
    entries = sum(draft.entries for draft in drafts)
    if entries > MOST_ENTRIES:
        largest = max(drafts, key=lambda draft: draft.entries)
        raise Refused(
            f"as tables the forest has {entries:,} values, {largest.entries:,} of them for "
            f"{_listed(largest.columns, names)}, and {MOST_ENTRIES:,} are the most: train fewer or "
            "shallower trees, with optimizer.interactions=20 and optimizer.bins=64"
        )
    return [draft.table() for draft in drafts], constant


@dataclass(frozen=True)
class _Leaf:
    """Of each column on the path: from, below, and whether a missing value gets here too."""

    bounds: Mapping[int, tuple[float, float, bool]]
    value: float


@dataclass(frozen=True)
class _Draft:
    """A table that is not filled yet."""

    columns: tuple[int, ...]
    thresholds: tuple[frozenset[float], ...]
    leaves: list[_Leaf]

    @property
    def entries(self) -> int:
        return math.prod(len(thresholds) + 2 for thresholds in self.thresholds)

    def with_all_of(self, other: _Draft) -> _Draft:
        """The table of both, where this one has all columns of the other."""
        more = dict(zip(other.columns, other.thresholds, strict=True))
        thresholds = tuple(
            own | more.get(column, frozenset())
            for column, own in zip(self.columns, self.thresholds, strict=True)
        )
        return _Draft(self.columns, thresholds, [*self.leaves, *other.leaves])

    def table(self) -> BinTable:
        """The table, each leaf's value added wherever it applies."""
        ordered = [sorted(thresholds) for thresholds in self.thresholds]
        places = [{value: place for place, value in enumerate(each)} for each in ordered]
        values = np.zeros([len(each) + 2 for each in ordered])
        for leaf in self.leaves:
            applies = [
                _bins_within(leaf.bounds.get(column), place)
                for column, place in zip(self.columns, places, strict=True)
            ]
            values[np.ix_(*applies)] += leaf.value
        thresholds = tuple(np.array(each, dtype=np.float32) for each in ordered)
        return BinTable(self.columns, thresholds, values)


def _leaves(forest: Forest, names: Sequence[str]) -> Iterator[_Leaf]:
    """Every leaf that some document can come to."""
    feature, left = forest.feature.tolist(), forest.left.tolist()
    threshold = forest.threshold.astype(np.float64).tolist()
    default_left, value = forest.default_left.tolist(), forest.value.tolist()
    waiting: list[tuple[int, dict[int, tuple[float, float, bool]]]]
    waiting = [(root, {}) for root in forest.roots.tolist()]
    while waiting:
        node, bounds = waiting.pop()
        column = feature[node]
        if column == LEAF:
            yield _Leaf(bounds, value[node])
            continue
        low, high, missing = bounds.get(column, (-math.inf, math.inf, True))
        at, goes_left = threshold[node], default_left[node]
        parts = (
            (low, min(high, at), missing and goes_left),
            (max(low, at), high, missing and not goes_left),
        )
        for child, part in enumerate(parts, left[node]):
            if part[0] < part[1] or part[2]:
                waiting.append((child, {**bounds, column: part}))
        if len(bounds) == MOST_FEATURES and column not in bounds:
            raise Refused(
                f"a path of the trees touches {_listed([*bounds, column], names)}, and "
                f"{MOST_FEATURES} features are the most: train with optimizer.depth={MOST_FEATURES}"
                " or less, or with optimizer.interactions=20"
            )


def _draft(columns: tuple[int, ...], leaves: list[_Leaf]) -> _Draft:
    thresholds = (
        frozenset(end for leaf in leaves for end in leaf.bounds[column][:2] if math.isfinite(end))
        for column in columns
    )
    return _Draft(columns, tuple(thresholds), leaves)


def _merged(drafts: list[_Draft]) -> list[_Draft]:
    """Fewer tables: one goes into another that has its columns, where that hardly grows."""
    kept: list[_Draft] = []
    # The largest first, so that what could take others in is there already.
    for draft in sorted(drafts, key=lambda each: (-len(each.columns), -each.entries, each.columns)):
        grown = {
            number: other.with_all_of(draft)
            for number, other in enumerate(kept)
            if set(draft.columns) < set(other.columns)
        }
        best = min(grown, key=lambda n: grown[n].entries - kept[n].entries, default=None)
        spared = draft.entries + _A_TABLE_LESS
        if best is not None and grown[best].entries - kept[best].entries <= spared:
            kept[best] = grown[best]
        else:
            kept.append(draft)
    return kept


def _bins_within(bounds: tuple[float, float, bool] | None, places: Mapping[float, int]) -> Bins:
    """The bins of a column that a leaf applies to."""
    low, high, missing = bounds or (-math.inf, math.inf, True)
    first = places[low] + 2 if math.isfinite(low) else 1
    last = places[high] + 1 if math.isfinite(high) else len(places) + 1
    bins = np.arange(first, last + 1)
    return np.append(0, bins) if missing else bins


def _listed(columns: Sequence[int], names: Sequence[str]) -> str:
    *first, last = (f"'{names[column]}'" for column in columns)
    return f"{', '.join(first)} and {last}" if first else last


MOST_CODES = 1 << 24
"""How many whole numbers, from 0 on, a float32 holds exactly."""


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Columns with thresholds of all tables in it; bins are as those of a table."""

    columns: tuple[int, ...]
    thresholds: tuple[NDArray[np.float32], ...]
    tables: tuple[BinTable, ...]

    def bins_in(self, table: BinTable) -> list[NDArray[np.intp]]:
        """For each column of the table, its bin for each bin of the block."""
        bins = []
        for column, own in zip(table.columns, table.thresholds, strict=True):
            wide = self.thresholds[self.columns.index(column)]
            inside = np.searchsorted(own, wide, side="right") + 1
            bins.append(np.concatenate([[0, 1], inside]).astype(np.intp))
        return bins


def blocks_of(tables: Sequence[BinTable]) -> list[TableBlock]:
    """The tables in blocks, so that few features are asked more than once.

    Each block begins with the largest table that is left, and takes in what shares most features
    with it for as long as the code has room.
    """
    left = sorted(tables, key=lambda table: (-table.values.size, table.columns))
    blocks = []
    while left:
        block = _block([left.pop(0)])
        while left:
            chosen = _next(block, left)
            if chosen is None:
                break
            block = _block([*block.tables, left.pop(chosen)])
        blocks.append(block)
    return blocks


def _next(block: TableBlock, left: Sequence[BinTable]) -> int | None:
    """Of the tables that fit: one without a new feature, else what brings in most for its new ones.

    A table of a single feature that is new is better off in a block than by itself.
    """
    known = dict(zip(block.columns, block.thresholds, strict=True))
    prices: dict[frozenset[int], float] = {}
    best: tuple[float, int, int] | None = None
    for number, table in enumerate(left):
        new = frozenset(table.columns).difference(known)
        if len(new) == len(table.columns) > 1:
            continue
        if new not in prices:
            whole = new.union(known)
            prices[new] = len(new) / sum(whole.issuperset(other.columns) for other in left)
        price = prices[new]
        if best is not None and price > best[0]:
            continue
        size = _codes(known, table)
        if size <= MOST_CODES and (best is None or (price, size, number) < best):
            best = price, size, number
    return None if best is None else best[2]


def _codes(known: dict[int, NDArray[np.float32]], table: BinTable) -> int:
    """How many codes the block would have with the table."""
    sizes = {column: len(thresholds) for column, thresholds in known.items()}
    for column, own in zip(table.columns, table.thresholds, strict=True):
        sizes[column] = len(np.union1d(known[column], own)) if column in known else len(own)
    return math.prod(size + 2 for size in sizes.values())


def _block(tables: Sequence[BinTable]) -> TableBlock:
    thresholds: dict[int, NDArray[np.float32]] = {}
    for table in tables:
        for column, own in zip(table.columns, table.thresholds, strict=True):
            thresholds[column] = np.union1d(thresholds.get(column, own), own)
    columns = tuple(sorted(thresholds))
    return TableBlock(columns, tuple(thresholds[column] for column in columns), tuple(tables))
