"""Small logs of clicks, and their counts, taken one event after the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from owpc_ltr_clicks.cleaning import EventOptions
from owpc_ltr_clicks.counting import Behaviour, count_events
from owpc_ltr_clicks.encoding import normalised
from owpc_ltr_clicks.log_files import read_events, table_events
from owpc_ltr_clicks.ubi.query_join import EVENT_FIELDS, QUERY_FIELDS, join_queries

from owpc_ltr.engine.ubi import table_of
from tests.simulated_users import simulate


def event(
    session: str, document: str, position: int | None, action: str = "impression", **more: Any
) -> dict[str, Any]:
    """One event of one person, about rambo."""
    return {
        "query": "rambo", "document": document, "position": position, "action": action,
        "session": session, "client": session, **more,
    }  # fmt: skip


def counted(
    events: Sequence[Mapping[str, Any]] | pa.Table,
    columns: Mapping[str, str] | None = None,
    in_memory: int = 1 << 20,
    **options: Any,
) -> Behaviour:
    """What was done; every query counts, however few asked it."""
    table = events if isinstance(events, pa.Table) else pa.Table.from_pylist(list(events))
    event_options = EventOptions(**{"min_people": 1, **options})
    return count_events(table_events(table, columns or {}), event_options, in_memory)


def counted_file(path: Path, columns: Mapping[str, str] | None = None, **options: Any) -> Behaviour:
    """What was done, by a file."""
    return count_events(
        read_events(path, columns or {}), EventOptions(**{"min_people": 1, **options})
    )


def simulated(
    sessions: int = 20_000,
    users: simulate.Users | None = None,
    rankers: Sequence[float] = (0.7, 0.6, 0.5, 0.4),
    seed: int = 0,
    queries: int = 200,
) -> tuple[simulate.World, Behaviour]:
    """A world of queries with 30 documents each, and what users did in it."""
    world = simulate.example_world(queries, users=users, seed=seed)
    events = simulate.clicks(world, users, rankers, sessions, seed=seed)
    return world, counted(events)


def query(number: int, hits: list[str] | None, text: str = "rambo", **more: Any) -> dict[str, Any]:
    return {"query_id": f"q{number}", "client_id": f"c{number}", "user_query": text,
            "query_response_hit_ids": hits, **more}  # fmt: skip


def act(number: int | None, document: str, place: int, action: str = "click", **more: Any) -> Any:
    act_event = {"client_id": f"c{number}", "session_id": f"s{number}", "action_name": action,
             "event_attributes": {"object": {"object_id": document},
                                  "position": {"ordinal": place}}, **more}  # fmt: skip
    return act_event if number is None else {"query_id": f"q{number}", **act_event}


def counts(queries: list[Any], acts: list[Any], **options: Any) -> Behaviour:
    tables = [table_of(queries, QUERY_FIELDS)], [table_of(acts, EVENT_FIELDS)]
    return count_events(join_queries(*tables), EventOptions(**{"min_people": 1, **options}))


Row = dict[str, Any]
Cell = tuple[str, str, int]


def plain_counts(events: list[Row], min_people: int = 1) -> dict[Cell, tuple[int, int, int, int]]:
    """Shown, clicked, reached and last of each query, document and rank."""
    lists: dict[Any, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        if event["action"] in {"impression", "click"}:
            key = (event["client"], event["session"], normalised(event["query"]))
            lists[key][event["document"]].append(event)
    places: dict[tuple[Any, str], list[int]] = {}
    for key, documents in lists.items():
        for document, its in documents.items():
            shown = [e["position"] for e in its if e["action"] == "impression"]
            clicked = any(e["action"] == "click" for e in its)
            places[key, document] = [min(shown or [e["position"] for e in its]), clicked]
    last = {
        key: max((places[key, d][0] for d in documents if places[key, d][1]), default=1000)
        for key, documents in lists.items()
    }
    return _cells(_first_clicks(places), places, last, min_people)


def _first_clicks(places: dict[tuple[Any, str], list[int]]) -> set[tuple[Any, str]]:
    """All results but clicked ones that the same person had clicked at a better rank."""
    best: dict[Any, tuple[int, Any]] = {}
    for (key, document), (rank, clicked) in sorted(places.items(), key=lambda item: item[1][0]):
        if clicked:
            best.setdefault((key[0], key[2], document), (rank, key))
    return {
        (key, document)
        for (key, document), (_, clicked) in places.items()
        if not clicked or best[key[0], key[2], document][1] == key
    }


def _cells(
    kept: set[tuple[Any, str]],
    places: dict[tuple[Any, str], list[int]],
    last: dict[Any, int],
    min_people: int,
) -> dict[Cell, tuple[int, int, int, int]]:
    people: dict[str, set[str]] = defaultdict(set)
    cells: dict[Cell, Counter[str]] = defaultdict(Counter)
    for key, document in kept:
        rank, clicked = places[key, document]
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
