"""Simulated clicks, whose truth is known, on which click models are checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from owpc_ltr_clicks import simulation as simulate
from owpc_ltr_clicks.counting import count_events
from owpc_ltr_clicks.options import EventOptions
from owpc_ltr_clicks.reading import table_events

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists

_QUERIES, _DOCUMENTS, _SHOWN = 60, 10, 6


@dataclass(frozen=True, eq=False)
class ClickSample:
    """Events, their counts, and how attractive each pair of these really is."""

    events: pa.Table
    counts: ClickCounts
    truth: Vector


def sample_clicks(sessions: int, seed: int = 0) -> ClickSample:
    """What users do who look by position, in front of lists in random orders."""
    users = simulate.Users(steepness=0.5)
    world = simulate.example_world(_QUERIES, _DOCUMENTS, users, seed)
    events = simulate.clicks(world, users, (0.0,) * 8, sessions, shown=_SHOWN, seed=seed)
    counts = count(events)
    row = {name: number for number, name in enumerate(world.documents)}
    rows = np.array([row[name] for name in counts.documents.to_pylist()])
    return ClickSample(events, counts, world.attraction[rows[counts.pair_document]])


def count(events: pa.Table) -> ClickCounts:
    """The counts of events, however few people asked a query."""
    return count_events(table_events(events, {}), EventOptions(min_people=1)).counts


def click_patterns(size: int) -> ClickLists:
    """The first pairs, which are of one query, as a list: once with every pattern of clicks."""
    number = np.arange(2**size)
    clicked = (number[:, None] >> np.arange(size)) & 1
    place = np.tile(np.arange(size), len(number))
    return ClickLists(np.repeat(number, size), place, place + 1, clicked.ravel().astype(bool))


def with_unseen(counts: ClickCounts) -> ClickCounts:
    """The same with one pair more, the last one, which was never shown."""
    documents = pa.array([*counts.documents.to_pylist(), "~unseen"])
    return replace(
        counts,
        documents=documents,
        pair_query=np.append(counts.pair_query, counts.pair_query[-1]),
        pair_document=np.append(counts.pair_document, len(documents) - 1),
        pair=np.append(counts.pair, counts.n_pairs),
        rank=np.append(counts.rank, 1),
        **{
            name: np.append(getattr(counts, name), 0)
            for name in ("shown", "clicked", "reached", "last", "value")
        },
    )


def without_clicks(counts: ClickCounts) -> ClickCounts:
    """The same lists, of which nobody clicked on anything."""
    nothing = np.zeros_like(counts.shown)
    return replace(
        counts, clicked=nothing, reached=nothing, last=nothing, value=nothing.astype(np.float64)
    )


def with_click(counts: ClickCounts, row: int) -> ClickCounts:
    """The same where one impression of a row, which was not clicked, was."""
    clicked, reached = counts.clicked.copy(), counts.reached.copy()
    value, last = counts.value.copy(), counts.last.copy()
    clicked[row] += 1
    value[row] += 1.0
    # One that was passed on the way to another click, if there is one; else the last of its list.
    if reached[row] < clicked[row]:
        reached[row] += 1
        last[row] += 1
    return replace(counts, clicked=clicked, reached=reached, last=last, value=value)
