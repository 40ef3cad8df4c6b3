"""User Behavior Insights, read from a cluster.

- `snapshot`: both indices at one point in time, in slices; look-ups of documents
- `query_join`: events with the queries that they belong to
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from owpc_ltr.engine.ubi import EVENTS_INDEX, QUERIES_INDEX, EventsIndex, QueriesIndex
from owpc_ltr.signatures import Help

MAX_SLICES = 8
"""The most slices that are read at once by default: one per shard."""


@dataclass(frozen=True, kw_only=True)
class UbiOptions:
    """The two indices, and how many slices of them are read at once."""

    ubi_queries: QueriesIndex = QUERIES_INDEX
    ubi_events: EventsIndex = EVENTS_INDEX
    slices: Annotated[
        int | None,
        Help(
            f"Slices read at once; default: one per shard, {MAX_SLICES} at most.",
            min=1,
            max=64,
            panel="Engine",
        ),
    ] = None
