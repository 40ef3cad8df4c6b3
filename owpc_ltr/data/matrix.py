"""Arrays as they are given (lists, any kind of number, any layout) as matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown


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
    import pyarrow as pa

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
