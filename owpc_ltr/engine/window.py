"""Windows that are safe: no document beyond a rescored window can pass one inside it.

An engine leaves a document beyond the window with its score times `query_weight`: 0 where the
model replaces the score, which is above every rescored document with a negative one. Pages then
repeat documents, or lose some. Worse, the engine sorts anew after each of several rescorers, so
that the next one meets another window. Here what is left of a score beyond the window is far below
every rescored one, and still in the order of the search itself; and rescored documents are lifted
above it by the first rescorer, before any weight can pull them down.
"""

from __future__ import annotations

import math
from typing import Any

from owpc_ltr.intervals import ScoreInterval

KEEP = 2.0**-100
"""What a score is multiplied by beyond the window; within it, lost in the model's own score."""
FLOOR = 2.0**-20
"""The lowest score within the window: above what is left of any score below 2⁸⁰."""


def window_safe(clauses: list[dict[str, Any]], interval: ScoreInterval) -> list[dict[str, Any]]:
    """Rescore clauses with which a rescored document stays above all others.

    That holds as far as its score, and that of each step towards it, stays in the interval. Orders
    within the window stay, but for scores that float32 no longer tells apart beside the constant.
    Where the interval has no lower end, no constant would do, and nothing is changed.
    """
    if not math.isfinite(interval.low):
        return clauses
    first = clauses[0]
    offset = lift(interval.low)
    if not offset:
        return [{**first, "query": {**first["query"], "query_weight": KEEP}}, *clauses[1:]]
    lifted = {
        "rescore_query": {"match_all": {}},
        "query_weight": KEEP,
        "rescore_query_weight": offset,
        "score_mode": "total",
    }
    return [
        {"window_size": first["window_size"], "query": lifted},
        {**first, "query": {**first["query"], "query_weight": 1.0}},
        *clauses[1:],
    ]


def lift(low: float) -> float:
    """The constant that brings `low` to the floor: 0, or the smallest power of two that does."""
    if low >= FLOOR:
        return 0.0
    # A power of two costs the scores the fewest digits.
    return float(2.0 ** math.ceil(math.log2(FLOOR - low)))
