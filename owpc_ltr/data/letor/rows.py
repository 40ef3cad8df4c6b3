"""Rows that are being read: arrays that grow in place, so that memory holds one matrix only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Matrix
from owpc_ltr.compiling import compiled
from owpc_ltr.data.letor.kernel import LARGEST_INDEX
from owpc_ltr.errors import BadInput

_FIRST_ROWS = 1024
_SMALL = 1 << 24
"""Cells of a matrix that is never too large."""
_INDEX = re.compile(rb"[ \t](\d{1,7}):")
MOST_FEATURES = 10_000
"""The most features that are read unless more are asked for."""
_LARGEST_RATIO = 400
"""Bytes of a matrix for each byte of its text, unless more are asked for."""


class Rows:
    """One row a document: features, label, and where its strings end.

    `features` is (capacity, width); rows beyond those that were read hold nothing. Unless the
    number of features is `asked` for, a matrix far larger than its text is refused.
    """

    def __init__(self, path: Path, width: int, most: int = LARGEST_INDEX, asked: int = 0) -> None:
        self.path = path
        self.width = width
        self.most = most
        self.text = 0
        """Bytes of text that the rows so far were read from."""
        self._asked = bool(width or asked)
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

    def lengthen(self, rows: int, share: float, text: int) -> None:
        """Make room for more rows, where `rows` of them took this share and text of the file."""
        self.text = text
        least = rows + max(rows // 8, 16)
        expected = max(least, int(rows / share * 1.02) + 16)
        fits = self._fits(expected, self.width) and self._is_modest(expected, text / share)
        self._hold(expected if fits else least, rows)

    def widen(self, rows: int, needed: int, text: int) -> None:
        """Make room for so many features, which a line after `rows` and their text has."""
        self.text = text
        # Later lines of a sparse file go a little further each: not one widening for each of them.
        width = needed if rows == 0 else min(max(needed, self.width * 5 // 4), self.most)
        if self.capacity * width > _SMALL:
            # What was expected of narrower rows would be too much: it is asked for again.
            self.capacity = rows + max(rows // 8, 16)
        old, self.width = self.width, width
        self._hold(self.capacity, rows)
        if rows:
            _lay_out(self._cells, rows, old, width)

    def finish(self, rows: int, width: int) -> None:
        """Cut everything to what was read."""
        if width != self.width:
            _lay_out(self._cells, rows, self.width, width)
        self.width = width
        self._hold(rows)

    def _fits(self, capacity: int, width: int) -> bool:
        import psutil

        free: int = psutil.virtual_memory().available
        return (capacity * width - self._cells.size) * 4 < free

    def _is_modest(self, rows: int, text: float) -> bool:
        """Whether the matrix of rows is not far larger than their text, or was asked for."""
        most = max(_SMALL, _LARGEST_RATIO * text / 4)
        return self._asked or rows * self.width <= most

    def _hold(self, capacity: int, rows: int = 0) -> None:
        if not self._is_modest(rows, self.text):
            raise BadInput(
                f"cannot read {self.path}: {rows:,} rows of {self.width:,} features take "
                f"{rows * self.width * 4 / 1e9:.1f} GB, more than {_LARGEST_RATIO} times their "
                f"text of {self.text:,} bytes: are the feature numbers ids? number the features "
                f"from 1 on, or give --max-features {self.width} (max_features=…) to read it all "
                "the same"
            )
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


def widest(line: bytes) -> int:
    """The largest feature number of a line, among those that can be one."""
    numbers = (int(found.group(1)) for found in _INDEX.finditer(line.partition(b"#")[0]))
    return max(number for number in numbers if number <= LARGEST_INDEX)


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


@compiled
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
