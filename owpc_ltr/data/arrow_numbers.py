"""Numbers between Arrow and NumPy, nothing copied.

pyarrow's own ways (`pa.array`, `to_numpy`) import pandas wherever it is installed, to look whether
a value is one of its own; that takes as long as a whole evaluation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


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
