"""Events encoded as rows of numbers, and the count of those that cannot be used."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import scrambled
from owpc_ltr.data.log_times import TimeWindow
from owpc_ltr_clicks.cleaning import IMPRESSIONS, EventOptions
from owpc_ltr_clicks.encoding import NO_TEXT, UNFIT, DocumentCodes, TextCodes
from owpc_ltr_clicks.log_files import EventBatch


@dataclass
class EventCounts:
    """Events read, used, and unusable by reason. A result list of n results counts as n events.

    `implied` are clicks on results that no event says were shown. `early` events are stamped before
    the query that they name; they count. `others` are the other actions of the log, by name.
    Positions begin with `first_position`: 0 if an event has that one, else 1.
    `document_field` is the field by which the log names documents, if it says so; `looked_up` tells
    whether these were looked up in an index.
    """

    read: int = 0
    unusable: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    implied: int = 0
    early: int = 0
    document_field: str | None = None
    looked_up: bool = False
    first_position: int = 1

    @property
    def used(self) -> int:
        """The number of events that count."""
        return self.read - sum(self.unusable.values())

    def leave_out(self, reason: str, events: int) -> None:
        """Count events that cannot be used."""
        if events:
            self.unusable[reason] += int(events)

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON, the most frequent reason first."""
        return {
            "read": self.read,
            "used": self.used,
            "unusable": dict(_most_frequent(self.unusable)),
            "other_actions": dict(_most_frequent(self.others)[:20]),
            "clicks_without_impression": self.implied,
            "before_their_query": self.early,
            "document_field": self.document_field,
            "first_position": self.first_position,
        }


def _most_frequent(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


ROW = np.dtype(
    [
        ("person", np.uint64),
        ("session", np.uint64),
        ("view", np.uint64),
        ("query", np.int32),
        ("document", np.int32),
        ("position", np.int32),
        ("value", np.float32),
    ]
)
"""One event. The value of an impression is 0; persons and sessions are hashes, never names."""

NO_POSITION = np.int32(-(2**31))
LISTED = np.int32(1 << 30)
"""Added to the position of a result in a logged list, whose first position is 1 for certain."""
_WHOLE = r"^\s*[0-9]{1,9}(\.0*)?\s*$"
Rows = NDArray[Any]


class EventCoder:
    """Encodes events as rows, and counts those that cannot be used."""

    def __init__(self, options: EventOptions) -> None:
        self.options = options
        self.event_counts = EventCounts()
        self.queries = TextCodes(queries=True)
        self.documents = DocumentCodes()
        self._window = TimeWindow(options.since, options.until)

    def rows(self, batch: EventBatch) -> Rows:
        """The rows of a batch: single events, then the results of logged lists."""
        for reason, events in batch.lost.items():
            self.event_counts.read += events
            self.event_counts.leave_out(reason, events)
        self.event_counts.early += batch.early
        if not batch.n_events:
            return np.zeros(0, ROW)
        base = np.zeros(batch.n_events, ROW)
        base["query"] = self.queries.codes(batch.columns["query"])
        self._identities(batch.columns, base)
        listed = self._listed(batch.columns, base)
        single = self._single(batch.columns, base)
        if (single["position"] == 0).any():
            self.event_counts.first_position = 0
        return np.concatenate([single, listed])

    def _identities(self, columns: Mapping[str, pa.Array], base: Rows) -> None:
        """Hashes of the person, session and list of each event; person 0 is unknown."""
        session = next(columns[role] for role in ("session", "client", "search") if role in columns)
        person = columns.get("client", session)
        if "session" in columns and person is not session:
            # A person without an id is identified by the session.
            person = pc.coalesce(person, session)
        search = columns.get("search")
        base["person"] = _hashes([person], 1)
        base["session"] = _hashes([person, session], 2)
        view = [person, session] if search is None else [person, session, search]
        with_query = _hashes(view, 3) ^ _mixed(base["query"].astype(np.uint64))
        base["view"] = _mixed(with_query)
        for column in (person, session):
            base["person"][column.is_null().to_numpy(zero_copy_only=False)] = 0

    def _single(self, columns: Mapping[str, pa.Array], base: Rows) -> Rows:
        """Events of one document each."""
        if "document" not in columns or "action" not in columns:
            return base[:0]
        keep = np.ones(len(base), bool)
        if "shown" in columns:
            keep = columns["shown"].is_null().to_numpy(zero_copy_only=False)
        self.event_counts.read += int(keep.sum())
        self._values(columns["action"], base, keep)
        base["document"] = self.documents.codes(columns["document"], columns.get("field"))
        base["position"] = _positions(columns.get("position"), len(base))
        self._time(columns, keep)
        self._whole(base, keep, columns.get("unlinked"))
        return base[keep]

    def _time(
        self,
        columns: Mapping[str, pa.Array],
        keep: NDArray[np.bool_],
        owner: slice | NDArray[np.int64] = slice(None),
    ) -> None:
        """Leave out events outside of the window; `owner` is the row that has the time of each."""
        if not self._window.open:
            n_events = len(next(iter(columns.values())))
            dated, within = self._window.holds(columns.get("time"), n_events)
            self._drop(keep, ~dated[owner], "no time that can be read")
            self._drop(keep, ~within[owner], "outside of the time asked for")

    def _whole(self, base: Rows, keep: NDArray[np.bool_], unlinked: pa.Array | None) -> None:
        if unlinked is not None:
            has_query = pa.array(base["query"] != NO_TEXT)
            reasons = pc.if_else(has_query, None, unlinked).dictionary_encode()
            codes = reasons.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            for code, reason in enumerate(reasons.dictionary.to_pylist()):
                self._drop(keep, codes == code, reason)
        for name, what in (("query", "query"), ("document", "document")):
            self._drop(keep, base[name] == NO_TEXT, f"no {what}")
            self._drop(keep, base[name] == UNFIT, f"a {what} that no list can hold")
        self._drop(keep, base["person"] == 0, "no session")

    def _drop(self, keep: NDArray[np.bool_], bad: NDArray[np.bool_], reason: str) -> None:
        self.event_counts.leave_out(reason, int((keep & bad).sum()))
        keep &= ~bad

    def _values(self, actions: pa.Array, base: Rows, keep: NDArray[np.bool_]) -> None:
        """The value of each action; other actions are left out."""
        options, encoded = self.options, actions.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        value_of = dict.fromkeys(IMPRESSIONS, 0.0) | dict(options.actions)
        values = np.array([*(value_of.get(name, np.nan) for name in names), np.nan], np.float32)
        codes = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        base["value"] = values[codes]
        unknown = keep & np.isnan(base["value"])
        tally = np.bincount(codes[unknown], minlength=len(names) + 1)
        for name, count in zip([*names, ""], tally.tolist(), strict=True):
            if count:
                self.event_counts.others[name] += count
        self._drop(keep, np.isnan(base["value"]), "another action")

    def _listed(self, columns: Mapping[str, pa.Array], base: Rows) -> Rows:
        """A row for each result of the lists that were shown."""
        if "shown" not in columns:
            return base[:0]
        lists = columns["shown"]
        lists = lists if pa.types.is_list(lists.type) else _parsed(lists)
        lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        owner = np.repeat(np.arange(len(base)), lengths)
        rows = base[owner]
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows["position"] = np.arange(1, len(rows) + 1) - starts + LISTED
        ids, where = lists.flatten(), pa.array(owner)
        field, unlinked = (
            None if name not in columns else columns[name].take(where)
            for name in ("field", "unlinked")
        )
        rows["document"] = self.documents.codes(ids, field)
        self.event_counts.read += len(rows)
        keep = np.ones(len(rows), bool)
        self._time(columns, keep, owner)
        self._whole(rows, keep, unlinked)
        return rows[keep]


def _parsed(column: pa.Array) -> pa.Array:
    """Lists written as JSON, or as ids separated by |."""
    lists: list[list[str] | None] = []
    for text in column.to_pylist():
        if not text:
            lists.append(None)
            continue
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            content = text.split("|")
        listed = content if isinstance(content, list) else [content]
        lists.append([item if isinstance(item, str) else json.dumps(item) for item in listed])
    return pa.array(lists, pa.list_(pa.string()))


def _positions(column: pa.Array | None, count: int) -> NDArray[np.int32]:
    """Positions that are whole numbers; NO_POSITION for anything else."""
    if column is None:
        return np.full(count, NO_POSITION, np.int32)
    fits = pc.match_substring_regex(column, _WHOLE)
    numbers = pc.if_else(fits, pc.utf8_trim_whitespace(column), None).cast(pa.float64())
    positions = numbers.fill_null(float(NO_POSITION)).to_numpy(zero_copy_only=False)
    whole: NDArray[np.int32] = positions.astype(np.int32)
    return whole


def _hashes(columns: list[pa.Array], seed: int) -> NDArray[np.uint64]:
    from owpc_ltr.data.external_features import hashed

    return hashed([column.fill_null("") for column in columns], seed)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return scrambled(numbers + np.uint64(0x9E3779B97F4A7C15))
