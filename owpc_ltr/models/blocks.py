"""Blocks of tables: features whose bins travel as one number, and the tables that read them.

A plain engine adds up numbers of 32 bits. A float32 holds whole numbers up to 2²⁴ exactly, so that
the bins of several features, each times what lies below it, add up to a code from which each can be
read again. Tables that share features share a block: each feature is asked once in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.models.tables import Table, bins_of

MOST_CODES = 1 << 24
"""How many whole numbers, from 0 on, a float32 holds exactly."""


@dataclass(frozen=True, eq=False)
class Block:
    """Columns with thresholds of all tables in it; bins are as those of a table."""

    columns: tuple[int, ...]
    thresholds: tuple[NDArray[np.float32], ...]
    tables: tuple[Table, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many bins each column has."""
        return tuple(len(thresholds) + 2 for thresholds in self.thresholds)

    @property
    def steps(self) -> tuple[int, ...]:
        """By what each column's bin is multiplied in the code."""
        return tuple(math.prod(self.sizes[:place]) for place in range(len(self.columns)))

    def codes(self, features: Matrix) -> NDArray[np.float32]:
        """The code of each row, added up in float32 as an engine does."""
        total = np.zeros(len(features), dtype=np.float32)
        for column, thresholds, step in zip(self.columns, self.thresholds, self.steps, strict=True):
            total += (bins_of(features[:, column], thresholds) * step).astype(np.float32)
        return total

    def bins_in(self, table: Table) -> list[NDArray[np.intp]]:
        """For each column of the table, its bin for each bin of the block."""
        found = []
        for column, own in zip(table.columns, table.thresholds, strict=True):
            wide = self.thresholds[self.columns.index(column)]
            inside = np.searchsorted(own, wide, side="right") + 1
            found.append(np.concatenate([[0, 1], inside]).astype(np.intp))
        return found

    def score(self, features: Matrix) -> Vector:
        """The sum of the tables for each row, read from the codes."""
        codes = self.codes(features).astype(np.int64)
        digits = [codes // step % size for step, size in zip(self.steps, self.sizes, strict=True)]
        total = np.zeros(len(features))
        for table in self.tables:
            places = [
                bins[digits[self.columns.index(column)]]
                for column, bins in zip(table.columns, self.bins_in(table), strict=True)
            ]
            total += table.values[tuple(places)]
        return total


def blocks_of(tables: Sequence[Table]) -> list[Block]:
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


def _next(block: Block, left: Sequence[Table]) -> int | None:
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


def _codes(known: dict[int, NDArray[np.float32]], table: Table) -> int:
    """How many codes the block would have with the table."""
    sizes = {column: len(thresholds) for column, thresholds in known.items()}
    for column, own in zip(table.columns, table.thresholds, strict=True):
        sizes[column] = len(np.union1d(known[column], own)) if column in known else len(own)
    return math.prod(size + 2 for size in sizes.values())


def _block(tables: Sequence[Table]) -> Block:
    thresholds: dict[int, NDArray[np.float32]] = {}
    for table in tables:
        for column, own in zip(table.columns, table.thresholds, strict=True):
            thresholds[column] = np.union1d(thresholds.get(column, own), own)
    columns = tuple(sorted(thresholds))
    return Block(columns, tuple(thresholds[column] for column in columns), tuple(tables))
