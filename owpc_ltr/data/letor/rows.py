"""Rows that are being read: arrays that grow in place, so that memory holds one matrix only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Matrix
from owpc_ltr.data.letor.codes import LARGEST_INDEX
from owpc_ltr.errors import BadInput

_FIRST_ROWS = 1024
_SMALL = 1 << 24
"""Cells of a matrix that is never too large."""
_INDEX = re.compile(rb"[ \t](\d{1,7}):")


class Rows:
    """One row a document: features, label, and where its strings end.

    `features` is (capacity, width); rows beyond those that were read hold nothing.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self.width = width
        self.capacity = 0
        self._cells: Labels = np.empty(0, np.float32)
        self.labels: Labels = np.empty(0, np.float32)
        self.id_ends: NDArray[np.int64] = np.empty(0, np.int64)
        self.comment_ends: NDArray[np.int64] = np.empty(0, np.int64)
        self._hold(_FIRST_ROWS if width * _FIRST_ROWS <= _SMALL else 16)

    @property
    def features(self) -> Matrix:
        """A view that lasts until the rows grow."""
        return self._cells[: self.capacity * self.width].reshape(self.capacity, self.width)

    def lengthen(self, rows: int, share: float) -> None:
        """Make room for more rows, where `rows` of them took this share of the file."""
        least = rows + max(rows // 8, 16)
        expected = max(least, int(rows / share * 1.02) + 16)
        self._hold(expected if self._fits(expected, self.width) else least)

    def widen(self, rows: int, line: bytes) -> None:
        """Make room for the features of this line; `rows` have been read before."""
        indices = [int(index) for index in _INDEX.findall(line.partition(b"#")[0])]
        needed = max(index for index in indices if index <= LARGEST_INDEX)
        # Later lines of a sparse file go a little further each: not one widening for each of them.
        width = needed if rows == 0 else min(max(needed, self.width * 5 // 4), LARGEST_INDEX)
        if self.capacity * width > _SMALL:
            # What was expected of narrower rows would be too much: it is asked for again.
            self.capacity = rows + max(rows // 8, 16)
        old, self.width = self.width, width
        self._hold(self.capacity)
        _lay_out(self._cells, rows, old, width)

    def finish(self, rows: int, width: int) -> None:
        """Cut everything to what was read."""
        _lay_out(self._cells, rows, self.width, width)
        self.width = width
        self._hold(rows)

    def _fits(self, capacity: int, width: int) -> bool:
        free: int = psutil.virtual_memory().available
        return (capacity * width - self._cells.size) * 4 < free

    def _hold(self, capacity: int) -> None:
        if capacity * self.width > _SMALL and not self._fits(capacity, self.width):
            raise BadInput(
                f"cannot read {self.path}: {capacity:,} rows of {self.width:,} features take "
                f"{capacity * self.width * 4 / 1e9:.1f} GB, which is more than the memory that is "
                "free: are the feature numbers ids? number the features from 1 on, or cut the file"
            )
        self.capacity = capacity
        self._cells.resize(capacity * self.width, refcheck=False)
        for array in (self.labels, self.id_ends, self.comment_ends):
            array.resize(capacity, refcheck=False)


class Strings:
    """The bytes of strings, one after the other, with where each ends."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.content = bytearray()

    def array(self, path: Path, ends: NDArray[np.int64]) -> pa.StringArray:
        """The strings, nothing copied but the ends."""
        if len(self.content) >= 2**31:
            raise BadInput(
                f"cannot read {path}: its {self.what} take {len(self.content) / 1e9:.1f} GB, of "
                "2.1 GB that fit: cut the file in two"
            )
        offsets = np.zeros(len(ends) + 1, np.int32)
        offsets[1:] = ends
        buffers = pa.py_buffer(offsets), pa.py_buffer(self.content)
        return pa.StringArray.from_buffers(len(ends), *buffers)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _lay_out(cells: Any, rows: int, old: int, new: int) -> None:
    """Change, in place, the width of the rows of a row-major matrix from `old` to `new`.

    New columns are 0; columns beyond `new` are lost.
    """
    if new < old:
        for row in range(rows):
            for column in range(new):
                cells[row * new + column] = cells[row * old + column]
        return
    for row in range(rows - 1, -1, -1):
        for column in range(new - 1, old - 1, -1):
            cells[row * new + column] = 0
        for column in range(old - 1, -1, -1):
            cells[row * new + column] = cells[row * old + column]
