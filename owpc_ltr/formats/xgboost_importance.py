"""What an XGBoost file tells of its splits: how much each feature gained and covered, in sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_COLUMNS = {"gain": "loss_changes", "cover": "sum_hessian"}


def told_importances(
    trees: Sequence[dict[str, Any]], names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """`total_gain` and `total_cover` of each feature that is split on, as XGBoost counts them.

    Nothing where the file does not tell it, or tells no gain at all: it is not needed to score.
    """
    totals = {fact: np.zeros(len(names)) for fact in _COLUMNS}
    splits = np.zeros(len(names), dtype=np.int64)
    try:
        for tree in trees:
            inner = np.asarray(tree["left_children"]) != -1
            columns = np.asarray(tree["split_indices"])[inner]
            splits += np.bincount(columns, minlength=len(names))
            for fact, key in _COLUMNS.items():
                values = np.asarray(tree[key], dtype=np.float64)[inner]
                totals[fact] += np.bincount(columns, values, minlength=len(names))
    except (LookupError, TypeError, ValueError, OverflowError):
        return {}
    if not all(np.isfinite(total).all() for total in totals.values()) or totals["gain"].sum() <= 0:
        return {}
    return {
        fact: {names[column]: float(total[column]) for column in np.flatnonzero(splits).tolist()}
        for fact, total in totals.items()
    }
