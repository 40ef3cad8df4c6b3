"""Simulated users act by their model, and the same again from the same seed."""

from __future__ import annotations

import numpy as np

from owpc_ltr import make_dataset
from tests.engine.ubi_indices import ubi_documents
from tests.simulated_users import simulate

WORLD = simulate.example_world(50, 20)


def _rates(
    users: simulate.Users, sessions: int = 20_000
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Impressions, clicks and the attraction of what was shown, by position."""
    world = simulate.example_world(50, 20, users)
    events = simulate.clicks(world, users, (0.0,), sessions)
    position = events["position"].to_numpy() - 1
    document = events["document"].combine_chunks().indices.to_numpy()
    clicked = events["action"].combine_chunks().indices.to_numpy() == 1
    shown = np.bincount(position[~clicked])
    drawn = np.bincount(position[~clicked], world.attraction[document[~clicked]])
    return shown, np.bincount(position[clicked], minlength=len(shown)), drawn


def test_users_by_position_click_with_the_chance_of_a_look_times_that_of_a_draw() -> None:
    users = simulate.Users(steepness=0.7)
    shown, clicked, drawn = _rates(users)
    expected = drawn * users.examination(10)
    assert (np.abs(clicked - expected) < 4 * np.sqrt(shown / 4)).all()


def test_users_who_are_satisfied_and_have_no_patience_click_once_at_the_top() -> None:
    shown, clicked, _ = _rates(simulate.Users("cascade", satisfied=1.0, patience=0.0), 2000)
    assert shown.tolist() == [2000] * 10
    assert clicked[0] > 0
    assert not clicked[1:].any()


def test_users_who_never_leave_click_on_all_that_draws_them() -> None:
    shown, clicked, drawn = _rates(simulate.Users("cascade", satisfied=0.0, patience=1.0))
    assert (np.abs(clicked - drawn) < 4 * np.sqrt(shown / 4)).all()


def test_the_same_seed_gives_the_same_events_and_another_one_others() -> None:
    assert simulate.clicks(WORLD, sessions=500).equals(simulate.clicks(WORLD, sessions=500))
    assert not simulate.clicks(WORLD, sessions=500).equals(
        simulate.clicks(WORLD, sessions=500, seed=1)
    )


def test_a_better_ranker_shows_what_attracts_more() -> None:
    means = []
    for ranker in (0.0, 0.3, 0.6, 1.0):
        events = simulate.clicks(WORLD, rankers=(ranker,), sessions=500)
        shown = events["document"].combine_chunks().indices.to_numpy()
        means.append(WORLD.attraction[shown].mean())
    assert means == sorted(means)


def test_with_drift_documents_are_shown_that_were_not_there_before() -> None:
    def late(drift: float) -> int:
        events = simulate.clicks(WORLD, rankers=(1.0, 1.0), sessions=4000, shown=20, drift=drift)
        document = events["document"].combine_chunks().indices.to_numpy()
        first = events["session"].to_numpy() < 2000
        return len(np.setdiff1d(document[~first], document[first]))

    assert late(0.0) == 0
    assert late(0.5) > 100


def test_a_judged_dataset_is_a_world() -> None:
    data = make_dataset(np.zeros((5, 1)), [0, 1, 2, 0, 4], ["a", "a", "a", "b", "b"])
    world = simulate.truth(data)
    assert world.queries == ("a", "b")
    assert world.attraction.argsort(kind="stable").tolist() == [0, 3, 1, 2, 4]
    assert set(simulate.clicks(data, sessions=50)["query"].to_pylist()) == {"a", "b"}


def test_documents_of_user_behavior_insights_hold_the_same_lists_and_clicks() -> None:
    events = simulate.clicks(WORLD, sessions=200)
    queries, acts = map(list, ubi_documents(events))
    rows = events.to_pylist()
    assert [d for q in queries for d in q["query_response_hit_ids"]] == [
        row["document"] for row in rows if row["action"] == "impression"
    ]
    lists = [
        (a["query_id"], a["event_attributes"]["object"]["object_id"],
         a["event_attributes"]["position"]["ordinal"])
        for a in acts
    ]  # fmt: skip
    assert lists == [
        (f"search-{row['session']}", row["document"], row["position"])
        for row in rows
        if row["action"] == "click"
    ]
