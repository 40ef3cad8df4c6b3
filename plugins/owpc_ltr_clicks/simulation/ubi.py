"""The same events as User Behavior Insights has them: documents of two indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def ubi_documents(events: pa.Table) -> tuple[Iterator[dict[str, Any]], Iterator[dict[str, Any]]]:
    """The same as documents of User Behavior Insights 1.3: those of `ubi_queries`, `ubi_events`.

    What was shown stands in the queries alone, what was clicked in the events.
    """
    return _ubi_queries(events), _ubi_events(events)


def _ubi_queries(events: pa.Table) -> Iterator[dict[str, Any]]:
    current: dict[str, Any] | None = None
    for row in _rows(events):
        if row["action"] != "impression":
            continue
        search = f"search-{row['session']}"
        if current is None or current["query_id"] != search:
            if current is not None:
                yield current
            current = {
                "application": "simulated", "query_id": search, "client_id": f"c{row['client']}",
                "user_query": row["query"], "timestamp": _iso(row["time"]),
                "query_response_id": f"response-{row['session']}", "query_response_hit_ids": [],
            }  # fmt: skip
        current["query_response_hit_ids"].append(row["document"])
    if current is not None:
        yield current


def _ubi_events(events: pa.Table) -> Iterator[dict[str, Any]]:
    for row in _rows(events):
        if row["action"] == "impression":
            continue
        yield {
            "application": "simulated", "action_name": row["action"],
            "query_id": f"search-{row['session']}", "session_id": f"s{row['session']}",
            "client_id": f"c{row['client']}", "timestamp": _iso(row["time"]),
            "event_attributes": {
                "object": {"object_id": row["document"], "object_id_field": "_id"},
                "position": {"ordinal": row["position"]},
            },
        }  # fmt: skip


def _rows(events: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in events.to_batches(max_chunksize=1 << 14):
        yield from batch.to_pylist()


def _iso(time: Any) -> str:
    return str(time.strftime("%Y-%m-%dT%H:%M:%SZ"))
