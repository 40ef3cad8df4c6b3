"""Held-out queries: those that a model neither learned from nor was chosen on, by its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.splits import HashSplit
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.evaluate import SIDES


def queries_of_side(
    record: Mapping[str, Any], query_ids: Sequence[str], side: str = "auto"
) -> tuple[NDArray[np.int64], str]:
    """Which of the queries are on a side of the split that a model was trained with, and the side.

    `auto`: the test side; all of them where the record has no split. A query is told by its id
    alone, so that it does not matter which documents of it are judged by now. Raises Refused for a
    side without a query, or that the record does not know.
    """
    if side not in SIDES:
        raise UsageError(f"no side is called '{side}': choose among {', '.join(SIDES)}")
    split = (record.get("source") or {}).get("split")
    if side == "all" or (side == "auto" and split is None):
        return np.arange(len(query_ids)), "all"
    if split is None:
        raise Refused(
            f"the model does not know the {side} queries: it was trained without a split; use "
            "--queries all"
        )
    side = "test" if side == "auto" else side
    chosen = np.flatnonzero(HashSplit(**split).sides_of(query_ids) == side)
    if not len(chosen):
        raise Refused(
            f"none of the {len(query_ids)} queries is on the {side} side of the model's training: "
            "give other judgments, or use --queries all"
        )
    return chosen, side


def held_out_caution(record: Mapping[str, Any], side: str, whose: str) -> list[str]:
    """What is not known of the queries that were chosen, if something is."""
    split = (record.get("source") or {}).get("split")
    if side == "all" and split is None:
        return [
            f"nothing tells which queries {whose} was trained on: if it was on these, the figures "
            "flatter it"
        ]
    return []
