"""What a tired person types: the error names what was mistaken for what, in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from owpc_ltr import save_model
from tests.commands import Run
from tests.engine.deployed import put
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.small_cluster import FEATURESET, Small, linear, shared_cluster

small = shared_cluster()
MISTAKES = {
    "search words without quotes": (
        (2, "(b c): put a text of several words in quotes"),
        ("search", "a", "b", "c", "--model", "NAME"),
    ),
    "values without commas": (
        (2, "and commas between values"),
        ("judge", "pool", "--queries", "q.txt", "--rankers", "query", "m.json", "-o", "s.csv"),
    ),
    "an option before the command": (
        (2, "no such option: --no-project: options stand after the command"),
        ("--no-project", "train", "set.json"),
    ),
    "search for nothing": ((2, " is empty: give the words of a query"), ("search", " ", "ON")),
    "search with a file": (
        (3, "it is a file: owpc-ltr upload model.json first"),
        ("search", "alpha", "--model", "model.json", "ON"),
    ),
    "verify a file": (
        (3, "it is a file: owpc-ltr upload model.json first"),
        ("verify", "model.json", "ON"),
    ),
    "promote a file": (
        (3, "it is a file: owpc-ltr upload model.json first"),
        ("models", "promote", "model.json", "ON"),
    ),
    "a query in place of its file": (
        (3, "write the JSON into a file"),
        (*("search", "alpha", "--model", "NAME", "ON"), "--query-template", '{"match_all": {}}'),
    ),
    "a parameter that nothing has": (
        (
            2,
            "template nor a feature has the parameter 'lang': they have keywords",
        ),
        ("search", "alpha", "--model", "NAME", "--param", "lang=en", "ON"),
    ),
    "a model in place of a feature set": (
        (3, "model.json is a model, and no feature set"),
        ("featureset", "push", "model.json", "--index", "INDEX", "ON"),
    ),
    "an index that is not there": (
        (3, "no such index [nowhere]"),
        ("featureset", "push", "set.json", "--index", "nowhere", "ON"),
    ),
    "an empty model file": (
        (3, "empty.json is not a model file, nor a run: it is empty"),
        ("average", "empty.json", "empty.json", "--out", "x.json"),
    ),
    "a choice that there is not": (
        (2, "'engien' is not one of 'engine', 'plugin', 'client'"),
        ("train", "set.json", "--in", "engien", "--out", "x.json"),
    ),
}
"""The exit code and the end of the error, and what is typed; ON stands for the cluster."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_what_was_meant(
    small: Small, run: Run, tmp_path: Path, mistake: str
) -> None:
    save_model(linear(), tmp_path / "model.json")
    (tmp_path / "set.json").write_text(json.dumps(FEATURESET.to_body()))
    (tmp_path / "empty.json").touch()
    if "NAME" in MISTAKES[mistake][1] and small.name not in small.cluster.models.names:
        put(small, linear())
    stands = {"NAME": (small.name,), "INDEX": (small.index,), "ON": small.place}
    (code, said), words = MISTAKES[mistake]
    err = run.refusal(code, *(word for each in words for word in stands.get(each, (each,))))
    assert said in err.splitlines()[-1]
    assert "Value error" not in err


def test_the_address_of_another_service_is_no_engine(run: Run, fake: FakeEngine) -> None:
    fake.on("GET", "*", Reply({"message": "nothing is here"}, 404))
    err = run.refusal(4, "models", "--url", fake.url)
    assert f"{fake.url} is no engine, which would answer GET / (404)" in err
    assert "not that of owpc-ltr serve" in err
