"""A forest as a sum of tables, and their blocks: features whose bins travel as one number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import Refused
from owpc_ltr.models.trees import LEAF, Forest

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
    found: dict[tuple[int, ...], list[_Leaf]] = {}
    for leaf in _leaves(forest, names):
        found.setdefault(tuple(sorted(leaf.bounds)), []).append(leaf)
    constant = math.fsum(leaf.value for leaf in found.pop((), []))
    drafts = _merged([_draft(columns, leaves) for columns, leaves in found.items()])
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
        found = []
        for column, own in zip(table.columns, table.thresholds, strict=True):
            wide = self.thresholds[self.columns.index(column)]
            inside = np.searchsorted(own, wide, side="right") + 1
            found.append(np.concatenate([[0, 1], inside]).astype(np.intp))
        return found


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
