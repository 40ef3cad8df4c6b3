"""Queries sorted one after another, compiled: the best document first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.kernels.sorting import sort_ascending


def ordered_down(scores: Vector, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of the documents, each query's by decreasing score, equal ones as they stand."""
    order = np.arange(len(scores))
    _order_down(-scores, offsets, order)
    return order


@compiled
def _order_down(negated: Any, offsets: Any, order: Any) -> None:
    for query in range(len(offsets) - 1):
        start, end = offsets[query], offsets[query + 1]
        order[start:end] -= start
        sort_ascending(negated[start:end], order[start:end])
        order[start:end] += start
