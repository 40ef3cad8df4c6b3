"""How full the search queues of a cluster's nodes are, as they say themselves."""

from __future__ import annotations

from typing import Any

from owpc_ltr.engine.feature_log.transport import Transport
from owpc_ltr.errors import OwpcLtrError

SOON = 2.0
"""Seconds for an answer that is of use only now."""


class SearchQueues:
    """The search queues of all nodes, looked at from time to time; not where that is not allowed.

    Ours are not the only searches: those of others that are rejected, and queues that are more than
    half full, tell a cluster that has enough to do before it rejects one of ours.
    """

    def __init__(self, engine: Transport) -> None:
        self._engine = engine
        self._places: dict[str, int] | None = None
        self._rejected: dict[str, int] = {}
        self._told = True

    def are_strained(self) -> bool:
        """Whether searches were rejected since the last look, or a queue is more than half full."""
        if not self._told:
            return False
        try:
            if self._places is None:
                info = self._ask("/_nodes/thread_pool")
                self._places = {node: pool["queue_size"] for node, pool in info.items()}
            pools = self._ask("/_nodes/stats/thread_pool")
            queued = any(
                pool["queue"] > self._places.get(node, 1000) / 2 >= 0.5
                for node, pool in pools.items()
            )
            rejected = {node: pool["rejected"] for node, pool in pools.items()}
        except (OwpcLtrError, LookupError, TypeError, AttributeError):
            # A right of its own, which logging does without; so it does with half an answer.
            self._told = False
            return False
        more = any(count > self._rejected.get(node, count) for node, count in rejected.items())
        self._rejected = rejected
        return more or queued

    def _ask(self, path: str) -> dict[str, dict[str, Any]]:
        """The search pool of each node."""
        answer = self._engine.request(
            "GET", path, params={"filter_path": "nodes.*.thread_pool.search"}, deadline=SOON
        )
        return {node: each["thread_pool"]["search"] for node, each in answer["nodes"].items()}
