"""Rows by their query: where each query begins, and how rows that lie apart come together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


@dataclass(frozen=True)
class RowGroups:
    """The queries in the order of their first rows; `order` are their rows, None as they stand.

    `scattered` is the number of queries whose rows did not stand together.
    """

    query_ids: pa.StringArray
    offsets: NDArray[np.int64]
    order: NDArray[np.int64] | None = None
    scattered: int = 0

    def arranged(self, part: Any) -> Any:
        """One entry a row, in the order of the groups."""
        if self.order is None or part is None:
            return part
        return part[self.order] if isinstance(part, np.ndarray) else part.take(pa.array(self.order))


def group_rows(ids: pa.StringArray) -> RowGroups:
    """The rows of each query id; the rows of a query keep their order."""
    runs = pc.run_end_encode(ids, run_end_type=pa.int64())
    pieces = runs.values.dictionary_encode()
    if len(pieces.dictionary) == len(pieces):
        ends = runs.run_ends.to_numpy()
        return RowGroups(runs.values, np.concatenate(([0], ends)).astype(np.int64))
    rows = ids.dictionary_encode()
    codes = rows.indices.to_numpy()
    sizes = np.bincount(codes)
    scattered = int((np.bincount(pieces.indices.to_numpy()) > 1).sum())
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return RowGroups(rows.dictionary, offsets, np.argsort(codes, kind="stable"), scattered)
