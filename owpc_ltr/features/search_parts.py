"""What stands beside or around the queries of a search, and is no feature: each query is one."""

from __future__ import annotations

from typing import Any

from owpc_ltr.errors import BadInput


def refuse_search_parts(query: Any, where: str) -> None:
    """Raise BadInput for a template that is a search or holds what stands at its top only."""
    if not isinstance(query, dict):
        return
    if _has_hybrid(query):
        raise BadInput(
            f"{where}: a hybrid query stands at the top of a search only, and is no feature: make "
            "each of its queries a feature of its own"
        )
    for name in ("retriever", "query"):
        if name in query:
            raise BadInput(
                f"{where}: it is a search with a '{name}', and a feature is one query: make each "
                "query in it a feature of its own"
            )
    if "knn" in query and (len(query) > 1 or not isinstance(query["knn"], dict)):
        raise BadInput(
            f"{where}: it has a knn section, which ranks beside a search's query, and a feature is "
            'one query: make each a feature of its own, as {"knn": {…}}'
        )


def _has_hybrid(tree: Any) -> bool:
    """Whether there is a hybrid query: an object so called with queries in it."""
    if isinstance(tree, list):
        return any(map(_has_hybrid, tree))
    if not isinstance(tree, dict):
        return False
    hybrid = tree.get("hybrid")
    return (isinstance(hybrid, dict) and "queries" in hybrid) or any(
        map(_has_hybrid, tree.values())
    )
