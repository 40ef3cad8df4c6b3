"""Ranks: where a document would be with other scores, all others as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector


def ranks_with(scores: Vector, changed: Vector) -> NDArray[np.int64]:
    """The rank (1 is best) that each document has with each of its `changed` scores.

    `scores` (n_documents) are in the order of the ranks, so that they do not ascend; `changed` is
    (n_documents, n_changes). Of equal scores the one keeps its place before the other.

    >>> ranks_with(np.array([3.0, 2.0, 1.0]), np.array([[1.5], [2.0], [9.0]])).ravel().tolist()
    [2, 2, 1]
    """
    places = np.arange(len(scores))[:, None]
    above = np.searchsorted(-scores, -changed, side="left")
    not_below = np.searchsorted(-scores, -changed, side="right")
    # One that falls counts itself among those above its new score.
    found = np.where(places < above, above - 1, np.minimum(places, not_below))
    return np.asarray(found + 1, dtype=np.int64)
