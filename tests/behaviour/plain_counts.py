"""Counting written out, one event after the other, as what counts whole columns must count."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.encoding import normalised

Row = dict[str, Any]
Cell = tuple[str, str, int]


def plain_counts(events: list[Row], min_people: int = 1) -> dict[Cell, tuple[int, int, int, int]]:
    """Shown, clicked, reached and last of each query, document and rank."""
    lists: dict[Any, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        if event["action"] in {"impression", "click"}:
            key = (event["client"], event["session"], normalised(event["query"]))
            lists[key][event["document"]].append(event)
    found: dict[tuple[Any, str], list[int]] = {}
    for key, documents in lists.items():
        for document, its in documents.items():
            shown = [e["position"] for e in its if e["action"] == "impression"]
            clicked = any(e["action"] == "click" for e in its)
            found[key, document] = [min(shown or [e["position"] for e in its]), clicked]
    last = {
        key: max((found[key, d][0] for d in documents if found[key, d][1]), default=1000)
        for key, documents in lists.items()
    }
    return _cells(_first_clicks(found), found, last, min_people)


def _first_clicks(found: dict[tuple[Any, str], list[int]]) -> set[tuple[Any, str]]:
    """All results but clicked ones that the same person had clicked at a better rank."""
    best: dict[Any, tuple[int, Any]] = {}
    for (key, document), (rank, clicked) in sorted(found.items(), key=lambda one: one[1][0]):
        if clicked:
            best.setdefault((key[0], key[2], document), (rank, key))
    return {
        (key, document)
        for (key, document), (_, clicked) in found.items()
        if not clicked or best[key[0], key[2], document][1] == key
    }


def _cells(
    kept: set[tuple[Any, str]],
    found: dict[tuple[Any, str], list[int]],
    last: dict[Any, int],
    min_people: int,
) -> dict[Cell, tuple[int, int, int, int]]:
    people: dict[str, set[str]] = defaultdict(set)
    cells: dict[Cell, Counter[str]] = defaultdict(Counter)
    for key, document in kept:
        rank, clicked = found[key, document]
        people[key[2]].add(key[0])
        cells[key[2], document, rank].update(
            shown=1, clicked=int(clicked), reached=int(rank <= last[key]),
            last=int(clicked and rank == last[key]),
        )  # fmt: skip
    return {
        cell: (c["shown"], c["clicked"], c["reached"], c["last"])
        for cell, c in cells.items()
        if len(people[cell[0]]) >= min_people
    }


def cells_of(behaviour: Behaviour) -> dict[Cell, tuple[int, int, int, int]]:
    """The same of what was counted."""
    counts = behaviour.counts
    queries, documents = counts.queries.to_pylist(), counts.documents.to_pylist()
    return {
        (
            queries[counts.pair_query[pair]],
            documents[counts.pair_document[pair]],
            int(counts.rank[row]),
        ): (
            int(counts.shown[row]), int(counts.clicked[row]),
            int(counts.reached[row]), int(counts.last[row]),
        )
        for row, pair in enumerate(counts.pair)
    }  # fmt: skip
