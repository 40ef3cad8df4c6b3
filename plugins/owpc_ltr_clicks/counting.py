"""Counts of impressions and clicks: of all people, of those to fit to, and of those held out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.click_counts import ClickCounts, ClickLists
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown
from owpc_ltr.files.output import disk_faults
from owpc_ltr_clicks.cleaning import IMPRESSIONS, MAX_RANK, EventOptions
from owpc_ltr_clicks.encoding import OTHER_FIELD, Lookup, ResolvedDocuments
from owpc_ltr_clicks.events import LISTED, NO_POSITION, ROW, EventCoder, EventCounts, Rows
from owpc_ltr_clicks.log_files import EventBatch

AGAIN = "the same result in one list again: its most valuable action counts"
"""Why an event is left out where its list already has one for the document."""
BUCKETS = 64
ROWS_IN_MEMORY = 2 << 20
"""Rows that stay in memory (80 MB); more are kept on disk."""


@contextmanager
def person_buckets(
    parts: Iterable[Rows], in_memory: int = ROWS_IN_MEMORY
) -> Iterator[Iterator[Rows]]:
    """The rows in buckets, after all are read: all rows of a person are in one, in their order.

    Where they are too many for memory they are on disk until the end.
    """
    with ExitStack() as stack:
        files: list[IO[bytes]] = []
        waiting, n_waiting = [np.zeros(0, ROW)], 0
        for rows in parts:
            waiting.append(rows)
            n_waiting += len(rows)
            if n_waiting > in_memory:
                with disk_faults(tempfile.gettempdir()):
                    if not files:
                        # Without a name: the end of the process removes them, whatever ends it.
                        files = [
                            stack.enter_context(tempfile.TemporaryFile()) for _ in range(BUCKETS)
                        ]
                    for file, held in zip(files, _split(waiting), strict=True):
                        held.tofile(file)
                waiting, n_waiting = [np.zeros(0, ROW)], 0
        yield _buckets(waiting, files)


def _buckets(waiting: list[Rows], files: list[IO[bytes]]) -> Iterator[Rows]:
    for bucket, held in enumerate(_split(waiting)):
        rows = held
        if files:
            with disk_faults(tempfile.gettempdir()):
                files[bucket].seek(0)
                rows = np.concatenate([np.fromfile(files[bucket], ROW), held])
                files[bucket].close()
        if len(rows):
            yield rows


def _split(parts: list[Rows]) -> list[Rows]:
    """The rows of each bucket. The parts are dropped."""
    rows = np.concatenate(parts)
    parts.clear()
    bucket = (rows["person"] % np.uint64(BUCKETS)).astype(np.uint8)
    rows = rows[np.argsort(bucket, kind="stable")]
    return np.split(rows, np.cumsum(np.bincount(bucket, minlength=BUCKETS))[:-1])


_FAR = np.int32(2**31 - 1)
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ListResults:
    """Results of lists as columns: person, list, query, document, rank, clicked, value.

    `reached`: at or above the last click of the list, or in a list without clicks. `events` is the
    number of events of a result. `again`: the same person had clicked on it in another list, so
    that it does not count; it stays in the likelihood of the list.
    """

    person: NDArray[np.uint64]
    view: NDArray[np.uint64]
    query: NDArray[np.int32]
    document: NDArray[np.int32]
    rank: NDArray[np.int32]
    shown: Flags
    clicked: Flags
    reached: Flags
    last: Flags
    value: NDArray[np.float32]
    events: NDArray[np.int64]
    again: Flags

    def keep(self, rows: Flags) -> ListResults:
        """Some of them."""
        return ListResults(**{name: values[rows] for name, values in vars(self).items()})


def results_of(rows: Rows, options: EventOptions, events: EventCounts, first: int) -> ListResults:
    """The results of all rows of some people; `events` receives what is left out."""
    rows = _without_bots(rows, options, events)
    rows, rank = _ranked(rows, events, first)
    results = _results_by_list(rows, rank, events)
    results = _first_clicks(results, events)
    events.implied += int((results.clicked & ~results.shown & ~results.again).sum())
    # A result that was clicked was shown.
    return replace(results, shown=results.shown | results.clicked)


def _without_bots(rows: Rows, options: EventOptions, events: EventCounts) -> Rows:
    """The rows without those of bots."""
    if options.max_clicks_per_session:
        sessions, of_row = np.unique(rows["session"], return_inverse=True)
        clicks = np.bincount(of_row, rows["value"] > 0, len(sessions))
        bots = clicks[of_row] > options.max_clicks_per_session
        reason = f"a session of more than {options.max_clicks_per_session} clicks"
        events.leave_out(reason, int(bots.sum()))
        rows = rows[~bots]
    if options.max_sessions_per_client:
        _, where = np.unique(rows["session"], return_index=True)
        people, of_session = np.unique(rows["person"][where], return_inverse=True)
        n_sessions = np.bincount(of_session, minlength=len(people))
        bots = np.isin(rows["person"], people[n_sessions > options.max_sessions_per_client])
        reason = f"a client of more than {options.max_sessions_per_client} sessions"
        events.leave_out(reason, int(bots.sum()))
        rows = rows[~bots]
    return rows


def _ranked(rows: Rows, events: EventCounts, first: int) -> tuple[Rows, NDArray[np.int32]]:
    """The rows whose rank is unknown or counts, and their ranks, or NO_POSITION."""
    position = rows["position"]
    rank = np.where(position > LISTED, position - LISTED, position + np.int32(1 - first))
    rank = np.where(position == NO_POSITION, NO_POSITION, rank).astype(np.int32)
    has_rank = rank != NO_POSITION
    below = has_rank & (rank > MAX_RANK)
    events.leave_out(f"below rank {MAX_RANK}", int(below.sum()))
    return rows[~below], rank[~below]


def _results_by_list(rows: Rows, rank: NDArray[np.int32], events: EventCounts) -> ListResults:
    """Each document of a list once: shown at its first rank, clicked if it ever was."""
    order = np.lexsort((rows["document"], rows["view"]))
    rows, rank = rows[order], rank[order]
    view, document = rows["view"], rows["document"]
    starts = np.flatnonzero(changes(view, document))
    clicks = rows["value"] > 0
    ranks = np.where(rank == NO_POSITION, _FAR, rank)
    shown_at = _reduced(np.minimum, np.where(clicks, _FAR, ranks), starts)
    clicked_at = _reduced(np.minimum, np.where(clicks, ranks, _FAR), starts)
    shown = _reduced(np.logical_or, ~clicks, starts)
    clicked = _reduced(np.logical_or, clicks, starts)
    place = np.where(shown_at < _FAR, shown_at, clicked_at)
    size = np.diff(starts, append=len(rows))
    events.leave_out(AGAIN, int((size - shown - clicked).sum()))
    list_starts = np.flatnonzero(changes(view[starts]))
    lengths = np.diff(list_starts, append=len(starts))
    lowest = _reduced(np.maximum, np.where(clicked & (place < _FAR), place, 0), list_starts)
    # A user who clicked on nothing has examined the whole list.
    last = np.repeat(np.where(lowest == 0, _FAR, lowest), lengths)
    results = ListResults(
        person=rows["person"][starts],
        view=view[starts],
        query=rows["query"][starts],
        document=document[starts],
        rank=place,
        shown=shown,
        clicked=clicked,
        reached=place <= last,
        last=clicked & (place == last),
        value=_reduced(np.maximum, rows["value"], starts),
        events=shown.astype(np.int64) + clicked,
        again=np.zeros(len(starts), bool),
    )
    lost = place == _FAR
    events.leave_out("no position", int(results.events[lost].sum()))
    return results.keep(~lost)


def _first_clicks(results: ListResults, events: EventCounts) -> ListResults:
    """One click per person, query and document: the one at the best rank of all lists."""
    clicked = np.flatnonzero(results.clicked)
    # Ties are broken by what is counted, so that the order of the log does not matter.
    ties = (results.value, results.last, results.reached, results.events)
    keys = (*ties, results.rank, results.document, results.query, results.person)
    order = clicked[np.lexsort(tuple(key[clicked] for key in keys))]
    repeated = ~changes(results.person[order], results.query[order], results.document[order])
    again = np.zeros(len(results.rank), bool)
    again[order[repeated]] = True
    events.leave_out("clicked before by the same person", int(results.events[again].sum()))
    return replace(results, again=again)


def changes(*columns: NDArray[Any]) -> Flags:
    """Where any column differs from the entry before; True for the first entry."""
    changed = np.ones(len(columns[0]), bool)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _reduced(function: np.ufunc, values: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    return function.reduceat(values, starts) if len(values) else values


FOLDS = 5
"""One person in this many is held out."""
_NAMES = ("shown", "clicked", "reached", "last", "value")
_PENDING = 1 << 20
_LISTED = 1 << 20
_ALL = 1 << 64


@dataclass(frozen=True)
class Behaviour:
    """Counts of a log: `counts` of all people, and its two parts `fitted` and `held_out`.

    All three have the same pairs and rows. `lists` are those of the people held out, or of a
    sample of them with at most a million results.
    """

    counts: ClickCounts
    fitted: ClickCounts
    held_out: ClickCounts
    lists: ClickLists
    event_counts: EventCounts
    options: EventOptions


def count_events(
    batches: Iterable[EventBatch],
    options: EventOptions,
    in_memory: int = ROWS_IN_MEMORY,
    lookup: Lookup | None = None,
) -> Behaviour:
    """Count all events. Raises BadInput, with the reasons, where no event can be used.

    A `lookup` finds the `_id`s of documents that the log names by another field.
    """
    coder = EventCoder(options)
    with person_buckets(map(coder.rows, batches), in_memory) as buckets:
        events = coder.event_counts
        events.document_field = coder.documents.field(options.document_field)
        documents = coder.documents.resolved(events.document_field, lookup)
        events.looked_up = lookup is not None
        table = _Table(len(coder.queries.numbers), len(documents.texts))
        for rows in buckets:
            resolved = _with_resolved_documents(rows, documents, events)
            table.add(results_of(resolved, options, events, events.first_position))
    few = table.people < options.min_people
    events.leave_out(
        f"a query that fewer than {options.min_people} people asked", int(table.events[few].sum())
    )
    _refuse_empty(events, table)
    return _behaviour(table, ~few & (table.people > 0), coder, documents.texts, options)


def refuse_without_clicks(behaviour: Behaviour) -> None:
    """Raise BadInput, with the reasons, for a log in which no click counts."""
    counts, events = behaviour.counts, behaviour.event_counts
    if counts.clicked.any():
        return
    actions = ", ".join(map(shown, behaviour.options.actions))
    lost = events.unusable.most_common(3)
    logged = ", ".join(f"{n:,} {shown(name)}" for name, n in events.others.most_common(3) if name)
    why = "; ".join(f"{count:,} events left out: {reason}" for reason, count in lost)
    fix = (
        "name the actions that say that a result was chosen"
        f"{f' (the log has {logged})' if logged else ''}, or raise the limits above which sessions "
        "and clients are dropped as bots"
    )
    if why and lost[0][0].startswith(OTHER_FIELD):
        fix = "name the field that the events name, with `document_field`"
    raise BadInput(
        f"no click is left to learn from: of {int(counts.shown.sum()):,} impressions none has an "
        f"action {actions}{f' ({why})' if why else ''}: {fix}"
    )


def _with_resolved_documents(rows: Rows, documents: ResolvedDocuments, events: EventCounts) -> Rows:
    """The rows with the final codes of their documents, without those that have none."""
    if np.array_equal(documents.places, np.arange(len(documents.places))):
        return rows
    places = documents.places[rows["document"]]
    reason_numbers = places - len(documents.texts)
    for number, reason in enumerate(documents.reasons):
        events.leave_out(reason, int((reason_numbers == number).sum()))
    rows = rows.copy()
    rows["document"] = places
    remaining: Rows = rows[reason_numbers < 0]
    return remaining


class _Table:
    """Sums by query, document and rank, of both parts."""

    def __init__(self, n_queries: int, n_documents: int) -> None:
        self.sizes = (max(n_queries, 1), max(n_documents, 1), MAX_RANK + 1)
        self.keys = np.zeros(0, np.int64)
        self.sums = np.zeros((2 * len(_NAMES), 0))
        self.people = np.zeros(n_queries, np.int64)
        self.events = np.zeros(n_queries, np.int64)
        self.shown = 0
        self.lists = _Lists(self.sizes[1])
        self._pending: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        self._waiting = 0

    def add(self, results: ListResults) -> None:
        """Count the results of some people; all results of a person come in one call."""
        # The results of one person are all in one part.
        held = (results.person >> np.uint64(32)) % np.uint64(FOLDS) == 0
        self.lists.add(results.keep(held))
        held, results = held[~results.again], results.keep(~results.again)
        _, documents, ranks = self.sizes
        self.shown += int((results.events > results.clicked).sum())
        key = (results.query.astype(np.int64) * documents + results.document) * ranks + results.rank
        columns = [
            np.where(part, getattr(results, name), 0) for part in (~held, held) for name in _NAMES
        ]
        self._pending.append(_summed(key, np.array(columns, np.float64)))
        self._waiting += len(self._pending[-1][0])
        self.events += np.bincount(results.query, results.events, len(self.events)).astype(np.int64)
        order = np.lexsort((results.person, results.query))
        query, person = results.query[order], results.person[order]
        self.people += np.bincount(query[changes(query, person)], minlength=len(self.people))
        if self._waiting > _PENDING:
            self.merge()

    def merge(self) -> None:
        """Add up everything that was counted."""
        pending = [(self.keys, self.sums), *self._pending]
        keys, sums = (np.concatenate(parts, axis=-1) for parts in zip(*pending, strict=True))
        self.keys, self.sums = _summed(keys, sums)
        self._pending.clear()
        self._waiting = 0


def _summed(
    keys: NDArray[np.int64], columns: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The keys, each once in ascending order, and the sums of its columns."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(keys):
        return keys, columns
    return keys[starts], np.add.reduceat(columns[:, order], starts, axis=1)


class _Lists:
    """Lists of the people held out; where these are too many, of a sample of the people."""

    def __init__(self, n_documents: int) -> None:
        self._documents = n_documents
        self._parts: list[ListResults] = []
        self._size = 0
        self._below = _ALL

    def add(self, results: ListResults) -> None:
        """Add the lists of some people."""
        self._parts.append(self._sampled(results))
        self._size += len(self._parts[-1].rank)
        # The sample depends on all that was added, not on the order.
        while self._size > _LISTED:
            self._below //= 2
            self._parts = [self._sampled(part) for part in self._parts]
            self._size = sum(len(part.rank) for part in self._parts)

    def of(self, pairs: NDArray[np.int64]) -> ClickLists:
        """The lists; a pair is the place of its encoded query and document among `pairs`."""
        columns = [
            np.concatenate([getattr(part, name) for part in self._parts] or [np.zeros(0, np.int64)])
            for name in ("view", "query", "document", "rank", "clicked")
        ]
        view, query, document, rank, clicked = columns
        coded = query.astype(np.int64) * self._documents + document
        order = np.argsort(pairs)
        place = np.minimum(np.searchsorted(pairs, coded, sorter=order), len(pairs) - 1)
        pair = order[place]
        matches = pairs[pair] == coded
        view, pair, rank, clicked = (column[matches] for column in (view, pair, rank, clicked))
        rows = np.lexsort((pair, rank, view))
        number = np.cumsum(changes(view[rows])) - 1
        return ClickLists(
            number, pair[rows], rank[rows].astype(np.int64), clicked[rows].astype(bool)
        )

    def _sampled(self, results: ListResults) -> ListResults:
        if self._below == _ALL:
            return results
        # Hash the hash again, as its upper half decided who is held out.
        spread = results.person * np.uint64(0x9E3779B97F4A7C15)
        return results.keep(spread < np.uint64(self._below))


def _refuse_empty(events: EventCounts, table: _Table) -> None:
    lost = "; ".join(f"{count:,} {reason}" for reason, count in events.unusable.most_common(4))
    if events.used and not table.shown:
        raise BadInput(
            f"no event says what was shown, only what was clicked ({events.used:,} events): log "
            f"impressions (actions called {', '.join(IMPRESSIONS)}), or the lists that were shown, "
            "as `columns={'shown': COLUMN}`"
        )
    if not events.used:
        raise BadInput(
            f"no event of {events.read:,} can be used: {lost or 'there is none'}; see `columns`, "
            "`actions` and `min_people`"
        )


def _behaviour(
    table: _Table,
    frequent: NDArray[np.bool_],
    coder: EventCoder,
    ids: pa.Array,
    options: EventOptions,
) -> Behaviour:
    """The counts, with queries and documents sorted by their texts."""
    table.merge()
    _, n_documents, ranks = table.sizes
    pair_key, rank = np.divmod(table.keys, ranks)
    query, document = np.divmod(pair_key, n_documents)
    chosen = frequent[query]
    query, document, rank = query[chosen], document[chosen], rank[chosen]
    queries, query, codes = _reordered(pa.array(coder.queries.words, pa.string()), query)
    documents, document, _ = _reordered(ids, document)
    order = np.lexsort((rank, document, query))
    query, document, rank = query[order], document[order], rank[order]
    coded = pair_key[chosen][order]
    new = changes(query, document)
    sums = table.sums[:, chosen][:, order]
    fitted_sums, held_out_sums = sums[: len(_NAMES)], sums[len(_NAMES) :]
    whole = ClickCounts(
        queries=queries,
        documents=documents,
        people=table.people[codes],
        pair_query=query[new],
        pair_document=document[new],
        pair=np.cumsum(new) - 1,
        rank=rank,
        **_columns(fitted_sums + held_out_sums),
    )
    fitted, held_out = (replace(whole, **_columns(part)) for part in (fitted_sums, held_out_sums))
    lists = table.lists.of(coded[new])
    return Behaviour(
        whole, fitted, held_out, lists, event_counts=coder.event_counts, options=options
    )


def _columns(sums: NDArray[np.float64]) -> dict[str, Any]:
    return {
        name: column if name == "value" else column.astype(np.int64)
        for name, column in zip(_NAMES, sums, strict=True)
    }


def _reordered(
    texts: pa.Array, codes: NDArray[np.int64]
) -> tuple[pa.Array, NDArray[np.int64], NDArray[np.int64]]:
    """The used texts, sorted; the codes into them; and the old code of each."""
    used = np.unique(codes)
    words = texts.take(pa.array(used))
    order = pc.sort_indices(words).to_numpy()
    place = np.zeros(len(texts), np.int64)
    place[used[order]] = np.arange(len(used))
    return words.take(pa.array(order)), place[codes], used[order]
