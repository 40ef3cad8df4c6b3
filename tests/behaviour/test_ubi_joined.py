"""Events of User Behavior Insights find their queries by id, whatever else is wrong with them."""

from __future__ import annotations

from typing import Any

from owpc_ltr_clicks import simulation as simulate

from tests.behaviour.logs import act, counted, counts, query
from tests.behaviour.plain_counts import cells_of


def test_clicks_have_the_query_and_the_place_of_the_list_that_was_shown() -> None:
    found = counts([query(1, ["a", "b"]), query(2, ["b", "a"])], [act(1, "b", 9), act(2, "b", 9)])
    assert cells_of(found) == {
        ("rambo", "a", 1): (1, 0, 1, 0), ("rambo", "b", 2): (1, 1, 1, 1),
        ("rambo", "b", 1): (1, 1, 1, 1), ("rambo", "a", 2): (1, 0, 0, 0),
    }  # fmt: skip


def test_impressions_may_be_events_and_the_query_in_them() -> None:
    acts = [act(7, d, place, "impression", user_query="Rocky") for place, d in enumerate("abc")]
    found = counts([query(7, None), query(8, [])], [*acts, act(7, "b", 1)])
    assert cells_of(found)["rambo", "b", 2] == (1, 1, 1, 1)
    alone = counts([], acts)
    assert set(cells_of(alone)) == {("rocky", "a", 1), ("rocky", "b", 2), ("rocky", "c", 3)}


def test_an_event_without_a_query_or_of_an_unknown_one_is_accounted_for() -> None:
    found = counts([query(1, ["a"])], [act(None, "a", 1), act(9, "a", 1), act(1, "a", 1)])
    assert found.event_counts.unusable == {"no query id": 1, "a query id that no query has": 1}
    assert found.event_counts.read == found.event_counts.used + 2 == 4


def test_what_is_logged_twice_counts_once_whatever_the_clock_says() -> None:
    late = {"timestamp": "2031-01-01T00:00:00Z"}
    found = counts([query(1, ["a"]), query(1, ["a"], **late)], [act(1, "a", 1), act(1, "a", 1)])
    assert cells_of(found) == {("rambo", "a", 1): (1, 1, 1, 1)}
    assert found.event_counts.unusable == {"repeated": 2}


def test_a_robot_that_floods_the_log_is_left_out() -> None:
    flood = [query(n, ["spam"], client_id="robot") for n in range(100, 160)]
    clicks = [act(n, "spam", 1, client_id="robot") for n in range(100, 160)]
    found = counts([query(1, ["a"]), *flood], [act(1, "a", 1), *clicks], max_sessions_per_client=50)
    assert cells_of(found) == {("rambo", "a", 1): (1, 1, 1, 1)}
    assert found.event_counts.unusable == {"a client of more than 50 sessions": 120}


def test_clicks_of_a_session_count_together_over_all_its_searches() -> None:
    people = [query(n, ["a", "b"]) for n in range(5)]
    searches = [query(n, ["spam"], client_id="bot") for n in range(100, 160)]
    clicks = [act(n, "spam", 1, session_id="one", client_id="bot") for n in range(100, 160)]
    honest = [act(n, "a", 1) for n in range(5)]
    found = counts([*people, *searches], [*honest, *clicks])
    assert cells_of(found) == {("rambo", "a", 1): (5, 5, 5, 5), ("rambo", "b", 2): (5, 0, 0, 0)}
    assert found.event_counts.unusable == {"a session of more than 50 clicks": 120}
    kept = counts([*people, *searches], [*honest, *clicks], max_clicks_per_session=60)
    assert kept.counts.documents.to_pylist() == ["a", "b", "spam"]


def test_a_session_without_an_id_is_its_client_s_or_its_search_s() -> None:
    def clicks(**more: Any) -> list[Any]:
        return [act(n, "spam", 1, session_id=None, **more) for n in range(100, 160)]

    searches = [query(n, ["spam"], client_id="bot") for n in range(100, 160)]
    alone = [query(n, ["spam"], client_id=None) for n in range(100, 160)]
    honest = [query(1, ["a"])], [act(1, "a", 1)]
    found = counts([*honest[0], *searches], [*honest[1], *clicks(client_id="bot")])
    assert found.event_counts.unusable == {"a session of more than 50 clicks": 120}
    found = counts([*honest[0], *alone], [*honest[1], *clicks(client_id=None)])
    assert not found.event_counts.unusable


def test_a_list_is_of_the_client_that_its_events_name() -> None:
    found = counts([query(1, ["a", "b"], client_id=None)], [act(1, "b", 9)])
    assert cells_of(found) == {("rambo", "a", 1): (1, 0, 1, 0), ("rambo", "b", 2): (1, 1, 1, 1)}
    assert found.event_counts.implied == 0


def test_bots_are_dropped_as_in_a_file_of_the_same_events() -> None:
    world = simulate.example_world(20, 12)
    rows = simulate.clicks(world, sessions=600).to_pylist()
    n_bots, searches = 10, 8
    for bot in range(n_bots):
        for number in range(searches):
            documents = world.documents[number * 12 : number * 12 + 10]
            about = {"client": f"bot{bot}", "session": f"bot{bot}-{number}",
                     "query": world.queries[number]}  # fmt: skip
            rows += [{**about, "document": name, "position": place, "action": action}
                     for action in ("impression", "click")
                     for place, name in enumerate(documents, 1)]  # fmt: skip
    for row in rows:
        row["search"], row["client"] = f"{row['session']}", f"{row['client']}"
        # A bot goes through all its searches in one session.
        row["session"] = row["client"] if row["client"].startswith("bot") else row["search"]
        row.pop("time", None)
    queries: dict[str, Any] = {}
    for row in rows:
        asked = {"query_id": row["search"], "client_id": row["client"], "user_query": row["query"],
                 "query_response_hit_ids": []}  # fmt: skip
        hits = queries.setdefault(row["search"], asked)["query_response_hit_ids"]
        hits += [row["document"]] if row["action"] == "impression" else []
    acts = [
        act(None, row["document"], row["position"], query_id=row["search"],
            session_id=row["session"], client_id=row["client"])
        for row in rows if row["action"] == "click"
    ]  # fmt: skip
    found, of_file = counts(list(queries.values()), acts), counted(rows)
    assert cells_of(found) == cells_of(of_file)
    bots = {"a session of more than 50 clicks": 20 * n_bots * searches}
    assert bots.items() <= found.event_counts.unusable.items()
    fooled = counts(list(queries.values()), acts, max_clicks_per_session=0).counts
    rates = [
        (each.by_rank(each.clicked) / each.by_rank(each.shown))[9]
        for each in (of_file.counts, found.counts, fooled)
    ]
    assert rates[0] == rates[1] < rates[2] / 1.5
