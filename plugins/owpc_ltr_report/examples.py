"""Examples: single queries whose documents moved, and why they stand where they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset

FIRST = 4
"""Documents that are listed of a query from the top, of either ranking."""
_LOST = 2
TERMS = 3
Contribute = Callable[[Matrix], Vector]
"""What each feature adds to the score of each document of a list (n_documents, n_features)."""


@dataclass(frozen=True)
class Moved:
    """A document: its rank now and before, its grade, and what speaks for it or against it.

    Ranks count from 1; None where a run did not retrieve the document. `why` has names and amounts,
    by which the score differs from the mean of the list, the largest first.
    """

    document: str
    title: str
    rank: int | None
    before: int | None
    grade: float | None
    why: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Example:
    """A query, its value by a metric before and after (None where not measured), its documents."""

    query: str
    metric: str
    before: float | None
    after: float | None
    documents: int
    moved: tuple[Moved, ...]


def extremes(gains: Vector, count: int) -> tuple[list[int], list[int]]:
    """The queries with the largest losses, and those with the largest gains; none without any."""
    known = np.nan_to_num(gains, nan=0.0)
    order = np.argsort(known, kind="stable")
    losses = [int(place) for place in order[:count] if known[place] < 0]
    best = [int(place) for place in order[::-1][:count] if known[place] > 0]
    return losses, best


def moved_documents(
    data: RankingDataset,
    query: int,
    scores: tuple[Vector, Vector],
    contribute: Contribute | None = None,
) -> tuple[Moved, ...]:
    """The documents of a query worth showing, by all scores before and after.

    They are the first ones now, and of those that fell from the first places the most relevant.
    Scores are NaN where a run did not retrieve the document.
    """
    start, end = int(data.offsets[query]), int(data.offsets[query + 1])
    before, after = (_ranks(one[start:end]) for one in scores)
    grades = data.labels[start:end]
    there = [~np.isnan(one[start:end]) for one in scores]
    now = np.flatnonzero((after <= FIRST) & there[1])
    lost = np.flatnonzero((before <= FIRST) & there[0] & ((after > FIRST) | ~there[1]))
    lost = lost[np.lexsort((before[lost], -grades[lost]))][:_LOST]
    shown = np.concatenate([now, lost])
    shown = shown[np.argsort(after[shown])]
    why = _reasons(data, data.features[start:end], contribute)
    return tuple(
        Moved(
            _document(data, start, place),
            _title(data, start + place),
            int(after[place]) if there[1][place] else None,
            int(before[place]) if there[0][place] else None,
            float(grades[place]),
            why(place),
        )
        for place in shown.tolist()
    )


def _reasons(
    data: RankingDataset, features: Matrix, contribute: Contribute | None
) -> Callable[[int], tuple[tuple[str, float], ...]]:
    """Of a document the terms in which its score is furthest from the mean of the list."""
    if contribute is None:
        return lambda _: ()
    amounts = contribute(features)
    apart = amounts - amounts.mean(axis=0)

    def of(place: int) -> tuple[tuple[str, float], ...]:
        order = np.argsort(-np.abs(apart[place]), kind="stable")[:TERMS]
        return tuple(
            (data.feature_names[column], float(apart[place, column]))
            for column in order.tolist()
            if apart[place, column] != 0
        )

    return of


def _ranks(scores: Vector) -> NDArray[np.int64]:
    """The rank of each document, from 1; of equal scores the one that stands first is higher."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


def _document(data: RankingDataset, start: int, place: int) -> str:
    if data.document_ids is None:
        return f"document {place + 1}"
    return str(data.document_ids[start + place].as_py())


def _title(data: RankingDataset, row: int) -> str:
    titles = (data.document_fields or {}).get("title")
    return "" if titles is None else str(titles[row].as_py() or "")
