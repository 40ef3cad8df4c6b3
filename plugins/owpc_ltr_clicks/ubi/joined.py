"""Events of User Behavior Insights with the queries that they belong to, by `query_id`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr_clicks.reading import EventBatch
from owpc_ltr_clicks.times import seconds_of
from owpc_ltr_clicks.ubi.searches import AMBIGUOUS, UNKNOWN, Searches

_NO_ID = "no query id"


def joined(queries: Iterable[pa.Table], events: Iterable[pa.Table]) -> Iterator[EventBatch]:
    """The lists that were shown, then the events, each with its query.

    Both are read twice: which queries share an id, and in which session each was asked, has to be
    known first.
    """
    searches = Searches()
    for table in queries:
        searches.add(table)
    for table in events:
        searches.add_events(table)
    searches.settle()
    for table in queries:
        # A query that lists nothing shows nothing.
        shown = table.filter(pc.greater(pc.list_value_length(table["shown"]).fill_null(0), 0))
        if len(shown):
            yield _lists(shown.combine_chunks(), searches)
    for table in events:
        if len(table):
            yield _events(table, searches)


def _lists(table: pa.Table, searches: Searches) -> EventBatch:
    """What was shown. Of a query whose id others have, nobody can tell what was clicked."""
    query = _array(table, "query")
    found = searches.of(_array(table, "search"))
    shared = found.ambiguous
    client = pc.coalesce(_array(table, "client"), found.client)
    batch = _batch(table, pc.if_else(pa.array(shared), None, query), client, found.session)
    batch["unlinked"] = pc.if_else(pa.array(shared), AMBIGUOUS, None)
    return EventBatch(batch)


def _events(table: pa.Table, searches: Searches) -> EventBatch:
    search = _array(table, "search")
    found = searches.of(search)
    own = pc.coalesce(_array(table, "client"), _array(table, "user"))
    # An event that says its query itself needs no other one to.
    query = pc.coalesce(found.query, _array(table, "query"))
    query = pc.if_else(pa.array(found.ambiguous), None, query)
    client = pc.coalesce(found.client, own)
    session = pc.coalesce(found.session, _array(table, "session"))
    batch = _batch(table, query, client, session)
    why = pc.if_else(pa.array(found.ambiguous), AMBIGUOUS, UNKNOWN)
    batch["unlinked"] = pc.if_else(search.is_valid(), why, _NO_ID)
    batch["field"] = pc.coalesce(batch["field"], found.field)
    early = seconds_of(_array(table, "time")) < found.time
    return EventBatch(batch, early=int(early.sum()))


def _batch(table: pa.Table, query: pa.Array, client: pa.Array, session: pa.Array) -> dict[str, Any]:
    """The columns by role. A session without an id is its client's, or else its search's."""
    search = _array(table, "search")
    columns: dict[str, Any] = {
        "query": query,
        "client": client,
        "session": pc.coalesce(session, client, search),
        "search": search,
        "time": _array(table, "time"),
    }
    for name in ("document", "position", "action", "shown", "field"):
        if name in table.column_names:
            columns[name] = _array(table, name)
    return columns


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
