"""The history of a fit, as much as a model's record keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOST = 100
"""Rows that are kept of a history: enough for a curve, and some kilobytes in a model's file."""


def kept_history(history: Sequence[Mapping[str, Any]], most: int = MOST) -> list[dict[str, Any]]:
    """All rows of a short history; of a long one the first, the last, and others evenly between.

    >>> [row["pass"] for row in kept_history([{"pass": n} for n in range(1, 10)], most=4)]
    [1, 4, 6, 9]
    """
    if len(history) <= most:
        return [dict(row) for row in history]
    places = np.unique(np.linspace(0, len(history) - 1, most).round().astype(int))
    return [dict(history[place]) for place in places.tolist()]
