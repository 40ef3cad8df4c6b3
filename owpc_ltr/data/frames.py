"""Data frames of any library, by the Arrow C stream: their columns as ids and as numbers.

pandas, polars, Arrow and DuckDB all speak it, so that none of them is needed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import is_pandas
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown

_ROWS = 1 << 16
"""Rows converted at a time, so that a column's copy stays small."""


def table_of(frame: Any) -> pa.Table:
    """A data frame as an Arrow table, copied only where its library must."""
    try:
        if is_pandas(frame):
            # By the stream an index would become a column, and then a feature.
            return pa.Table.from_pandas(frame, preserve_index=False)
        if isinstance(frame, pa.Table | pa.RecordBatch) or hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(
            f"the data frame cannot be read: {why}: make each column one type"
        ) from error
    raise BadInput(
        f"a {type(frame).__name__} is no data frame: give one of pandas, polars, Arrow or DuckDB, "
        "or arrays to make_dataset"
    )


def column_of(table: pa.Table, name: str, what: str) -> pa.ChunkedArray:
    """A column by its name. Raises BadInput, naming those that there are."""
    places = [place for place, own in enumerate(table.column_names) if own == name]
    if len(places) == 1:
        return table.column(places[0])
    if places:
        raise BadInput(f"the data frame has {len(places)} columns {shown(name)}: rename them")
    known = ", ".join(table.column_names[:8]) + ", …" * (table.num_columns > 8)
    raise BadInput(
        f"the data frame has no column {shown(name)} for {what}; it has {known or 'none'}"
    )


def numbers_of(
    table: pa.Table, names: Sequence[str], kind: type[np.floating[Any]], instead: str
) -> NDArray[Any]:
    """The named columns as a C-contiguous matrix, NaN for what is missing.

    `instead` says what to do with a column that holds no numbers.
    """
    columns = [_numeric(column_of(table, name, "a feature"), name, instead) for name in names]
    matrix = np.empty((table.num_rows, len(names)), kind)
    for first in range(0, table.num_rows, _ROWS):
        rows = matrix[first : first + _ROWS]
        for place, column in enumerate(columns):
            values = column.slice(first, len(rows)).to_numpy()
            with np.errstate(over="ignore"):
                rows[:, place] = values
            refuse_overflow(rows[:, place], values, f"feature {shown(names[place])}, row", first)
    return matrix


def numeric_column(column: pa.ChunkedArray, name: str, instead: str) -> NDArray[Any]:
    """One column as numbers, NaN for what is missing."""
    return np.asarray(_numeric(column, name, instead).to_numpy())


def refuse_overflow(rounded: NDArray[Any], values: NDArray[Any], where: str, first: int) -> None:
    """Refuse a finite number that is beyond float32; `first` is the number of the first row."""
    if not np.isinf(rounded).any():
        return
    beyond = np.flatnonzero(np.isinf(rounded) & np.isfinite(values))
    if len(beyond):
        row = int(beyond[0])
        raise BadInput(
            f"{where} {first + row + 1}: {values[row]} is beyond float32: scale it down, or leave "
            "it out"
        )


def _numeric(column: pa.ChunkedArray, name: str, instead: str) -> pa.ChunkedArray:
    """The column in a type that NumPy has; nulls stay."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = _decoded(column)
        kind = column.type
    if pa.types.is_null(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_boolean(kind):
        return column.cast(pa.uint8())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column
    example = next((str(one) for one in column.drop_null().slice(0, 1).to_pylist()), "")
    raise BadInput(
        f"the column {shown(name)} is {kind} ({shown(example)}, for instance), and numbers are "
        f"needed: {instead}"
    )


def text_ids(values: Any, what: str) -> pa.StringArray:
    """Ids as text. Raises BadInput for what has no one way to be written as an id."""
    ids = _arrow(values, what)
    if len(ids) == 0:
        return pa.array([], pa.string())
    known = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_integer,
    )
    missing = ids.null_count
    if not any(is_known(ids.type) for is_known in known) or missing:
        row = pc.index(pc.is_null(ids), True).as_py() + 1 if missing else 0
        raise BadInput(
            f"{what} must be text or whole numbers, each of them: these are {ids.type}"
            f"{f', and some are missing: the first in row {row}' * bool(missing)}"
        )
    return ids.cast(pa.string())


def _arrow(values: Any, what: str) -> Any:
    try:
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            streamed = hasattr(values, "__arrow_c_stream__")
            values = pa.chunked_array(values) if streamed else pa.array(values)
        if pa.types.is_dictionary(values.type):
            values = _decoded(values)
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise BadInput(
            f"{what} are of several kinds: make them all text, or all numbers"
        ) from error


def _decoded(column: Any) -> pa.ChunkedArray:
    """A column of categories as their values; texts as plain strings, which all can be cast to."""
    kind = column.type.value_type
    plain = pa.string() if pa.types.is_string_view(kind) else kind
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    decoded = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(plain))
        for chunk in chunks
    ]
    return pa.chunked_array([chunk.dictionary_decode() for chunk in decoded], plain)


def numbers_in(array: pa.Array) -> NDArray[Any]:
    """The values of an array of numbers without nulls, to be read only."""
    kind = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, kind)
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize)


def arrow_of(numbers: NDArray[Any]) -> pa.Array:
    """One-dimensional numbers as an array of the same type."""
    values = np.ascontiguousarray(numbers)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
