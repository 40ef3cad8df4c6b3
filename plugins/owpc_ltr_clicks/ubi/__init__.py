"""User Behavior Insights, read from a cluster.

- `snapshot`: both indices at one point in time, in slices; look-ups of documents
- `query_join`: events with the queries that they belong to
"""

from __future__ import annotations

from dataclasses import dataclass

from owpc_ltr.engine.ubi import EVENTS_INDEX, QUERIES_INDEX

MAX_SLICES = 8
"""The most slices that are read at once by default: one per shard."""


@dataclass(frozen=True, kw_only=True)
class UbiOptions:
    """The two indices, and how many slices of them are read at once."""

    ubi_queries: str = QUERIES_INDEX
    ubi_events: str = EVENTS_INDEX
    slices: int | None = None
