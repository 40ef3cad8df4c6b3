"""Texts: a column of keys in pieces, as a file brings them, from which few rows are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Texts:
    """Arrow strings, one piece after the other; they are never put together."""

    pieces: Sequence[pa.StringArray]

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(len(piece) for piece in self.pieces)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def at(self, rows: NDArray[np.int64]) -> pa.StringArray:
        """The texts of these rows, in their order."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        cuts = np.searchsorted(ascending, self._starts)
        found = [
            piece.take(pa.array(ascending[first:last] - start))
            for piece, start, first, last in zip(
                self.pieces, self._starts, cuts, cuts[1:], strict=False
            )
            if last > first
        ]
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        together = pa.concat_arrays(found) if found else pa.array([], pa.string())
        return together.take(pa.array(back))
