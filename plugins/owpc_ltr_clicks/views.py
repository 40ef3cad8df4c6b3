"""Lists that were seen: a person's rows become results, each shown once and clicked once or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr_clicks.account import Account
from owpc_ltr_clicks.events import LISTED, NO_POSITION, Rows
from owpc_ltr_clicks.options import EventOptions

_FAR = np.int32(2**31 - 1)
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Results:
    """Results of lists: whose, of which query, at which rank, clicked or not, and what it is worth.

    `reached`: at the last click of the list or above it, or in a list without any. `events` is
    how many made it. `again`: the same person had clicked on it before, so that it does not count;
    what is said of the list as a whole has it.
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

    def keep(self, kept: Flags) -> Results:
        """Some of them."""
        return Results(**{name: values[kept] for name, values in vars(self).items()})


def results_of(
    rows: Rows, options: EventOptions, account: Account, first: int, *, every_event: bool = False
) -> Results:
    """The results of all rows of some people; what is left out is put into the account.

    `every_event` counts by itself, whatever list and person it is of.
    """
    rows = _people(rows, options, account)
    rows, rank = _ranked(rows, options, account, first)
    if every_event:
        return _as_they_are(rows, rank, account)
    found = _one_a_list(rows, rank, account)
    if not options.keep_repeats:
        found = _one_a_person(found, account)
    account.implied += int((found.clicked & ~found.shown & ~found.again).sum())
    # What was clicked was there.
    return replace(found, shown=found.shown | found.clicked)


def _people(rows: Rows, options: EventOptions, account: Account) -> Rows:
    """The rows without those of bots."""
    if options.max_clicks:
        sessions, of_row = np.unique(rows["session"], return_inverse=True)
        clicks = np.bincount(of_row, rows["value"] > 0, len(sessions))
        rows = _without(
            rows, clicks[of_row] > options.max_clicks, account,
            f"a session of more than {options.max_clicks} clicks",
        )  # fmt: skip
    if options.max_sessions:
        _, where = np.unique(rows["session"], return_index=True)
        people, of_session = np.unique(rows["person"][where], return_inverse=True)
        many = people[np.bincount(of_session, minlength=len(people)) > options.max_sessions]
        rows = _without(
            rows, np.isin(rows["person"], many), account,
            f"a client of more than {options.max_sessions} sessions",
        )  # fmt: skip
    return rows


def _ranked(
    rows: Rows, options: EventOptions, account: Account, first: int
) -> tuple[Rows, NDArray[np.int32]]:
    """The rows whose rank, if it is known, counts; and the ranks, or NO_POSITION."""
    position = rows["position"]
    rank = np.where(position > LISTED, position - LISTED, position + np.int32(1 - first))
    rank = np.where(position == NO_POSITION, NO_POSITION, rank).astype(np.int32)
    known = rank != NO_POSITION
    above, below = known & (rank < 1), known & (rank > options.depth)
    account.leave_out("a position before the first", int(above.sum()))
    account.leave_out(f"below rank {options.depth}", int(below.sum()))
    keep = ~(above | below)
    return rows[keep], rank[keep]


def _one_a_list(rows: Rows, rank: NDArray[np.int32], account: Account) -> Results:
    """Each document of a list once: shown at its first place, clicked if it ever was."""
    order = np.lexsort((rows["document"], rows["view"]))
    rows, rank = rows[order], rank[order]
    view, document = rows["view"], rows["document"]
    starts = _starts(view, document)
    clicks = rows["value"] > 0
    known = np.where(rank == NO_POSITION, _FAR, rank)
    shown_at = _reduced(np.minimum, np.where(clicks, _FAR, known), starts)
    clicked_at = _reduced(np.minimum, np.where(clicks, known, _FAR), starts)
    shown = _reduced(np.logical_or, ~clicks, starts)
    clicked = _reduced(np.logical_or, clicks, starts)
    place = np.where(shown_at < _FAR, shown_at, clicked_at)
    size = np.diff(starts, append=len(rows))
    account.leave_out("repeated", int((size - shown - clicked).sum()))
    list_starts = np.flatnonzero(_changes(view[starts]))
    lengths = np.diff(list_starts, append=len(starts))
    lowest = _reduced(np.maximum, np.where(clicked & (place < _FAR), place, 0), list_starts)
    # Who clicked on nothing found nothing, down to the end.
    last = np.repeat(np.where(lowest == 0, _FAR, lowest), lengths)
    found = Results(
        person=rows["person"][starts], view=view[starts], query=rows["query"][starts],
        document=document[starts], rank=place, shown=shown, clicked=clicked, reached=place <= last,
        last=clicked & (place == last), value=_reduced(np.maximum, rows["value"], starts),
        events=shown.astype(np.int64) + clicked, again=np.zeros(len(starts), bool),
    )  # fmt: skip
    lost = place == _FAR
    account.leave_out("no position", int(found.events[lost].sum()))
    return found.keep(~lost)


def _one_a_person(found: Results, account: Account) -> Results:
    """One click of a person on a result of a query: of several lists, that of the best rank."""
    clicked = np.flatnonzero(found.clicked)
    # Down to what is counted, so that it does not matter which came first in the log.
    ties = (found.value, found.last, found.reached, found.events)
    keys = (*ties, found.rank, found.document, found.query, found.person)
    order = clicked[np.lexsort(tuple(key[clicked] for key in keys))]
    repeated = ~_changes(found.person[order], found.query[order], found.document[order])
    again = np.zeros(len(found.rank), bool)
    again[order[repeated]] = True
    account.leave_out("clicked before by the same person", int(found.events[again].sum()))
    return replace(found, again=again)


def _as_they_are(rows: Rows, rank: NDArray[np.int32], account: Account) -> Results:
    """Every event by itself."""
    lost = rank == NO_POSITION
    account.leave_out("no position", int(lost.sum()))
    rows, rank = rows[~lost], rank[~lost]
    clicked = rows["value"] > 0
    nothing = np.zeros(len(rows), bool)
    return Results(
        rows["person"], rows["view"], rows["query"], rows["document"], rank, ~clicked, clicked,
        nothing, nothing, rows["value"], np.ones(len(rows), np.int64), nothing,
    )  # fmt: skip


def _without(rows: Rows, bad: Flags, account: Account, reason: str) -> Rows:
    account.leave_out(reason, int(bad.sum()))
    return rows[~bad] if bad.any() else rows


def _changes(*columns: NDArray[Any]) -> Flags:
    """Where any column differs from the entry before; the first one does."""
    changed = np.ones(len(columns[0]), bool)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _starts(*columns: NDArray[Any]) -> NDArray[np.int64]:
    return np.flatnonzero(_changes(*columns))


def _reduced(function: Any, values: NDArray[Any], starts: NDArray[np.int64]) -> Any:
    return function.reduceat(values, starts) if len(values) else values
