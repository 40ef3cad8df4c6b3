"""Small logs of behaviour, and their counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from owpc_ltr_clicks import simulation as simulate
from owpc_ltr_clicks.cleaning import EventOptions
from owpc_ltr_clicks.counting import Behaviour, count_events
from owpc_ltr_clicks.log_files import read_events, table_events
from owpc_ltr_clicks.ubi.query_join import EVENT_FIELDS, QUERY_FIELDS, join_queries, table_of


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
    told = EventOptions(**{"min_people": 1, **options})
    return count_events(table_events(table, columns or {}), told, in_memory)


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
    found = {"client_id": f"c{number}", "session_id": f"s{number}", "action_name": action,
             "event_attributes": {"object": {"object_id": document},
                                  "position": {"ordinal": place}}, **more}  # fmt: skip
    return found if number is None else {"query_id": f"q{number}", **found}


def counts(queries: list[Any], acts: list[Any], **options: Any) -> Behaviour:
    tables = [table_of(queries, QUERY_FIELDS)], [table_of(acts, EVENT_FIELDS)]
    return count_events(join_queries(*tables), EventOptions(**{"min_people": 1, **options}))
