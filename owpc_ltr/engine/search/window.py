"""Rescore windows that are safe: no document beyond one can pass a document inside it.

An engine leaves a document beyond the window with its score times `query_weight`: 0 where the
model replaces the score, which is above every rescored document with a negative one. Pages then
repeat documents, or lose some. Worse, the engine sorts anew after each of several rescorers, so
that the next one meets another window. Here what is left of a score beyond the window is far below
every rescored one, and still in the order of the search itself; and rescored documents are lifted
above it by the first rescorer, before any weight can pull them down.

How far they must be lifted, the interval of the model's scores says. Where it is not proven for
every document, what a rescorer may take away is held at what the interval reckoned with, by a
script: documents that go further are alike then, at the lower end, and still inside.
"""

from __future__ import annotations

import math
from typing import Any

from owpc_ltr.models.score_range import LOWEST_RESCORED, ScoreInterval

KEEP = 2.0**-100
"""What a score is multiplied by beyond the window; within it, lost in the model's own score."""
FLOOR = LOWEST_RESCORED
"""The lowest score within the window: above what is left of any score below 2⁸⁰."""
_LEAST = "Math.max(_score + params.lift, params.floor)"
_MOST = "Math.min(_score, params.most)"

Clause = dict[str, Any]


def window_safe(clauses: list[Clause], interval: ScoreInterval) -> list[Clause]:
    """Rescore clauses with which a rescored document stays above all others.

    Orders within the window stay, but for scores that float32 no longer tells apart beside the
    constant, and for those below the interval where it is not proven. Where it has no lower end,
    no constant would do, and nothing is changed.
    """
    if not math.isfinite(interval.low):
        return clauses
    if interval.proven:
        return _lifted(clauses, lift(interval.low))
    if "sltr" in _query(clauses[0]):
        return [_held_above(clauses[0], interval.low), *clauses[1:]]
    # An intercept that adds is in the lower end already: terms may take that much more away.
    added = sum(_weight(each) for each in clauses if _query(each) == {"match_all": {}})
    taken = max(added, 0.0) - interval.low
    held = [_held_below(clause, taken) for clause in clauses]
    # Of each the lowest that it can add; the others add 0 or more.
    lows = [_weight(clause) * most for clause, most in held if _weight(clause) < 0]
    slack = len(held) * 2.0**-23 * -sum(lows)
    return _lifted([clause for clause, _ in held], lift(sum(lows) - slack))


def lift(low: float) -> float:
    """The constant that brings `low` to the floor: 0, or the smallest power of two that does."""
    if low >= FLOOR:
        return 0.0
    # A power of two costs the scores the fewest digits.
    return float(2.0 ** math.ceil(math.log2(FLOOR - low)))


def _lifted(clauses: list[Clause], offset: float) -> list[Clause]:
    first = clauses[0]
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


def _held_above(clause: Clause, low: float) -> Clause:
    """A whole model's score, lifted, and at the floor where it would be lower."""
    params = {"lift": lift(low), "floor": FLOOR}
    query = _scripted(_query(clause), _LEAST, params)
    return _with_query(clause, query, query_weight=KEEP, score_mode="total")


def _held_below(clause: Clause, taken: float) -> tuple[Clause, float]:
    """A sum up to the most that the interval reckons to be `taken` away; and that.

    Only what takes something away is held. What was never seen may still be 1, as the score of
    many a query is.
    """
    query, weight = _query(clause), _weight(clause)
    if weight >= 0 or query == {"match_all": {}}:
        return clause, 1.0
    most = max(taken / -weight, _of_ones(query))
    return _with_query(clause, _scripted(query, _MOST, {"most": most})), most


def _of_ones(query: dict[str, Any]) -> float:
    """What a sum of weighted queries is where each of them scores 1; any other query itself."""
    parts = query.get("bool", {}).get("should", ())
    return sum(float(part["function_score"]["weight"]) for part in parts) or 1.0


def _scripted(query: dict[str, Any], source: str, params: dict[str, float]) -> dict[str, Any]:
    return {"script_score": {"query": query, "script": {"source": source, "params": params}}}


def _with_query(clause: Clause, query: dict[str, Any], **more: Any) -> Clause:
    return {**clause, "query": {**clause["query"], "rescore_query": query, **more}}


def _query(clause: Clause) -> dict[str, Any]:
    query: dict[str, Any] = clause["query"]["rescore_query"]
    return query


def _weight(clause: Clause) -> float:
    return float(clause["query"]["rescore_query_weight"])
