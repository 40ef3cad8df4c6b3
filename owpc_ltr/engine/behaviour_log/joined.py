"""Events of User Behavior Insights with the queries that they belong to, by `query_id`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.behaviour.reading import EventBatch
from owpc_ltr.data.joined_tables.keys import hashed


class Searches:
    """What is known of each search by its id: the query's text, and whose it was."""

    def __init__(self) -> None:
        self._parts: list[tuple[NDArray[np.uint64], pa.Array, pa.Array]] = []
        self._keys = np.zeros(0, np.uint64)
        self._texts = self._clients = pa.array([], pa.string())

    def add(self, table: pa.Table) -> None:
        """Take in some searches."""
        known = table.filter(pc.is_valid(table["search"])).combine_chunks()
        if len(known):
            search, query, client = (_array(known, name) for name in ("search", "query", "client"))
            self._parts.append(
                (hashed([search], 4), query.dictionary_encode(), client.dictionary_encode())
            )

    def settle(self) -> None:
        """All are there: put them in order."""
        if not self._parts:
            return
        keys = np.concatenate([part[0] for part in self._parts])
        order = np.argsort(keys, kind="stable")
        self._keys, take = keys[order], pa.array(order)
        self._texts, self._clients = (
            pa.chunked_array([part[i] for part in self._parts]).unify_dictionaries()
            .combine_chunks().take(take) for i in (1, 2)
        )  # fmt: skip
        self._parts.clear()

    def of(self, search: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The query and the client of each search; null where the search is not known."""
        if not len(self._keys):
            nothing = pa.nulls(len(search), pa.string())
            return nothing, nothing
        keys = hashed([search.fill_null("")], 4)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found = (self._keys[place] == keys) & pc.is_valid(search).to_numpy(zero_copy_only=False)
        rows = pa.array(place, mask=~found)
        return self._texts.take(rows).cast(pa.string()), self._clients.take(rows).cast(pa.string())


def joined(queries: Iterable[pa.Table], events: Iterable[pa.Table]) -> Iterator[EventBatch]:
    """The lists that were shown, then the events, each with its query."""
    searches = Searches()
    for table in queries:
        searches.add(table)
        # A query that lists nothing shows nothing.
        shown = table.filter(pc.greater(pc.list_value_length(table["shown"]).fill_null(0), 0))
        if len(shown):
            yield _batch(shown.combine_chunks(), _array(shown, "query"), _array(shown, "client"))
    searches.settle()
    for table in events:
        if len(table):
            query, client = searches.of(_array(table, "search"))
            own = pc.coalesce(_array(table, "client"), _array(table, "user"))
            query = pc.coalesce(query, _array(table, "query"))
            yield _batch(table, query, pc.coalesce(client, own, _array(table, "session")))


def _batch(table: pa.Table, query: pa.Array, client: pa.Array) -> EventBatch:
    """One search is one session: that is what queries and events have in common."""
    search = _array(table, "search")
    own = _array(table, "session") if "session" in table.column_names else client
    columns: dict[str, Any] = {
        "query": query,
        "client": client,
        "session": pc.coalesce(search, own),
        "search": search,
        "time": _array(table, "time"),
    }
    for name in ("document", "position", "action", "shown"):
        if name in table.column_names:
            columns[name] = _array(table, name)
    return EventBatch(columns)


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
