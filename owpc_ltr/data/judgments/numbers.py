"""Columns of numbers as judgment lists have them: Arrow's own, or decimal text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.arrays import Vector
from owpc_ltr.data.judgments.columns import Column, is_text

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
