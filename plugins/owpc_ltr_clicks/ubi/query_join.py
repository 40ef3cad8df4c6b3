"""Events of User Behavior Insights joined with the queries that they belong to, by `query_id`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.external_features import hashed
from owpc_ltr.data.log_times import seconds_of
from owpc_ltr_clicks.encoding import normalised
from owpc_ltr_clicks.log_files import EventBatch

UNKNOWN = "a query id that no query has"
AMBIGUOUS = "a query id that several queries have"
_NO_ID = "no query id"
EVENT_FIELDS = {
    "search": "query_id",
    "session": "session_id",
    "client": "client_id",
    "user": "user_id",
    "query": "user_query",
    "action": "action_name",
    "time": "timestamp",
    "document": "event_attributes.object.object_id",
    "field": "event_attributes.object.object_id_field",
    "position": "event_attributes.position.ordinal",
}
QUERY_FIELDS = {
    "search": "query_id",
    "client": "client_id",
    "query": "user_query",
    "time": "timestamp",
    "shown": "query_response_hit_ids",
    "field": "object_id_field",
}


def join_queries(queries: Iterable[pa.Table], events: Iterable[pa.Table]) -> Iterator[EventBatch]:
    """The lists that were shown, then the events, each with its query.

    Both are read twice, as it must be known first which queries share an id, and in which session
    each was asked.
    """
    searches = Searches(queries, events)
    for table in queries:
        # A query that lists nothing shows nothing.
        shown = table.filter(pc.greater(pc.list_value_length(table["shown"]).fill_null(0), 0))
        if len(shown):
            yield _lists(shown.combine_chunks(), searches)
    for table in events:
        if len(table):
            yield _events(table, searches)


def _lists(table: pa.Table, searches: Searches) -> EventBatch:
    """The lists that were shown. The clicks of a query whose id others have are unknown."""
    query = _array(table, "query")
    search_info = searches.of(_array(table, "search"))
    ambiguous = search_info.ambiguous
    client = pc.coalesce(_array(table, "client"), search_info.client)
    batch = _batch(table, pc.if_else(pa.array(ambiguous), None, query), client, search_info.session)
    batch["unlinked"] = pc.if_else(pa.array(ambiguous), AMBIGUOUS, None)
    return EventBatch(batch)


def _events(table: pa.Table, searches: Searches) -> EventBatch:
    search = _array(table, "search")
    search_info = searches.of(search)
    # An event that has its query's text needs no join.
    query = pc.coalesce(search_info.query, _array(table, "query"))
    query = pc.if_else(pa.array(search_info.ambiguous), None, query)
    client = pc.coalesce(search_info.client, _client(table))
    session = pc.coalesce(search_info.session, _array(table, "session"))
    batch = _batch(table, query, client, session)
    why = pc.if_else(pa.array(search_info.ambiguous), AMBIGUOUS, UNKNOWN)
    batch["unlinked"] = pc.if_else(search.is_valid(), why, _NO_ID)
    batch["field"] = pc.coalesce(batch["field"], search_info.field)
    early = seconds_of(_array(table, "time")) < search_info.time
    return EventBatch(batch, early=int(early.sum()))


def _batch(table: pa.Table, query: pa.Array, client: pa.Array, session: pa.Array) -> dict[str, Any]:
    """The columns by role. A session without an id is that of its client, else of its search."""
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


@dataclass(frozen=True, eq=False)
class SearchInfo:
    """The searches of some events, as columns; null where they are not known.

    `time` is when it was first asked, NaN where unknown. `session` is that of its events.
    `ambiguous` marks ids of several queries.
    """

    query: pa.Array
    client: pa.Array
    field: pa.Array
    session: pa.Array
    time: NDArray[np.float64]
    ambiguous: NDArray[np.bool_]


class Searches:
    """All searches by id: each once, with the session and the client of its events."""

    def __init__(self, queries: Iterable[pa.Table], events: Iterable[pa.Table]) -> None:
        asked = _by_search(queries, ("query", "client", "field"))
        done = _by_search(events, ("session", "client"))
        self._keys: NDArray[np.uint64] = asked["key"].to_numpy()
        self._info = {name: _array(asked, name) for name in ("query", "time", "normal differs")}
        done = done.take(_places(done["key"].to_numpy(), self._keys))
        # Of several sessions the first counts; several clients are ambiguous.
        self._info["session"] = _array(done, "session")
        self._info["client"] = pc.coalesce(_only(asked, "client"), _only(done, "client"))
        self._info["field"] = _only(asked, "field")

    def of(self, search: pa.Array) -> SearchInfo:
        """The known facts of each search."""
        places = _places(self._keys, hashed([search.fill_null("")], 4))
        rows = pc.if_else(search.is_valid(), places, None)
        info = {name: values.take(rows) for name, values in self._info.items()}
        time = info.pop("time").to_numpy(zero_copy_only=False)
        ambiguous = info.pop("normal differs").fill_null(False).to_numpy(zero_copy_only=False)
        return SearchInfo(**info, time=time, ambiguous=ambiguous)


def _places(keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> pa.Array:
    """Where each of the wanted ones is among sorted keys; null where it is not."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    known = keys[place] == wanted if len(keys) else np.zeros(len(wanted), bool)
    return pa.array(place, mask=~known)


def _only(table: pa.Table, name: str) -> pa.Array:
    """The text of each search that has one alone."""
    return pc.if_else(_array(table, f"{name} differs"), None, _array(table, name))


def _by_search(tables: Iterable[pa.Table], names: Sequence[str]) -> pa.Table:
    """A row for each search that rows name, by its key: its first time, and the first of its texts.

    `NAME differs` says whether it has others, `normal differs` whether its queries do, normalised.
    """
    none = pa.array([], pa.string()).dictionary_encode()
    parts = [
        pa.table({"key": np.zeros(0, np.uint64), "time": np.zeros(0), **dict.fromkeys(names, none)})
    ]
    for table in tables:
        rows = table.filter(pc.is_valid(table["search"]))
        if len(rows):
            texts = {
                name: _client(rows) if name == "client" else _array(rows, name) for name in names
            }
            parts.append(
                pa.table(
                    {
                        "key": hashed([_array(rows, "search")], 4),
                        "time": pa.array(seconds_of(_array(rows, "time")), from_pandas=True),
                        **{name: column.dictionary_encode() for name, column in texts.items()},
                    }
                )
            )
    whole = pa.concat_tables(parts).unify_dictionaries()
    ranks, words = {"key": whole["key"], "time": whole["time"]}, {}
    for name in names:
        column = whole[name].combine_chunks()
        order = pc.sort_indices(column.dictionary)
        words[name] = column.dictionary.take(order)
        ranks[name] = pa.array(np.argsort(order)).take(column.indices)
        if name == "query":
            normal = pa.array(
                [normalised(text) for text in column.dictionary.to_pylist()], pa.string()
            )
            ranks["normal"] = normal.dictionary_encode().indices.take(column.indices)
    ends = [(name, end) for name in ranks if name != "key" for end in ("min", "max")]
    grouped = pa.table(ranks).group_by("key").aggregate(ends).sort_by("key")
    columns = {"key": grouped["key"], "time": grouped["time_min"]}
    for name in ranks.keys() - columns.keys():
        low, high = (_array(grouped, f"{name}_{end}") for end in ("min", "max"))
        columns[f"{name} differs"] = pc.not_equal(low, high).fill_null(False)
        if name in words:
            columns[name] = words[name].take(low)
    return pa.table(columns)


def _client(table: pa.Table) -> pa.Array:
    """The client that a query names; of an event, its client or its user."""
    client = _array(table, "client")
    return pc.coalesce(client, _array(table, "user")) if "user" in table.column_names else client


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
