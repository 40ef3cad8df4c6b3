"""User Behavior Insights, read from a cluster.

- `snapshot`: an index at one point in time; `download`: both indices, in slices
- `query_join`: events with the queries that they belong to
"""

from __future__ import annotations

from dataclasses import dataclass

QUERIES_INDEX = "ubi_queries"
EVENTS_INDEX = "ubi_events"
MAX_SLICES = 8
"""The most slices that are read at once by default: one per shard."""


@dataclass(frozen=True)
class UbiOptions:
    """The two indices, the time, and how many slices are read at once.

    Without `until` the time ends when the run began; without `slices`, one per shard is read.
    """

    queries: str = QUERIES_INDEX
    events: str = EVENTS_INDEX
    since: str | None = None
    until: str | None = None
    slices: int | None = None
