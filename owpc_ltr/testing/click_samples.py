"""Simulated clicks, whose truth is known, on which click models are checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists

_QUERIES, _DOCUMENTS, _SHOWN = 60, 10, 6
_LISTS = 8
"""Different orders in which a query's documents are shown."""
_GRADES = (0.5, 0.2, 0.15, 0.1, 0.05)
"""The shares of the grades 0 to 4, by whose gain 2^grade − 1 documents attract clicks."""


@dataclass(frozen=True, eq=False)
class ClickSample:
    """Counts of simulated clicks, and the true attractiveness of each of their pairs."""

    counts: ClickCounts
    truth: Vector


def sample_clicks(sessions: int, seed: int = 0) -> ClickSample:
    """Clicks of users who examine rank r with probability r^−½, on lists in random orders."""
    rng = np.random.default_rng(seed)
    gains = np.exp2(rng.choice(len(_GRADES), (_QUERIES, _DOCUMENTS), p=_GRADES)) - 1
    attraction = 0.05 + 0.75 * gains / (2 ** (len(_GRADES) - 1) - 1)
    orders = rng.permuted(np.tile(np.arange(_DOCUMENTS), (_LISTS, _QUERIES, 1)), axis=2)
    query = rng.integers(0, _QUERIES, sessions)
    shown = orders[rng.integers(0, _LISTS, sessions), query, :_SHOWN]
    examined = rng.random(shown.shape) < np.arange(1.0, _SHOWN + 1) ** -0.5
    clicked = examined & (rng.random(shown.shape) < attraction[query[:, None], shown])
    counts = _counts(query, shown, clicked)
    return ClickSample(counts, attraction[counts.pair_query, counts.pair_document % _DOCUMENTS])


def _counts(
    query: NDArray[np.int64], shown: NDArray[np.int64], clicked: NDArray[np.bool_]
) -> ClickCounts:
    """The counts of lists, a row each: its query, the documents by rank, which were clicked."""
    place = np.arange(_SHOWN)
    last = np.where(clicked, place, -1).max(axis=1, keepdims=True)
    document = query[:, None] * _DOCUMENTS + shown
    cells, row = np.unique(document * _SHOWN + place, return_inverse=True)
    columns = {
        "shown": np.ones_like(clicked),
        "clicked": clicked,
        "reached": (place <= last) | (last < 0),
        "last": clicked & (place == last),
    }
    summed = {
        name: np.bincount(row.ravel(), values.ravel(), len(cells)).astype(np.int64)
        for name, values in columns.items()
    }
    pairs, pair = np.unique(cells // _SHOWN, return_inverse=True)
    return ClickCounts(
        queries=pa.array([f"query {number:02d}" for number in range(_QUERIES)]),
        documents=pa.array([f"d{number:03d}" for number in range(_QUERIES * _DOCUMENTS)]),
        people=np.bincount(query, minlength=_QUERIES), pair_query=pairs // _DOCUMENTS,
        pair_document=pairs, pair=pair, rank=cells % _SHOWN + 1,
        value=summed["clicked"].astype(np.float64), **summed,
    )  # fmt: skip


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
