"""Behaviour logs of clusters: whatever is wrong with a document has a name, and is counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from owpc_ltr_clicks.counting import AGAIN, Behaviour
from owpc_ltr_clicks.judge_clicks import count_ubi
from owpc_ltr_clicks.ubi import UbiOptions, snapshot

from owpc_ltr import Cluster, connect
from tests.clicks.counts import act, cells_of, query
from tests.engine.ubi_indices import (
    DYNAMIC,
    PLUGIN,
    check_mappable,
    drop,
    filled,
    refilled,
    ubi_indices,
)

BOTH = pytest.mark.parametrize("mappings", [PLUGIN, DYNAMIC], ids=["plugin", "dynamic"])
START = datetime(2026, 3, 1, tzinfo=UTC)


MAPPED = UbiOptions(ubi_queries="ubi-mapped-queries", ubi_events="ubi-mapped-events")
"""Indices as the plugin maps them, which are made once and filled anew by each reading."""


@pytest.fixture(scope="module")
def cluster(node_url: str) -> Iterator[Cluster]:
    connected = connect(node_url)
    names = MAPPED.ubi_queries, MAPPED.ubi_events
    if connected.engine.about().distribution == "opensearch":
        for index, mapping in zip(names, PLUGIN, strict=True):
            filled(connected.engine, index, [], mapping)
    yield connected
    for index in names:
        drop(connected.engine, index)


def at(second: float, form: str = "iso") -> dict[str, Any]:
    """A time so many seconds after the start, as clients write it."""
    time = START + timedelta(seconds=second)
    return {"timestamp": round(1000 * time.timestamp()) if form == "millis" else time.isoformat()}


def readings(
    cluster: Cluster, queries: list[Any], acts: list[Any], mappings: Any, *options: dict[str, Any]
) -> list[Behaviour]:
    """What is counted of these documents, with each of the options."""

    def counted(ubi: UbiOptions) -> list[Behaviour]:
        return [count_ubi(cluster, ubi, **{"min_people": 1, **each}) for each in options]

    if mappings is PLUGIN:
        check_mappable(cluster.engine)
        refilled(cluster.engine, MAPPED.ubi_queries, queries)
        refilled(cluster.engine, MAPPED.ubi_events, acts)
        return counted(MAPPED)
    # The engine maps fields by the first documents that have them.
    with ubi_indices(cluster.engine, queries, acts, mappings) as ubi:
        return counted(UbiOptions(**ubi._asdict()))


def read(
    cluster: Cluster, queries: list[Any], acts: list[Any], mappings: Any = PLUGIN, **how: Any
) -> Behaviour:
    return readings(cluster, queries, acts, mappings, how)[0]


def accounted(behaviour: Behaviour) -> dict[str, int]:
    """Reasons and their counts; all of the account must add up."""
    account = behaviour.event_counts
    assert account.read == account.used + sum(account.unusable.values())
    assert (
        account.used
        == int((behaviour.counts.shown + behaviour.counts.clicked).sum()) - account.implied
    )
    return dict(account.unusable)


@BOTH
@pytest.mark.parametrize("form", ["iso", "millis"])
def test_times_of_any_form_are_read_and_a_window_is_that_of_the_events(
    cluster: Cluster, mappings: Any, form: str
) -> None:
    # The plugin's own mapping leaves times in ISO 8601 out of the index, in silence.
    if mappings is DYNAMIC and form == "millis":
        pytest.skip("without a mapping, numbers are not dates")
    queries = [query(n, ["a", "b"], **at(100 * n, form)) for n in range(6)]
    acts = [act(n, "b", 2, **at(100 * n + 5, form)) for n in range(6)]
    until = (START + timedelta(seconds=300)).isoformat()
    whole, some = readings(cluster, queries, acts, mappings, {}, {"until": until})
    assert cells_of(whole)["rambo", "b", 2] == (6, 6, 6, 6)
    assert cells_of(some)["rambo", "b", 2] == (3, 3, 3, 3)
    assert accounted(some) == {}


@BOTH
def test_positions_stand_in_objects_or_flat_beside_others(cluster: Cluster, mappings: Any) -> None:
    place = {"ordinal": 2, "x": 10, "y": 700, "page_depth": 3}
    nested = {"object": {"object_id": "b", "internal_id": "77"}, "position": place}
    acts = [
        act(1, "", 1, **at(1), event_attributes=nested),
        act(2, "", 1, **at(2)) | {"event_attributes": {
            "object.object_id": "b", "position.ordinal": 2,
        }},
        act(3, "b", 1, **at(3)) | {"event_attributes": {
            "object": {"object_id": "b"}, "position": {"xy": {"x": 1.5, "y": 2}},
        }},
    ]  # fmt: skip
    lists = [query(n, ["a", "b"], **at(0)) for n in (1, 2, 3)]
    behaviour = read(cluster, lists, acts, mappings)
    # A list says where it stood, also where the event has a place on the screen only.
    assert cells_of(behaviour)["rambo", "b", 2] == (3, 3, 3, 3)
    bare = [query(n, None, **at(0)) for n in (1, 2, 3)]
    shown = [{**each, "action_name": "impression"} for each in acts]
    alone = read(cluster, bare, [*acts, *shown], mappings)
    assert accounted(alone) == {"no position": 2}


def test_ids_that_lead_nowhere_or_to_several_queries_are_named(
    cluster: Cluster,
) -> None:
    queries = [
        query(1, ["a", "b"], **at(0)),
        query(2, ["a", "b"], "rambo", **at(0)), query(2, ["b", "a"], "rocky", **at(9)),
        query(3, ["a", "b"], "Rocky ", **at(0)), query(3, ["a", "b"], "rocky", **at(9)),
    ]  # fmt: skip
    acts = [act(1, "a", 1), act(2, "a", 1), act(3, "b", 2), act(9, "a", 1), act(None, "a", 1)]
    behaviour = read(cluster, queries, [each | at(5) for each in acts])
    assert accounted(behaviour) == {
        "a query id that several queries have": 5,
        "a query id that no query has": 1,
        "no query id": 1,
        AGAIN: 2,
    }
    assert cells_of(behaviour) == {
        ("rambo", "a", 1): (1, 1, 1, 1), ("rambo", "b", 2): (1, 0, 0, 0),
        ("rocky", "a", 1): (1, 0, 1, 0), ("rocky", "b", 2): (1, 1, 1, 1),
    }  # fmt: skip


def test_clocks_that_differ_are_told_and_change_nothing(cluster: Cluster) -> None:
    queries = [query(n, ["a", "b"], **at(1000, "millis")) for n in range(4)]
    right = [act(n, "b", 2, **at(1001, "millis")) for n in range(4)]
    early = [act(n, "b", 2, **at(1001 if n else 400, "millis")) for n in range(4)]
    behaviour, other = (read(cluster, queries, acts) for acts in (right, early))
    assert cells_of(behaviour) == cells_of(other)
    assert (behaviour.event_counts.early, other.event_counts.early) == (0, 1)


@BOTH
def test_what_is_stamped_in_the_future_is_told(cluster: Cluster, mappings: Any) -> None:
    queries = [query(n, ["a", "b"], **at(0)) for n in range(4)]
    late: dict[str, Any] = {
        "timestamp": round(1000 * (datetime.now(UTC) + timedelta(days=9)).timestamp())
    }
    if mappings is DYNAMIC:
        late = {"timestamp": (datetime.now(UTC) + timedelta(days=9)).isoformat()}
    text = {"timestamp": "2199-01-01T00:00:00Z"}
    acts = [act(n, "b", 2, **(at(1), at(1), text, late)[n]) for n in range(4)]
    behaviour = read(cluster, queries, acts, mappings)
    assert accounted(behaviour) == {"a time in the future": 2}
    assert cells_of(behaviour)["rambo", "b", 2] == (4, 2, 4, 2)


def test_events_of_the_second_in_which_the_reading_begins_are_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Clock:
            return cls.fromtimestamp((START + timedelta(seconds=2.9)).timestamp(), tz)

    monkeypatch.setattr(snapshot, "datetime", Clock)
    queries = [query(n, ["a", "b"], **at(0)) for n in range(4)]
    acts = [act(n, "b", 2, **at((1, 2, 2.8, 3)[n], "millis")) for n in range(4)]
    behaviour = read(cluster, queries, acts)
    assert cells_of(behaviour)["rambo", "b", 2] == (4, 3, 4, 3)


def test_what_has_no_time_counts_unless_a_time_is_asked_for(
    cluster: Cluster,
) -> None:
    queries = [query(n, ["a", "b"], **at(0)) for n in range(4)]
    acts = [act(n, "b", 2, **({"timestamp": "soon"} if n == 3 else at(1))) for n in range(4)]
    whole, some = readings(cluster, queries, acts, PLUGIN, {}, {"since": "2026-01-01"})
    assert (accounted(whole), whole.event_counts.read) == ({}, 12)
    assert accounted(some) == {"no time that can be read": 1}
    assert cells_of(some)["rambo", "b", 2] == (4, 3, 4, 3)


def test_the_same_event_twice_and_a_flood_of_one_bot_move_no_grade(
    cluster: Cluster,
) -> None:
    queries = [query(n, ["a", "b"], **at(n)) for n in range(20)]
    acts = [act(n, "b", 2, **at(n)) for n in range(20)]
    wanted = cells_of(read(cluster, queries, acts))
    bot, session = {"client_id": "bot"}, {"session_id": "of the bot"}
    asked = [query(n, ["a"], **bot, **at(n)) for n in range(100, 170)]
    clicks = [act(n, "a", 1, **at(n)) | bot for n in range(100, 170)]
    flood = [act(99, f"d{n}", n + 1, **at(n)) | bot | session for n in range(60)]
    asked.append(query(99, None, **bot, **at(0)))
    behaviour = read(
        cluster,
        [*queries, *asked],
        [*acts, *acts[:5], *clicks, *flood],
        max_sessions_per_client=50,
    )
    assert cells_of(behaviour) == wanted
    assert accounted(behaviour) == {
        "a client of more than 50 sessions": 140,
        "a session of more than 50 clicks": 60,
        AGAIN: 5,
    }
    # In one session its clicks count together, however many searches they are of.
    together = [click | session for click in clicks]
    behaviour = read(cluster, [*queries, *asked], [*acts, *together])
    assert cells_of(behaviour) == wanted
    assert accounted(behaviour) == {"a session of more than 50 clicks": 140}
    # Without a limit for clients, the bot makes a document that nobody wants the better one.
    fooled = read(cluster, [*queries, *asked], [*acts, *clicks], max_sessions_per_client=0)
    assert cells_of(fooled) != wanted
    assert json.dumps(behaviour.event_counts.as_dict())
