"""Buckets: each query's is decided by the number that decides its side of a split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.splits import HashSplit
from owpc_ltr.errors import UsageError

BUCKETS = 20
"""Shares that are multiples of 1/20 are decided by whole buckets."""
MOST_BUCKETS = 1000
SALT = HashSplit.salt


def check_buckets(buckets: int) -> None:
    """Refuse a number of buckets that cannot be."""
    if not 1 <= buckets <= MOST_BUCKETS:
        raise UsageError(f"a dataset has 1 to {MOST_BUCKETS} buckets, not {buckets}")


def bucket_of(positions: NDArray[np.float64], buckets: int) -> NDArray[np.int64]:
    """The bucket of each query, from its number in [0, 1): equal shares of that, in order.

    >>> bucket_of(np.array([0.0, 0.19, 0.2, 0.999]), 20).tolist()
    [0, 3, 4, 19]
    """
    # A number next to 1 is rounded to it.
    return np.minimum((positions * buckets).astype(np.int64), buckets - 1)


def whole_side(split: HashSplit, positions: tuple[float, float]) -> str | None:
    """The side that all numbers between two are on; None where a border lies between them.

    Sides are intervals of those numbers, so that the two ends tell.
    """
    if split.salt != SALT:
        return None
    first, last = split.sides_at(np.array(positions)).tolist()
    return str(first) if first == last else None
