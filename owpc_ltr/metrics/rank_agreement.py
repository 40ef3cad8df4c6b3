"""Rank agreement: how two scorings of the same documents order their pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled


class PairAgreement(NamedTuple):
    """Pairs ordered the other way, pairs tied in one only, and tau-b; None where all is tied."""

    swapped: int
    ties_broken: int
    tau: float | None


def pair_agreement(one: Vector, other: Vector) -> PairAgreement:
    """Compare the order of every two documents; a score that is no number ties with all.

    >>> pair_agreement(np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0]))
    PairAgreement(swapped=3, ties_broken=0, tau=-1.0)
    """
    same, swapped, ordered, other_ordered = map(int, _pairs(one, other))
    product = ordered * other_ordered
    return PairAgreement(
        swapped,
        ordered + other_ordered - 2 * (same + swapped),
        float((same - swapped) / np.sqrt(product)) if product else None,
    )


@compiled
def _pairs(one: Any, other: Any) -> Any:
    """How many pairs both order alike, both otherwise, the one at all, and the other at all."""
    same, swapped, ordered, other_ordered = 0, 0, 0, 0
    for i in range(len(one)):
        for j in range(i):
            a = int(one[i] > one[j]) - int(one[i] < one[j])
            b = int(other[i] > other[j]) - int(other[i] < other[j])
            same += a * b == 1
            swapped += a * b == -1
            ordered += a * a
            other_ordered += b * b
    return same, swapped, ordered, other_ordered
