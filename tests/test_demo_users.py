"""The demo's users: they are shown what searches gave, and what they like is what is relevant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from owpc_ltr_clicks.simulation import Users, clicks
from owpc_ltr_demo.clicks import rankers, world_of
from owpc_ltr_demo.demo import next_commands_after_clicks
from owpc_ltr_demo.queries import DemoQuery
from owpc_ltr_demo.session import DemoOptions

from owpc_ltr.engine.search.serving import Served
from tests.commands import commands_in

ASKED = (
    DemoQuery("object:a", "first words", "object", {"a": 1}),
    DemoQuery("module:m", "other words", "module", {"m": 2, "m.x": 1, "never shown": 1}),
)
LISTS = [
    (Served(("c", "a"), 1), Served(("m", "m.x", "z"), 1)),
    (Served(("a", "b"), 1), Served((), 1)),
]


def test_users_see_the_lists_that_were_served_and_nothing_else() -> None:
    world, scores = world_of(ASKED, LISTS, Users())
    assert world.documents == ("a", "b", "c", "m", "m.x", "z")
    events = clicks(world, Users(), scores, 400, shown=10).to_pylist()
    shown: dict[tuple[int, str], dict[int, str]] = {}
    for one in events:
        if one["action"] == "impression":
            ranker = one["session"] * 2 // 400
            shown.setdefault((ranker, one["query"]), {})[one["position"]] = one["document"]
    for ranker, lists in enumerate(LISTS):
        for query, served in zip(ASKED, lists, strict=True):
            wanted = dict(enumerate(served.document_ids, 1))
            assert shown.get((ranker, query.text), {}) == wanted


def test_what_draws_users_is_the_true_grade() -> None:
    users = Users(noise=0.1, most=0.7)
    world, _ = world_of(ASKED, LISTS, users)
    assert world.attraction == pytest.approx([0.3, 0.1, 0.1, 0.7, 0.3, 0.1])


def test_rankers_that_take_turns_are_different_ones() -> None:
    columns = {name: n for n, name in enumerate(["name", "name_words", "text", "doc", "parents"])}
    found = rankers(columns)
    queries = [None if one is None else str(one.query()) for one in found.values()]
    assert len(set(queries)) == len(queries) == 4
    features = np.eye(5, dtype=np.float32)
    by_name, by_text = found["names first"], found["texts first"]
    assert by_name is not None
    assert by_text is not None
    assert by_name.score(features, columns).argmax() in {0, 1}
    assert by_text.score(features, columns).argmax() in {2, 3}


def test_files_are_for_walking_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = commands_in(tmp_path, monkeypatch, capsys)
    code, _, err = run("demo", "--files", "here", "--clicks")
    assert code == 2
    assert "leave out --clicks" in err
    assert not list(tmp_path.glob("here"))


def test_the_commands_that_go_on_name_the_files_that_are_there() -> None:
    told = "\n".join(
        next_commands_after_clicks(DemoOptions(port=9999, folder=Path("d")), "http://u")
    )
    for name in ("-events.parquet", "-clicks.parquet", "-clicks.json", "-query.json", ".parquet"):
        assert f"d/python-docs{name}" in told
    assert "engine stop --port 9999" in told
