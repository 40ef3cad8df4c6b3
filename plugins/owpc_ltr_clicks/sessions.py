"""The rows of each person, and the result lists that were shown to that person."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.files.output import disk_faults
from owpc_ltr_clicks.cleaning import MAX_RANK, EventOptions
from owpc_ltr_clicks.events import LISTED, NO_POSITION, ROW, EventCounts, Rows

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
        person=rows["person"][starts], view=view[starts], query=rows["query"][starts],
        document=document[starts], rank=place, shown=shown, clicked=clicked, reached=place <= last,
        last=clicked & (place == last), value=_reduced(np.maximum, rows["value"], starts),
        events=shown.astype(np.int64) + clicked, again=np.zeros(len(starts), bool),
    )  # fmt: skip
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


def _reduced(function: Any, values: NDArray[Any], starts: NDArray[np.int64]) -> Any:
    return function.reduceat(values, starts) if len(values) else values
