"""What callers give, arrays, lists or data frames of any library, as matrices, vectors and ids.

pandas, polars, Arrow and DuckDB all speak the Arrow C stream, so that none of them is needed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, is_pandas
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown
from owpc_ltr.signatures import row_number

_ROWS = 1 << 16
"""Rows converted at a time, so that a column's copy stays small."""


def float_array(values: Any, what: str) -> NDArray[Any]:
    """The values as a float array; float32 and float64 stay as they are, None is NaN.

    Raises BadInput where one of them is no number, naming it and its place.
    """
    array = values if isinstance(values, np.ndarray) else _array(values, what)
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(np.float64), np.nan)
    if array.dtype.kind == "f":
        return array if array.dtype.itemsize in {4, 8} else array.astype(np.float64)
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.kind == "O":
        return _numbers(array, what)
    raise BadInput(
        f"{what} must be numbers, and these are {array.dtype}"
        f"{_first(array)}: turn them into numbers, or leave them out"
    )


def to_float32(array: NDArray[Any], what: str) -> NDArray[np.float32]:
    """The array in float32, C-contiguous; not copied where it is. Raises BadInput beyond it."""
    with np.errstate(over="ignore"):
        rounded = np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype != np.float32 and np.isinf(rounded).any():
        beyond = np.argwhere(np.isinf(rounded) & np.isfinite(array))
        if len(beyond):
            place = tuple(beyond[0].tolist())
            raise BadInput(
                f"{_entry(what, place)} is {array[place]}, which is beyond float32: scale it down, "
                "or leave it out"
            )
    return rounded


def feature_matrix(values: Any, what: str = "features") -> Matrix:
    """A float32 matrix, C-contiguous. Raises BadInput where the values are none."""
    array = float_array(values, what)
    if array.ndim != 2:
        hint = "" if array.ndim != 1 else ": give one row a document, [[…], …]"
        raise BadInput(f"{what} have {array.ndim} dimensions, and must be rows × columns{hint}")
    return to_float32(array, what)


def vector(values: Any, what: str, kind: type[np.floating[Any]]) -> NDArray[Any]:
    """A one-dimensional array of numbers of this kind."""
    array = float_array(values, what)
    if array.ndim != 1:
        raise BadInput(
            f"{what} have {array.ndim} dimensions, and must be one number a row: give "
            "them as a flat list"
        )
    return to_float32(array, what) if kind is np.float32 else array.astype(kind)


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
            f"{where} {row_number(first + row)}: {values[row]} is beyond float32: scale it down, "
            "or leave it out"
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
    lacking = pc.is_null(ids, nan_is_null=True)
    missing = bool(pc.any(lacking).as_py())
    if pa.types.is_floating(ids.type) and not missing and pc.all(pc.equal(ids, pc.floor(ids))):
        # A merge of data frames makes floats of whole numbers.
        ids = ids.cast(pa.int64(), safe=False)
    if not any(is_known(ids.type) for is_known in known) or missing:
        row = row_number(pc.index(lacking, True).as_py()) if missing else 0
        raise BadInput(
            f"{what} must be text or whole numbers, each of them: these are {ids.type}"
            f"{f', and some are missing: the first in row {row}' * missing}"
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


def _array(values: Any, what: str) -> NDArray[Any]:
    if hasattr(values, "toarray"):
        raise BadInput(f"{what} are a sparse matrix, where 0 and missing differ: give X.toarray()")
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        values = _from_arrow(values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        lengths = sorted({len(row) for row in values if hasattr(row, "__len__")})
        what_not = (
            f"have rows of different lengths ({lengths[0]} to {lengths[-1]})"
            if len(lengths) > 1
            else "hold a list where a number must stand"
        )
        raise BadInput(f"{what} {what_not}: give each row one number a column") from error
    # NumPy makes text of numbers that stand beside text: then nothing says which was which.
    return np.array(values, dtype=object) if array.dtype.kind in "US" else array


def _from_arrow(values: Any) -> Any:
    if isinstance(values, pa.Array):
        return values.to_numpy(zero_copy_only=False)
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array(values)
    return column.to_numpy()


def _numbers(array: NDArray[Any], what: str) -> NDArray[np.float64]:
    """An object array as numbers; a text is refused also where it could be read as one."""
    flat = array.ravel()
    numbers = np.empty(len(flat))
    for place, value in enumerate(flat):
        if isinstance(value, str | bytes):
            raise _no_number(array, what, place)
        try:
            numbers[place] = np.nan if _is_missing(value) else float(value)
        except (TypeError, ValueError, OverflowError):
            raise _no_number(array, what, place) from None
    return numbers.reshape(array.shape)


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType"


def _no_number(array: NDArray[Any], what: str, place: int) -> BadInput:
    at = tuple(int(one) for one in np.unravel_index(place, array.shape))
    return BadInput(
        f"{_entry(what, at)} is {shown(str(array[at]))}, a {type(array[at]).__name__}, and must be "
        "a number: turn it into one, or leave it out"
    )


def _entry(what: str, place: tuple[int, ...]) -> str:
    return f"{what}[{', '.join(map(str, place))}]"


def _first(array: NDArray[Any]) -> str:
    return f" ({shown(str(array.flat[0]))}, for instance)" if array.size else ""
