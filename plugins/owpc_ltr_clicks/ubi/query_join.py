"""Events of User Behavior Insights joined with the queries that they belong to, by `query_id`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.external_features.table import hashed
from owpc_ltr.data.log_times import seconds_of
from owpc_ltr_clicks.encoding import normalised
from owpc_ltr_clicks.log_files import EventBatch
from owpc_ltr_clicks.sessions import changes

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
        keys, self._times, columns = _by_search(queries, ("query", "client", "field"), dated=True)
        starts = np.flatnonzero(changes(keys))
        self._keys, self._times = keys[starts], self._times[starts]
        self._ambiguous = _is_ambiguous(columns["query"], starts)
        self._texts = {
            name: _first_text(column, starts, alike=name != "query")
            for name, column in columns.items()
        }
        self._texts["session"] = pa.nulls(len(starts), pa.string())
        keys, _, columns = _by_search(events, ("session", "client"), dated=False)
        starts = np.flatnonzero(changes(keys))
        place = np.minimum(np.searchsorted(keys[starts], self._keys), len(starts) - 1)
        rows = pa.array(place, mask=keys[starts][place] != self._keys)
        for name, column in columns.items():
            # Of several sessions the first counts; several clients are ambiguous.
            first = _first_text(column, starts, alike=name == "client").take(rows).cast(pa.string())
            self._texts[name] = pc.coalesce(self._texts[name].cast(pa.string()), first)

    def of(self, search: pa.Array) -> SearchInfo:
        """The known facts of each search."""
        keys = hashed([search.fill_null("")], 4)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        is_known = (self._keys[place] == keys) & pc.is_valid(search).to_numpy(zero_copy_only=False)
        rows = pa.array(place, mask=~is_known)
        texts = {name: self._texts[name].take(rows).cast(pa.string()) for name in self._texts}
        times = np.where(is_known, self._times[place], np.nan)
        return SearchInfo(**texts, time=times, ambiguous=is_known & self._ambiguous[place])


def _by_search(
    tables: Iterable[pa.Table], names: Sequence[str], *, dated: bool
) -> tuple[NDArray[np.uint64], NDArray[Any], dict[str, Any]]:
    """The rows that name a search, by its key, then time if they are `dated`.

    The keys, the times, and the columns of texts. Where no row does, one of which nothing is known.
    """
    nothing = pa.nulls(1, pa.string()).dictionary_encode()
    parts: list[tuple[Any, ...]] = []
    for table in tables:
        rows = table.filter(pc.is_valid(table["search"])).combine_chunks()
        if len(rows):
            times = seconds_of(_array(rows, "time")) if dated else np.zeros(len(rows), np.int8)
            columns = (_client(rows) if name == "client" else _array(rows, name) for name in names)
            texts = [column.dictionary_encode() for column in columns]
            parts.append((hashed([_array(rows, "search")], 4), times, *texts))
    parts = parts or [(np.zeros(1, np.uint64), np.full(1, np.nan), *[nothing] * len(names))]
    of_keys, of_times, *chunks = zip(*parts, strict=True)
    keys, times = np.concatenate(of_keys), np.concatenate(of_times)
    order = np.lexsort((times, keys))
    return (
        keys[order],
        times[order],
        {
            name: pa.chunked_array(chunk)
            .unify_dictionaries()
            .combine_chunks()
            .take(pa.array(order))
            for name, chunk in zip(names, chunks, strict=True)
        },
    )


def _client(table: pa.Table) -> pa.Array:
    """The client that a query names; of an event, its client or its user."""
    client = _array(table, "client")
    return pc.coalesce(client, _array(table, "user")) if "user" in table.column_names else client


def _first_text(column: Any, starts: NDArray[np.int64], *, alike: bool) -> pa.Array:
    """One text per id, the first in sorted order; with `alike`, null where they differ."""
    lowest, highest, words = _extremes(column, starts)
    none = lowest == len(words)
    if alike:
        none |= highest > lowest
    codes = pa.array(np.where(none, 0, lowest).astype(np.int32), mask=none)
    return pa.DictionaryArray.from_arrays(codes, words)


def _is_ambiguous(queries: Any, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether an id has several queries, in normal form."""
    texts = [normalised(text or "") for text in queries.dictionary.to_pylist()]
    normal = pa.array(texts, pa.string()).dictionary_encode()
    indices = pa.DictionaryArray.from_arrays(queries.indices, normal.indices).cast(pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, normal.dictionary)
    lowest, highest, _ = _extremes(column, starts)
    return highest > lowest


def _extremes(
    column: Any, starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """The places of the first and the last text of each id among the sorted texts, and these.

    Where an id has no text, its first place is behind all texts.
    """
    order = pc.sort_indices(column.dictionary).to_numpy()
    place = np.full(len(order) + 1, -1)
    place[order] = np.arange(len(order))
    codes = column.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)
    ranks, words = place[codes], column.dictionary.take(pa.array(order))
    lowest = np.minimum.reduceat(np.where(ranks < 0, len(words), ranks), starts)
    return lowest, np.maximum.reduceat(ranks, starts), words


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
