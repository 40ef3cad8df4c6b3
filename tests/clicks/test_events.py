"""Events are counted as one by one; every event is used, or left out for a reason."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_clicks.cleaning import EventOptions, parse_actions
from owpc_ltr_clicks.counting import AGAIN
from owpc_ltr_clicks.encoding import normalised

from owpc_ltr import OwpcLtrError
from owpc_ltr.errors import BadInput, UsageError
from tests.clicks.counts import (
    act,
    cells_of,
    counted,
    counted_file,
    counts,
    event,
    plain_counts,
    query,
)
from tests.simulated_users import simulate

EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "query": st.sampled_from(["rambo", "Rambo ", "rocky"]),
            "document": st.sampled_from(["a", "b", "c", "d"]),
            "position": st.integers(1, 5),
            "action": st.sampled_from(["impression", "impression", "click", "scroll"]),
            "session": st.sampled_from(["s1", "s2"]),
            "client": st.sampled_from(["u", "v", "w"]),
        }
    ),
    max_size=40,
)
SIMULATED = simulate.clicks(simulate.example_world(20, 12), sessions=400)


@given(EVENTS, st.integers(1, 3))
def test_counts_are_those_of_one_event_after_the_other(
    events: list[dict[str, Any]], people: int
) -> None:
    wanted = plain_counts(events, people)
    if not wanted or not any(e["action"] == "impression" for e in events):
        return
    behaviour = counted(events, min_people=people)
    assert cells_of(behaviour) == wanted
    account = behaviour.event_counts
    assert account.read == len(events)
    assert account.used + sum(account.unusable.values()) == account.read
    assert account.unusable["another action"] == sum(e["action"] == "scroll" for e in events)


@given(EVENTS, st.randoms(use_true_random=False))
def test_the_order_of_the_events_changes_nothing(events: list[dict[str, Any]], random: Any) -> None:
    shuffled = random.sample(events, len(events))
    try:
        behaviour = counted(events)
    except BadInput:
        return
    other = counted(shuffled)
    assert behaviour.counts.queries.equals(other.counts.queries)
    for name in ("pair_query", "pair_document", "pair", "rank", "shown", "clicked", "value"):
        assert np.array_equal(getattr(behaviour.counts, name), getattr(other.counts, name))
        assert np.array_equal(getattr(behaviour.held_out, name), getattr(other.held_out, name))
    assert behaviour.event_counts.as_dict() == other.event_counts.as_dict()


def test_what_is_held_out_and_the_rest_are_all() -> None:
    behaviour = counted(SIMULATED)
    for name in ("shown", "clicked", "reached", "last", "value"):
        parts = getattr(behaviour.fitted, name) + getattr(behaviour.held_out, name)
        assert np.array_equal(parts, getattr(behaviour.counts, name))
    share = behaviour.held_out.shown.sum() / behaviour.counts.shown.sum()
    assert 0.1 < share < 0.3


def test_rows_on_disk_are_counted_as_those_in_memory() -> None:
    assert cells_of(counted(SIMULATED, in_memory=100)) == cells_of(counted(SIMULATED))


def _written(path: Path, kind: str) -> Path:
    if kind in {"parquet", "arrow"}:
        write = pq.write_table if kind == "parquet" else pyarrow.feather.write_feather
        write(SIMULATED, path)
        return path
    if kind == "jsonl":
        rows = SIMULATED.drop_columns(["time"]).to_pylist()
        content = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    else:
        out = pa.BufferOutputStream()
        options = pyarrow.csv.WriteOptions(delimiter="\t" if "tsv" in kind else ",")
        pyarrow.csv.write_csv(SIMULATED, out, options)
        content = bytes(out.getvalue())
    if kind.endswith("gz"):
        content = gzip.compress(content)
    path.write_bytes(lzma.compress(content) if kind.endswith("xz") else content)
    return path


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "tsv", "csv.gz", "tsv.xz", "jsonl"])
def test_every_format_says_the_same(tmp_path: Path, kind: str) -> None:
    behaviour = counted_file(_written(tmp_path / "events", kind))
    assert cells_of(behaviour) == cells_of(counted(SIMULATED))


def test_columns_are_named_and_lead_into_objects(tmp_path: Path) -> None:
    rows = [
        {"q": "x", "s": person, "did": {"what": "click" if place == 2 else "view", "at": place},
         "sku": f"d{place}"}
        for person in "abc" for place in (1, 2, 3)
    ]  # fmt: skip
    path = tmp_path / "events.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    columns = {"query": "q", "session": "s", "action": "did.what", "position": "did.at",
               "document": "sku"}  # fmt: skip
    cells = cells_of(counted_file(path, columns))
    assert cells == {("x", "d1", 1): (3, 0, 3, 0), ("x", "d2", 2): (3, 3, 3, 3),
                     ("x", "d3", 3): (3, 0, 0, 0)}  # fmt: skip


def test_values_of_two_types_are_texts_and_roles_may_come_late(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    shown = {"query": "rambo", "session": "s", "shown": ["a", 7]}
    rows = [*[shown] * 70_000, event("s", "c", 3), event("s", "a", 1, "click") | {"document": 7}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    behaviour = counted_file(path, min_people=1)
    assert behaviour.counts.documents.to_pylist() == ["7", "a", "c"]
    assert behaviour.counts.clicked.sum() == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"query": "x"}', "[1]"], "line 2: it is a list, not an object: correct or delete"),
        (['{"query": "x"}', "", "{broken"], "line 3: expecting property name"),
        (['{"query": "x", "query": "y"}'], "line 1: the key 'query' occurs twice"),
        (['{"query": "\\ud800"}'], "line 1: half a surrogate pair"),
        (["query,document,position,action,session", "x,a,1,view,s", "", "x,b", "x,d,3,view,s"],
         "line 4: 2 cells, where the header has 5: correct or delete the line"),
        (["query,document,position,action,session", '"x\ny",a,1,view,s', "x,b,1"],
         "line 4: 3 cells, where the header has 5"),
    ],
)  # fmt: skip
def test_a_bad_line_is_an_error_with_its_number(
    lines: list[str], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "events"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(BadInput, match=message):
        counted_file(path)


@pytest.mark.parametrize("shown", [["a", "b", "c"], "a|b|c", '["a", "b", "c"]'])
def test_a_list_that_was_shown_says_what_was_there_and_where(shown: Any) -> None:
    rows: list[dict[str, Any]] = []
    for person in ("s", "t"):
        rows.append({**event(person, "", None, "search"), "document": None, "shown": shown})
        rows.append({**event(person, "b", None, "click"), "shown": None})
    behaviour = counted(rows)
    assert cells_of(behaviour) == {
        ("rambo", "a", 1): (2, 0, 2, 0), ("rambo", "b", 2): (2, 2, 2, 2),
        ("rambo", "c", 3): (2, 0, 0, 0),
    }  # fmt: skip
    assert (behaviour.event_counts.read, behaviour.event_counts.used) == (8, 8)


def test_whether_positions_begin_with_0_is_found() -> None:
    from_0 = [event("s", d, place) for place, d in enumerate("abc")]
    behaviour = counted(from_0)
    assert (behaviour.event_counts.first_position, sorted(behaviour.counts.rank)) == (0, [1, 2, 3])
    from_1 = counted([event("s", d, place) for place, d in enumerate("abc", 1)])
    assert (from_1.event_counts.first_position, sorted(from_1.counts.rank)) == (1, [1, 2, 3])


def test_bots_are_no_people() -> None:
    honest = [event(f"s{n}", "a", 1, action) for n in range(6) for action in ("view", "click")]
    flood = [event("bot", f"d{n}", n + 1, "click") for n in range(60)]
    behaviour = counted([*honest, *flood])
    assert behaviour.event_counts.unusable == {"a session of more than 50 clicks": 60}
    assert len(counted([*honest, *flood], max_clicks_per_session=0).counts.documents) == 61
    many = [event("x", "a", 1) | {"client": "bot", "session": f"s{n}"} for n in range(30)]
    behaviour = counted([*honest, *many], max_sessions_per_client=20)
    assert behaviour.event_counts.unusable == {"a client of more than 20 sessions": 30}


def test_one_person_clicks_once_on_a_result_of_a_query() -> None:
    twice = [
        {**event("s", "a", 1, action), "session": session}
        for session in ("one", "two")
        for action in ("view", "click", "click")
    ]
    behaviour = counted(twice)
    assert cells_of(behaviour) == {("rambo", "a", 1): (1, 1, 1, 1)}
    assert behaviour.event_counts.unusable == {AGAIN: 2, "clicked before by the same person": 2}


def test_a_query_that_few_asked_is_left_out_and_nobody_s_id_is_anywhere() -> None:
    rows = [event(f"person-{n}", "a", 1) for n in range(5)]
    rows += [event(f"person-{n}", "b", 1, query="my secret") for n in range(4)]
    behaviour = counted(rows, min_people=5)
    assert behaviour.counts.queries.to_pylist() == ["rambo"]
    assert behaviour.counts.documents.to_pylist() == ["a"]
    assert behaviour.counts.people.tolist() == [5]
    assert "person" not in repr(behaviour)
    assert behaviour.event_counts.unusable == {"a query that fewer than 5 people asked": 4}


def test_an_action_is_worth_the_most_that_was_done_with_a_result() -> None:
    rows = [event("s", "a", 1, action) for action in ("view", "click", "buy")]
    behaviour = counted(rows, actions={"click": 1.0, "buy": 5.0})
    assert (behaviour.counts.value.tolist(), behaviour.counts.clicked.tolist()) == ([5.0], [1])


@pytest.mark.parametrize(
    "times",
    [
        ["2026-09-30T23:59:59Z", "2026-10-01", "2026-10-01T12:00:00+02:00", "soon"],
        [1790812799, 1790812800, 1790812800000 + 1, None],
    ],
)
def test_a_time_is_asked_for(times: list[Any]) -> None:
    rows = [event("s", d, 1) | {"time": str(t)} for d, t in zip("abcd", times, strict=True)]
    behaviour = counted(rows, since="2026-10-01", until="2026-10-02")
    assert behaviour.counts.documents.to_pylist() == ["b", "c"]
    assert behaviour.event_counts.unusable == {
        "outside of the time asked for": 1, "no time that can be read": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"query": " "}, "no query"),
        ({"query": None}, "no query"),
        ({"query": "a\x07b"}, "a query that no list can hold"),
        ({"document": None}, "no document"),
        ({"document": " a"}, "a document that no list can hold"),
        ({"session": None, "client": None}, "no session"),
        ({"position": None}, "no position"),
        ({"position": "first"}, "no position"),
        ({"position": "101"}, "below rank 100"),
        ({"action": None}, "another action"),
    ],
)
def test_what_cannot_be_used_is_said_by_its_reason(change: dict[str, Any], reason: str) -> None:
    good = [event("s", "a", None) | {"position": "1"}]
    account = counted([*good, event("t", "b", None) | {"position": "2"} | change]).event_counts
    assert account.unusable == {reason: 1}
    assert (account.read, account.used) == (2, 1)


@given(st.text(max_size=12))
def test_a_query_that_is_written_as_all_write_it_stays_so(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert normalised(f"  {text}\t") == once


def test_case_is_folded() -> None:
    assert normalised("ﬁne STRASSE straße") == "fine strasse strasse"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([event("s", "a", 1, "click")], "no event says what was shown, only what was clicked"),
        ([event("s", "a", 1, "scroll")], "no event of 1 can be used: 1 another action"),
        ([{"query": "x", "document": "a", "position": 1, "session": "s"}],
         "no column says the action: name it as `columns={'action': COLUMN}`; it has 'query'"),
        ([{"query": "x", "document": "a", "position": 1, "action": "view"}],
         "no column says whose events these are"),
    ],
)  # fmt: skip
def test_a_log_that_tells_nothing_is_refused(rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        counted(rows)


@pytest.mark.parametrize(
    "make",
    [
        lambda: parse_actions("click=-1"),
        lambda: parse_actions("click=much"),
        lambda: EventOptions(actions={"view": 1.0}),
        lambda: EventOptions(actions={"view": 1.0, "click": 2.0}),
        lambda: EventOptions(min_people=0),
        lambda: counted([event("s", "a", 1)], since="yesterday"),
        lambda: counted([event("s", "a", 1)], since="2026-10-02", until="2026-10-01"),
    ],
)
def test_what_cannot_be_meant_is_a_fault_of_usage_in_one_line(make: Any) -> None:
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize(
    "content", [b"", b"PAR1 and no more", b"query,document\n\xff,1\n", b"{}\n", b"a\n\x1f\x8b"]
)
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events"
    path.write_bytes(content)
    with pytest.raises(OwpcLtrError):
        counted_file(path)


def test_clicks_have_the_query_and_the_place_of_the_list_that_was_shown() -> None:
    behaviour = counts(
        [query(1, ["a", "b"]), query(2, ["b", "a"])], [act(1, "b", 9), act(2, "b", 9)]
    )
    assert cells_of(behaviour) == {
        ("rambo", "a", 1): (1, 0, 1, 0), ("rambo", "b", 2): (1, 1, 1, 1),
        ("rambo", "b", 1): (1, 1, 1, 1), ("rambo", "a", 2): (1, 0, 0, 0),
    }  # fmt: skip


def test_impressions_may_be_events_and_the_query_in_them() -> None:
    acts = [act(7, d, place, "impression", user_query="Rocky") for place, d in enumerate("abc")]
    behaviour = counts([query(7, None), query(8, [])], [*acts, act(7, "b", 1)])
    assert cells_of(behaviour)["rambo", "b", 2] == (1, 1, 1, 1)
    alone = counts([], acts)
    assert set(cells_of(alone)) == {("rocky", "a", 1), ("rocky", "b", 2), ("rocky", "c", 3)}


def test_an_event_without_a_query_or_of_an_unknown_one_is_accounted_for() -> None:
    behaviour = counts([query(1, ["a"])], [act(None, "a", 1), act(9, "a", 1), act(1, "a", 1)])
    assert behaviour.event_counts.unusable == {"no query id": 1, "a query id that no query has": 1}
    assert behaviour.event_counts.read == behaviour.event_counts.used + 2 == 4


def test_what_is_logged_twice_counts_once_whatever_the_clock_says() -> None:
    late = {"timestamp": "2031-01-01T00:00:00Z"}
    behaviour = counts([query(1, ["a"]), query(1, ["a"], **late)], [act(1, "a", 1), act(1, "a", 1)])
    assert cells_of(behaviour) == {("rambo", "a", 1): (1, 1, 1, 1)}
    assert behaviour.event_counts.unusable == {AGAIN: 2}


def test_a_bot_that_floods_the_log_is_left_out() -> None:
    flood = [query(n, ["spam"], client_id="bot") for n in range(100, 160)]
    clicks = [act(n, "spam", 1, client_id="bot") for n in range(100, 160)]
    behaviour = counts(
        [query(1, ["a"]), *flood], [act(1, "a", 1), *clicks], max_sessions_per_client=50
    )
    assert cells_of(behaviour) == {("rambo", "a", 1): (1, 1, 1, 1)}
    assert behaviour.event_counts.unusable == {"a client of more than 50 sessions": 120}


def test_clicks_of_a_session_count_together_over_all_its_searches() -> None:
    people = [query(n, ["a", "b"]) for n in range(5)]
    searches = [query(n, ["spam"], client_id="bot") for n in range(100, 160)]
    clicks = [act(n, "spam", 1, session_id="one", client_id="bot") for n in range(100, 160)]
    honest = [act(n, "a", 1) for n in range(5)]
    behaviour = counts([*people, *searches], [*honest, *clicks])
    assert cells_of(behaviour) == {("rambo", "a", 1): (5, 5, 5, 5), ("rambo", "b", 2): (5, 0, 0, 0)}
    assert behaviour.event_counts.unusable == {"a session of more than 50 clicks": 120}
    kept = counts([*people, *searches], [*honest, *clicks], max_clicks_per_session=60)
    assert kept.counts.documents.to_pylist() == ["a", "b", "spam"]


def test_a_session_without_an_id_is_its_client_s_or_its_search_s() -> None:
    def clicks(**more: Any) -> list[Any]:
        return [act(n, "spam", 1, session_id=None, **more) for n in range(100, 160)]

    searches = [query(n, ["spam"], client_id="bot") for n in range(100, 160)]
    alone = [query(n, ["spam"], client_id=None) for n in range(100, 160)]
    honest = [query(1, ["a"])], [act(1, "a", 1)]
    behaviour = counts([*honest[0], *searches], [*honest[1], *clicks(client_id="bot")])
    assert behaviour.event_counts.unusable == {"a session of more than 50 clicks": 120}
    behaviour = counts([*honest[0], *alone], [*honest[1], *clicks(client_id=None)])
    assert not behaviour.event_counts.unusable


def test_a_list_is_of_the_client_that_its_events_name() -> None:
    behaviour = counts([query(1, ["a", "b"], client_id=None)], [act(1, "b", 9)])
    assert cells_of(behaviour) == {("rambo", "a", 1): (1, 0, 1, 0), ("rambo", "b", 2): (1, 1, 1, 1)}
    assert behaviour.event_counts.implied == 0


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
    of_indices, of_file = counts(list(queries.values()), acts), counted(rows)
    assert cells_of(of_indices) == cells_of(of_file)
    bots = {"a session of more than 50 clicks": 20 * n_bots * searches}
    assert bots.items() <= of_indices.event_counts.unusable.items()
    fooled = counts(list(queries.values()), acts, max_clicks_per_session=0).counts
    rates = [
        (each.by_rank(each.clicked) / each.by_rank(each.shown))[9]
        for each in (of_file.counts, of_indices.counts, fooled)
    ]
    assert rates[0] == rates[1] < rates[2] / 1.5
