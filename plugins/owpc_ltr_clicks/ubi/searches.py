"""What is known of each search by its id: the query's text, whose it was, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.external_features.table import hashed
from owpc_ltr_clicks.texts import normalised
from owpc_ltr_clicks.times import seconds_of

UNKNOWN = "a query id that no query has"
AMBIGUOUS = "a query id that several queries have"
_TEXTS = ("query", "client", "field")
_OF_EVENTS = ("session", "client")


@dataclass(frozen=True, eq=False)
class Found:
    """The searches of some events, null where they are not known.

    `time` is when it was first asked, NaN where that is not known. `session` is that of its events.
    `ambiguous` are ids of several queries: no query is right for them.
    """

    query: pa.Array
    client: pa.Array
    field: pa.Array
    session: pa.Array
    time: NDArray[np.float64]
    ambiguous: NDArray[np.bool_]


class Searches:
    """All searches. What they say does not depend on the order in which they come."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, ...]] = []
        self._events: list[tuple[Any, ...]] = []
        self._keys = np.zeros(0, np.uint64)
        self._times = np.zeros(0)
        self._texts: dict[str, pa.Array] = {}
        self._ambiguous = np.zeros(0, bool)

    def add(self, table: pa.Table) -> None:
        """Take in some searches."""
        known = table.filter(pc.is_valid(table["search"])).combine_chunks()
        if len(known):
            texts = [_array(known, name).dictionary_encode() for name in _TEXTS]
            times = seconds_of(_array(known, "time"))
            self._parts.append((hashed([_array(known, "search")], 4), times, *texts))

    def add_events(self, table: pa.Table) -> None:
        """Take in what events say of searches: their sessions, and who asked."""
        known = table.filter(pc.is_valid(table["search"])).combine_chunks()
        if len(known):
            client = pc.coalesce(_array(known, "client"), _array(known, "user"))
            texts = [one.dictionary_encode() for one in (_array(known, "session"), client)]
            self._events.append((hashed([_array(known, "search")], 4), *texts))

    def settle(self) -> None:
        """All are there: put them in order, each id once."""
        if not self._parts:
            return
        keys, times = (np.concatenate([part[i] for part in self._parts]) for i in (0, 1))
        order = np.lexsort((times, keys))
        keys, times = keys[order], times[order]
        first = np.ones(len(keys), bool)
        first[1:] = keys[1:] != keys[:-1]
        starts = np.flatnonzero(first)
        self._keys, self._times = keys[starts], times[starts]
        self._ambiguous = np.zeros(len(starts), bool)
        for place, name in enumerate(_TEXTS, 2):
            texts = pa.chunked_array([part[place] for part in self._parts])
            column = texts.unify_dictionaries().combine_chunks().take(pa.array(order))
            if name == "query":
                self._ambiguous = _differ(column, starts, normalise=True)
            self._texts[name] = _settled(column, starts, alike=name != "query")
        self._texts["session"] = pa.nulls(len(self._keys), pa.string())
        self._parts.clear()
        self._settle_events()

    def _settle_events(self) -> None:
        """The session of each search, and its client where the search itself names none."""
        if not self._events:
            return
        keys = np.concatenate([part[0] for part in self._events])
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        place = np.minimum(np.searchsorted(keys[starts], self._keys), len(starts) - 1)
        rows = pa.array(place, mask=keys[starts][place] != self._keys)
        for number, name in enumerate(_OF_EVENTS, 1):
            texts = pa.chunked_array([part[number] for part in self._events])
            column = texts.unify_dictionaries().combine_chunks().take(pa.array(order))
            # Of several sessions the first counts; of several clients nobody knows which it was.
            found = _settled(column, starts, alike=name == "client").take(rows).cast(pa.string())
            self._texts[name] = pc.coalesce(self._texts[name].cast(pa.string()), found)
        self._events.clear()

    def of(self, search: pa.Array) -> Found:
        """What is known of each search."""
        if not len(self._keys):
            nothing = pa.nulls(len(search), pa.string())
            nobody = np.zeros(len(search), bool)
            return Found(nothing, nothing, nothing, nothing, np.full(len(search), np.nan), nobody)
        keys = hashed([search.fill_null("")], 4)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found = (self._keys[place] == keys) & pc.is_valid(search).to_numpy(zero_copy_only=False)
        rows = pa.array(place, mask=~found)
        texts = {name: self._texts[name].take(rows).cast(pa.string()) for name in self._texts}
        times = np.where(found, self._times[place], np.nan)
        return Found(**texts, time=times, ambiguous=found & self._ambiguous[place])


def _settled(column: Any, starts: NDArray[np.int64], *, alike: bool) -> pa.Array:
    """One text an id, the first in their order.

    Where all have to be `alike`, null if they are not: of two clients of one search nobody knows
    which it was.
    """
    ranks, words = _ranked(column)
    lowest = np.minimum.reduceat(np.where(ranks < 0, len(words), ranks), starts)
    none = lowest == len(words)
    if alike:
        none |= _differ(column, starts)
    codes = pa.array(np.where(none, 0, lowest).astype(np.int32), mask=none)
    return pa.DictionaryArray.from_arrays(codes, words)


def _differ(
    column: Any, starts: NDArray[np.int64], *, normalise: bool = False
) -> NDArray[np.bool_]:
    """Whether an id has several texts; `normalise`: that mean something else."""
    if normalise:
        texts = [normalised(text or "") for text in column.dictionary.to_pylist()]
        again = pa.array(texts, pa.string()).dictionary_encode()
        known = pa.DictionaryArray.from_arrays(column.indices, again.indices)
        column = pa.DictionaryArray.from_arrays(known.cast(pa.int32()), again.dictionary)
    ranks, words = _ranked(column)
    lowest = np.minimum.reduceat(np.where(ranks < 0, len(words), ranks), starts)
    differ: NDArray[np.bool_] = np.maximum.reduceat(ranks, starts) > lowest
    return differ


def _ranked(column: Any) -> tuple[NDArray[np.int64], pa.Array]:
    """The place of each text among all in their order, -1 for none; and these."""
    order = pc.sort_indices(column.dictionary).to_numpy()
    place = np.full(len(order) + 1, -1)
    place[order] = np.arange(len(order))
    codes = column.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)
    return place[codes], column.dictionary.take(pa.array(order))


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
