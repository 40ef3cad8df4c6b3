"""Columns of judgment lists, one value a judgment: texts, numbers, JSON values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import json_text, read_json_value
from owpc_ltr.files.text import shown

Column = Any
"""A `pyarrow.ChunkedArray`; what makes one takes a sequence of Python values too."""

Numbers = NDArray[np.int64]


def text_column(values: Sequence[str] | Column) -> Column:
    """The texts as a column; what has no value is empty."""
    column: Column = values if _is_arrow(values) else pa.array(values, pa.string())
    return _chunked(pc.fill_null(column, "") if column.null_count else column)


def number_column(values: Sequence[str] | Column) -> Column:
    """Numbers as a column: Arrow's as they are, all else as texts."""
    return _chunked(values) if _is_arrow(values) and not is_text(values) else text_column(values)


def is_text(column: Column) -> bool:
    """Whether the values of the column are texts, and not numbers."""
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def encode(column: Column) -> tuple[Numbers, list[str]]:
    """A number for each value, and the values in the order of their first appearance."""
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def decode(codes: Numbers, values: Sequence[str]) -> Column:
    """The texts that the codes number."""
    return text_column(pa.array(values, pa.string()).take(pa.array(codes)))


def text_at(column: Column, row: int) -> str:
    """A value as the file has it, or would have it in text."""
    return column[row].cast(pa.string()).as_py() or ""


def _is_arrow(values: object) -> bool:
    return isinstance(values, pa.Array | pa.ChunkedArray)


def _chunked(column: Column) -> Column:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def read_numbers(column: Column, largest: float) -> tuple[Vector, int | None]:
    """The numbers of a column, and the first row that has none between ±`largest`, if any."""
    if is_text(column):
        row = pc.index(pc.match_substring_regex(column, _NUMBER), False).as_py()
        if row >= 0:
            return np.zeros(0), row
    numbers = _numbers(column)
    # NaN fits nowhere.
    unfit = np.flatnonzero(~(np.abs(numbers) <= largest))
    return numbers, int(unfit[0]) if len(unfit) else None


def _numbers(column: Column) -> Vector:
    try:
        return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)
    except pa.ArrowInvalid:
        # Arrow does not know '+1', '1.' and '1e400'.
        return np.array([float(value) for value in column.to_pylist()])


JSON = ":json"
"""How a column's name ends whose cells are JSON: the parameter is called what is before it."""

Refuse = Callable[[int, str], BadInput]
"""Makes the error that names the line of a judgment, counted from 0, and says what is wrong."""


@dataclass(frozen=True, eq=False)
class TypedColumn:
    """One JSON value a judgment; None is no value.

    `values` are the different ones and `codes` number them, so that a query's vector is held and
    compared once, however many judgments the query has. Two codes of a query are two values.
    """

    codes: Numbers
    values: Sequence[Any]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Any) -> TypedColumn:
        """The values of these judgments; `rows` are Arrow's or NumPy's numbers."""
        return TypedColumn(self.codes[np.asarray(rows)], self.values)

    def to_pylist(self) -> list[Any]:
        """Every judgment's value."""
        return [self.values[code] for code in self.codes.tolist()]

    def told(self, row: int) -> str:
        """A judgment's value as JSON, for messages."""
        value = self.values[int(self.codes[row])]
        return "" if value is None else json_text(value)


def json_column(cells: Sequence[str] | Column, name: str, refuse: Refuse) -> TypedColumn:
    """The values of cells in JSON, each different cell read once; an empty cell is no value.

    Raises what `refuse` makes, for the first line whose cell is no JSON.
    """
    codes, texts = encode(text_column(cells))
    values: list[Any] = []
    known: dict[str, int] = {}
    merged = np.empty(len(texts), np.int64)
    for number, text in enumerate(texts):
        value = None
        if text.strip():
            try:
                value = read_json_value(text)
            except ValueError as error:
                row = int(np.flatnonzero(codes == number)[0])
                raise refuse(row, no_json(name, text, error)) from error
        # Numbers and lists may be written in several ways, and are one value.
        key = json.dumps(value, sort_keys=True)
        merged[number] = known.setdefault(key, len(values))
        if merged[number] == len(values):
            values.append(value)
    return TypedColumn(merged[codes], values)


def table_column(name: str, values: Sequence[Any]) -> tuple[str, list[str]]:
    """How a table holds a parameter: the column's name, and its cells; None is an empty one.

    Texts stand as they are, unless the column would have another role.

    >>> table_column("vector", [[0.5, 1], None])
    ('vector:json', ['[0.5,1]', ''])
    """
    if all(value is None or isinstance(value, str) for value in values) and not _is_weight(name):
        return name, [value or "" for value in values]
    return f"{name}{JSON}", ["" if value is None else json_text(value) for value in values]


def _is_weight(name: str) -> bool:
    return name.lower() in {"weight", "query_weight"}


def whole_numbers(values: Sequence[Any]) -> list[Any]:
    """Floats that are whole as integers: tables with blanks have no other way to hold these.

    >>> whole_numbers([2010.0, 0.5, None, 1e300])
    [2010, 0.5, None, 1e+300]
    """
    return [
        int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15
        else value
        for value in values
    ]  # fmt: skip


def declared(name: str) -> str | None:
    """The parameter that a column's name declares to be JSON, if it does so.

    >>> declared("vector:json"), declared("vector")
    ('vector', None)
    """
    return name[: -len(JSON)].strip() if name.lower().endswith(JSON) else None


def no_json(name: str, text: str, error: ValueError) -> str:
    """What is wrong with a cell that is declared to be JSON."""
    return (
        f"the cell {shown(text)} of the column {shown(name)} is not JSON ({error}): write 0.5, "
        'true, [0.1, 0.2], {"a": 1} or "text", or leave it empty'
    )
