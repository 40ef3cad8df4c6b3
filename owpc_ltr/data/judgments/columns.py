"""One value a judgment as an Arrow column, whether it was a list or is Arrow's already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
