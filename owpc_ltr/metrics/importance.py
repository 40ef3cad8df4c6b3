"""The importance of queries as weights of means, where it differs at all."""

from __future__ import annotations

from owpc_ltr.arrays import Vector


def uneven(weights: Vector | None) -> Vector | None:
    """The weights; None where they are all alike, so that none weighs more."""
    return None if weights is None or (weights == weights[:1]).all() else weights
