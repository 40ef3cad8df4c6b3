"""A feature's query in the form that scores the same in every search."""

from __future__ import annotations

from typing import Any


def scoring(query: dict[str, Any]) -> dict[str, Any]:
    """The same query, where need be in the form that matches whatever the search counts.

    A bare `range` whose search may stop counting hits misses matches in 3.8.0; around it,
    `constant_score` gives the same score and does not.
    """
    if query.keys() != {"range"}:
        return query
    boosts = [float(part.get("boost", 1.0)) for part in query["range"].values()]
    return {"constant_score": {"filter": query, "boost": boosts[0]}}
