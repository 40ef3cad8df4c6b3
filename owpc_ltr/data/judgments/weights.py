"""Weights in judgment lists: how sure a judgment is, and how often its query is asked.

Where nothing is said a weight is 1; what has the weight 0 counts for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.judgments.columns import (
    Column,
    Numbers,
    is_text,
    read_numbers,
    text_at,
    text_column,
)
from owpc_ltr.data.judgments.lines import JudgmentLines
from owpc_ltr.data.judgments.types import JudgedQuery
from owpc_ltr.files.text import shown

WEIGHT, IMPORTANCE = "weight", "query_weight"
"""What the columns of tables are called."""

_LARGEST = float(np.finfo(np.float64).max)
_UNFIT = (
    "is not a number from 0 up that fits: write 0.5, 1, 2 …, or nothing for 1; 0 counts for nothing"
)


class Weighed(NamedTuple):
    """Whether any document, and whether any query, has a weight other than 1."""

    documents: bool
    queries: bool

    @classmethod
    def among(cls, queries: Sequence[JudgedQuery]) -> Weighed:
        """Of these queries."""
        return cls(
            any(query.weights is not None and (query.weights != 1).any() for query in queries),
            any(query.importance not in {None, 1.0} for query in queries),
        )


def weights_of(query: JudgedQuery) -> Labels:
    """The weights of a query's documents; ones where nothing was said."""
    if query.weights is None:
        return np.ones(len(query.document_ids), np.float32)
    return query.weights


def importance_of(query: JudgedQuery) -> float:
    """How often a query is asked; 1 where nothing was said."""
    return 1.0 if query.importance is None else query.importance


def importance_cell(query: JudgedQuery) -> str:
    """The importance of a query as text, '' where nothing was said."""
    return "" if query.importance is None else decimal(query.importance)


def decimal(number: float | np.float32) -> str:
    """The shortest decimal that is the number in its own precision.

    >>> decimal(2.0), decimal(np.float32(0.1))
    ('2', '0.1')
    """
    return np.format_float_positional(number, trim="-")


def said_weight(cell: str) -> float | None:
    """The weight that a cell of text says, None for none. Raises ValueError for what is no weight.

    >>> said_weight("2.5"), said_weight(" ")
    (2.5, None)
    """
    if not cell.strip():
        return None
    numbers, unfit = read_numbers(text_column([cell]), _LARGEST)
    if unfit is not None or numbers[0] < 0:
        raise ValueError(f"{shown(cell)} {_UNFIT}")
    return float(numbers[0])


def read_weights(lines: JudgmentLines) -> Vector | None:
    """The weight of each judgment, if the list has any. Raises BadInput, naming the line."""
    if lines.weights is None:
        return None
    largest = float(np.finfo(np.float32).max)
    return _read(lines, lines.weights, WEIGHT, largest)[0]


def read_importance(
    lines: JudgmentLines, queries: Numbers, names: Sequence[str]
) -> list[float | None]:
    """The importance of each query; `queries` numbers those of the judgments.

    What one line of a query says holds for those that say nothing. Raises BadInput for what is no
    weight, and for a query that has two.
    """
    if lines.importance is None:
        return [None] * len(names)
    found, said = _read(lines, lines.importance, IMPORTANCE, _LARGEST)
    rows = np.flatnonzero(said)
    firsts = np.full(len(names), -1, np.int64)
    # In reverse, so that the first line of a query is the last to be written.
    firsts[queries[rows[::-1]]] = rows[::-1]
    other = rows[found[rows] != found[firsts[queries[rows]]]]
    if len(other):
        row = int(other[0])
        before = int(firsts[queries[row]])
        one, another = (text_at(lines.importance, each) for each in (row, before))
        raise lines.bad(
            row,
            f"query {shown(names[queries[row]])} has the {IMPORTANCE} {shown(one)}, and "
            f"{shown(another)} on {lines.place} {lines.numbers[before]}: give it one; how sure a "
            f"judgment is stands in a column '{WEIGHT}'",
        )
    return [None if row < 0 else float(found[row]) for row in firsts.tolist()]


def _read(
    lines: JudgmentLines, column: Column, name: str, largest: float
) -> tuple[Vector, NDArray[np.bool_]]:
    """The weights of a column, 1 where nothing is said, and where something is."""
    if is_text(column):
        blank = pc.equal(pc.utf8_trim_whitespace(column), "")
        filled = pc.if_else(blank, "1", column)
    else:
        blank = pc.is_null(column)
        filled = pc.fill_null(column, pa.scalar(1, column.type))
    numbers, unfit = read_numbers(filled, largest)
    if unfit is None and len(numbers) and numbers.min() < 0:
        unfit = int(np.flatnonzero(numbers < 0)[0])
    if unfit is not None:
        raise lines.bad(unfit, f"the {name} {shown(text_at(column, unfit))} {_UNFIT}")
    return numbers, ~np.asarray(blank.to_numpy(zero_copy_only=False), np.bool_)
