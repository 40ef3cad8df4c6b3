"""A state that is damaged in any way ends a run by name, with 3, and somebody is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_keep.state import KeepState

from owpc_ltr.errors import BadInput
from tests.commands import Run
from tests.keep.keep_world import KeepWorld, better
from tests.keep.test_rounds import TOLD, ends

PLAN = """
alias = "m"
index = "small"
featureset = "small"
judgments = "judgments.tsv"

[keep]
folder = "."

[keep.notify]
command = {command}
"""


def changed(content: dict[str, Any], key: str, value: Any) -> str:
    *places, last = key.split(".")
    part: Any = content
    for place in places:
        part = part[int(place)] if place.isdigit() else part[place]
    part[last] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("format", 99, "is of another version of owpc-ltr"),
        ("running", 5, "running = 5 must be a text"),
        ("history", {}, "history = {} must be a list"),
        ("history.0.line", None, r"\[history 1\]: line = None must be a text"),
        ("history.1.time", "yesterday", "'yesterday' is not a time with a zone"),
        ("history.0.level", 0.025, r"\[history 1\]: there is no key 'level'"),
        ("round", "m", "'round' is a table"),
        ("round.began", "2027-01-31", "'2027-01-31' is not a time with a zone"),
        ("round.model", True, r"\[round\]: model = True must be a text"),
        ("attempts", 0, "there is no key 'attempts'"),
    ],
)
def test_a_wrong_type_is_named(world: KeepWorld, key: str, value: Any, complaint: str) -> None:
    world.run(better())
    folder = Path(world.plan.folder)
    path = folder / "state.json"
    path.write_text(changed(json.loads(path.read_text()), key, value))
    with pytest.raises(BadInput, match=rf"state\.json.*{complaint}.*or delete it$"):
        world.run(better())


def test_a_round_of_a_far_future_is_of_a_clock_that_was_wrong(world: KeepWorld) -> None:
    world.run(better())
    path = Path(world.plan.folder) / "state.json"
    path.write_text(changed(json.loads(path.read_text()), "round.began", "9999-12-31T23:59:59Z"))
    assert world.run(better()).done == "nothing"


def test_a_damaged_state_is_told_and_leaves_with_3(tmp_path: Path, run: Run) -> None:
    notices = tmp_path / "told.jsonl"
    notices.write_text("")
    command = json.dumps([sys.executable, "-c", TOLD, str(notices)])
    (tmp_path / "plan.toml").write_text(PLAN.format(command=command))
    for damage in (b"", b"{", b"\x00\xff", b"[]", b'{"format": 1, "format": 1}'):
        (tmp_path / "state.json").write_bytes(damage)
        assert "state.json" in run.refusal(3, "keep", "plan.toml", "--url", "http://127.0.0.1:9")
    assert ends(notices) == ["failed"] * 5


def test_line_ends_of_another_system_change_nothing(world: KeepWorld) -> None:
    """Git may write them where the state is committed."""
    world.run(better())
    folder = Path(world.plan.folder)
    before = KeepState.read(folder)
    text = json.dumps(json.loads((folder / "state.json").read_text()), indent=1)
    (folder / "state.json").write_bytes(text.replace("\n", "\r\n").encode())
    assert KeepState.read(folder) == before
    assert world.run(better()).done == "nothing"
