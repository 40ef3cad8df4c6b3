"""`owpc-ltr search`: both rankings side by side, and the application's own query template."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr import Cluster, read_run
from owpc_ltr.engine.client import settings
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.options import params_from
from owpc_ltr.engine.search import search
from owpc_ltr.engine.search.request import (
    CARRIED,
    COLLAPSE,
    REFUSED,
    SearchRequest,
    request_body,
    search_request,
)
from owpc_ltr.engine.search.search import BeforeAndAfter, Hit
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import UsageError
from owpc_ltr.formats.ltr_plugin import export_linear
from owpc_ltr.formats.stored_model import LINEAR, StoredModel
from tests.commands import Run
from tests.engine.small_cluster import FEATURESET, linear

LONG = "a title that is much longer than the table has room for"
BEFORE = (
    Hit("a", "first", 9.0, 3),
    Hit("b", "second", 8.0, 2),
    Hit("c", "third", 7.0, 1),
    Hit("d", LONG, 6.0, None),
)
AFTER = (
    Hit("c", "third", 0.75, 3),
    Hit("b", "second", 0.5, 2),
    Hit("a", "first", 0.25, 1),
    Hit("e", LONG[:40], -1.0, None),
)


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("OWPC_LTR_URL", "http://127.0.0.1:1")
    Path("query.json").write_text('{"match": {"t": "{{keywords}}"}}')
    return run


def answer(monkeypatch: pytest.MonkeyPatch, both: BeforeAndAfter) -> None:
    """The engine's answer to every search, by the model m@1 of the index i."""

    class Stored:
        def get_model(self, name: str) -> StoredModel:
            return StoredModel(name, LINEAR, {}, FEATURESET)

    monkeypatch.setattr(Cluster, "uploaded", lambda *_: (Stored(), "m@1"))
    monkeypatch.setattr(search, "search_ranked", lambda *_, **__: both)


SEARCH = ("search", "words", "--index", "i", "--model", "m", "--query-template", "query.json")


def test_a_document_that_rose_or_fell_or_is_new_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, BeforeAndAfter(BEFORE, AFTER, 4, 7))
    code, out, err = run(*SEARCH)
    assert (code, err) == (0, "")
    table, _, times = out.partition("\n\n")
    assert [re.split("  +", row) for row in table.splitlines()] == [
        ["#", "BEFORE", "MOVE", "WITH m@1", "SCORE"],
        ["1", "first", "▲2", "third", "0.7500"],
        ["2", "second", "=", "second", "0.5000"],
        ["3", "third", "▼2", "first", "0.2500"],
        ["4", f"{LONG[:27]}…", "new", f"{LONG[:27]}…", "-1.0000"],
    ]
    assert times == "the engine took 4 ms, with the model 7 ms\n"


@pytest.mark.parametrize(
    ("rank", "other", "said"),
    [(1, 2, "▲1"), (2, 1, "▼1"), (10, 100, "▲90"), (100, 1, "▼99"), (7, 7, "="), (3, None, "new")],
)
def test_a_move_is_the_difference_of_the_ranks(
    run: Run, monkeypatch: pytest.MonkeyPatch, rank: int, other: int | None, said: str
) -> None:
    hits = [Hit(str(number), "t", 0.0, number) for number in range(1, 101)]
    hits[rank - 1] = Hit("moved", "t", 0.0, other)
    answer(monkeypatch, BeforeAndAfter(tuple(hits), tuple(hits), 1, 1))
    row = run(*SEARCH)[1].splitlines()[rank].split()
    assert row[2] == said


def test_who_scored_and_what_went_wrong_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, BeforeAndAfter(BEFORE, AFTER, 4, 7, "client", "it took too long"))
    code, out, err = run(*SEARCH)
    assert code == 0
    assert "the client scored" not in out
    assert err == "warning: this is the engine's own order: it took too long\n"
    answer(monkeypatch, BeforeAndAfter(BEFORE, AFTER, 4, 7, "client"))
    assert run.output(*SEARCH).endswith("the client scored the window\n")


def test_the_local_node_that_nobody_named_is_said_of_a_search_too(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, BeforeAndAfter((), (), 1, 1))
    monkeypatch.delenv("OWPC_LTR_URL")
    monkeypatch.setattr(settings, "_default_url", lambda: "http://127.0.0.1:2")
    _, _, err = run(*SEARCH)
    assert err == "cluster: http://127.0.0.1:2 (OWPC_LTR_URL is not set: the local node)\n"


def test_a_search_without_results_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, BeforeAndAfter((), (), 1, 1))
    assert run(*SEARCH) == (0, "nothing in 'i' matches: words\n", "")


def test_machines_get_both_rankings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, BeforeAndAfter(BEFORE, AFTER, 4, 7))
    result = json.loads(run(*SEARCH, "--json")[1])
    assert result["model"] == "m@1"
    assert [hit["document_id"] for hit in result["before"]] == ["a", "b", "c", "d"]
    assert [hit["other_rank"] for hit in result["after"]] == [3, 2, 1, None]
    assert (result["reordered"], result["reason"], result["scored_by"]) == (True, None, "engine")
    assert (result["took_before_ms"], result["took_after_ms"]) == (4, 7)


def test_the_ranking_may_be_written_as_a_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, BeforeAndAfter(BEFORE, AFTER, 4, 7))
    assert run(*SEARCH, "--run", "out.trec", "--query-id", "q7")[0] == 0
    assert Path("out.trec").read_text().splitlines() == [
        "q7 Q0 c 1 0.75 owpc-ltr",
        "q7 Q0 b 2 0.5 owpc-ltr",
        "q7 Q0 a 3 0.25 owpc-ltr",
        "q7 Q0 e 4 -1.0 owpc-ltr",
    ]
    read = read_run(Path("out.trec"))
    assert read.scores.tolist() == [0.75, 0.5, 0.25, -1.0]
    assert run(*SEARCH, "--run", "out.trec", "--query-id", "two words")[0] == 3


QUERY = {"match": {"t": "{{keywords}}"}}
STORED = export_linear(linear(), FEATURESET, "m")


NOWHERE = Cluster(Engine(ConnectionSettings("http://127.0.0.1:1")))
"""A cluster that is never asked."""


def request(folder: Path, content: dict[str, Any], **asked: Any) -> SearchRequest:
    """What is asked with a query file."""
    path = folder / "query.json"
    path.write_text(json.dumps(content))
    return search_request(NOWHERE, "red", index="docs", query_template=path, **asked)


@pytest.mark.parametrize("key", sorted(CARRIED - {"size", COLLAPSE}))
def test_what_stands_beside_the_query_is_carried(key: str, tmp_path: Path) -> None:
    part: Any = 20 if key == "from" else {"of": ["{{keywords}}"]}
    asked = request(tmp_path, {"query": QUERY, key: part})
    body = request_body(PluginFreeStore(NOWHERE.engine), None, asked)
    assert body.pop(key) == (20 if key == "from" else {"of": ["red"]})
    assert body == {"query": {"match": {"t": "red"}}, "size": 10}


def test_a_query_alone_is_one_too_and_a_size_of_its_own_holds(tmp_path: Path) -> None:
    assert request(tmp_path, QUERY).query == QUERY
    assert request(tmp_path, {"query": QUERY, "size": 3}).size == 3
    assert request(tmp_path, {"query": QUERY, "size": 3}, size=7).size == 7


def test_the_window_reaches_to_the_end_of_the_page(tmp_path: Path) -> None:
    asked = request(tmp_path, {"query": QUERY, "from": 95, "size": 10})
    body = request_body(PluginFreeStore(NOWHERE.engine), STORED, asked)
    assert {clause["window_size"] for clause in body["rescore"]} == {105}


@pytest.mark.parametrize("part", sorted(REFUSED))
def test_what_cannot_be_rescored_is_refused_by_name_with_what_would_do(
    part: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"'{part}'.*: {REFUSED[part][:20]}"):
        request(tmp_path, {"query": QUERY, part: {}})


def test_what_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'surprise' beside its query"):
        request(tmp_path, {"query": QUERY, "surprise": 1})


def test_parameters_fill_the_words_and_the_features() -> None:
    """Without a word to the cluster, which is not there."""
    params = params_from(["tag=a=b", "n=1"])
    filled = search_request(
        NOWHERE, "red shoe", index="docs", query_template=QUERY, params=params, size=3, window=7
    )
    assert filled.params == {"keywords": "red shoe", "query": "red shoe", "tag": "a=b", "n": 1}
    assert (filled.size, filled.window) == (3, 7)
    assert filled.filled == {"match": {"t": "red shoe"}}


@pytest.mark.parametrize("text", ["tag", "=x", ""])
def test_a_parameter_without_a_name_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        params_from([text])
