"""Indices of User Behavior Insights on a real node, as the OpenSearch plugin maps them or not.

Their documents are events of simulated users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from owpc_ltr.engine.client.engine import Engine

WORD = {"type": "keyword", "ignore_above": 100}
QUERIES_MAPPING: dict[str, Any] = {
    "dynamic": False,
    "properties": {
        "timestamp": {"type": "date"},
        "query_id": WORD,
        "query": {"type": "text"},
        "query_response_id": WORD,
        "query_response_hit_ids": {"type": "keyword"},
        "user_query": {"type": "text"},
        "query_attributes": {"type": "flat_object"},
        "client_id": WORD,
    },
}
EVENTS_MAPPING: dict[str, Any] = {
    "properties": {
        "application": WORD,
        "action_name": WORD,
        "client_id": WORD,
        "message": WORD,
        "message_type": WORD,
        "timestamp": {
            "type": "date",
            "format": "rfc3339_lenient||epoch_millis",
            "ignore_malformed": True,
        },
        "event_attributes": {
            "dynamic": True,
            "properties": {
                "position": {
                    "properties": {
                        "ordinal": {"type": "integer"},
                        "x": {"type": "integer"},
                        "y": {"type": "integer"},
                        "page_depth": {"type": "integer"},
                    }
                },
                "object": {
                    "properties": {
                        "internal_id": {"type": "keyword"},
                        "object_id": WORD,
                        "object_id_field": WORD,
                        "object_detail": {"type": "object"},
                    }
                },
            },
        },
    }
}
"""Both as the plugin makes them (3.x): what an application posts to them is of its own form."""
PLUGIN = (QUERIES_MAPPING, EVENTS_MAPPING)
DYNAMIC: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
"""As the engine makes them by itself."""


def filled(
    engine: Engine,
    index: str,
    documents: Sequence[dict[str, Any]],
    mapping: dict[str, Any],
    shards: int = 2,
) -> None:
    """Make an index anew."""
    drop(engine, index)
    settings = {"number_of_shards": shards, "number_of_replicas": 0}
    engine.request("PUT", f"/{index}", body={"settings": settings, "mappings": mapping})
    write(engine, index, documents)


def refilled(engine: Engine, index: str, documents: Sequence[dict[str, Any]]) -> None:
    """Give an index other documents, which takes a tenth of the time that making one does."""
    path = f"/{index}/_delete_by_query"
    body: dict[str, Any] = {"query": {"match_all": {}}}
    engine.request("POST", path, params={"refresh": "true"}, body=body)
    write(engine, index, documents)


def write(engine: Engine, index: str, documents: Sequence[dict[str, Any]]) -> None:
    """Put documents into an index; their ids are in another order."""
    lines: list[Any] = []
    for number, document in enumerate(documents):
        lines += [{"index": {"_id": f"{number * 7919 % 100_003}"}}, document]
    if lines:
        path = f"/{index}/_bulk"
        answer = engine.request("POST", path, ndjson=lines, params={"refresh": "true"})
        assert not answer["errors"], answer


def drop(engine: Engine, index: str) -> None:
    """Take an index away, if it is there."""
    engine.request("DELETE", f"/{index}", params={"ignore_unavailable": "true"})


def check_mappable(engine: Engine) -> None:
    """Skip the test where the plugin's mappings are not to be had."""
    if engine.about().distribution != "opensearch":
        pytest.skip("the plugin is OpenSearch's, and so are the types of its mappings")


class UbiIndices(NamedTuple):
    """Their names, as options are called."""

    ubi_queries: str
    ubi_events: str


@contextmanager
def ubi_indices(
    engine: Engine,
    queries: Sequence[dict[str, Any]],
    events: Sequence[dict[str, Any]],
    mappings: tuple[dict[str, Any], dict[str, Any]] = PLUGIN,
    shards: int = 2,
) -> Iterator[UbiIndices]:
    """The two indices; gone at the end."""
    if mappings is PLUGIN:
        check_mappable(engine)
    names = {"queries": "ubi-tested-queries", "events": "ubi-tested-events"}
    contents = {"queries": queries, "events": events}
    for (kind, index), mapping in zip(names.items(), mappings, strict=True):
        filled(engine, index, contents[kind], mapping, shards)
    try:
        yield UbiIndices(*names.values())
    finally:
        for index in names.values():
            drop(engine, index)


def ubi_documents(events: pa.Table) -> tuple[Iterator[dict[str, Any]], Iterator[dict[str, Any]]]:
    """The events as documents of User Behavior Insights 1.3: of `ubi_queries` and `ubi_events`.

    Impressions stand in the queries alone, clicks in the events.
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
