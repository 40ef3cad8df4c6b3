"""Parameters that are given for judged queries hold where a query has none of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.live_queries import LiveQueries, with_params
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import Feature, FeatureSet
from tests.commands import Run, commands_in

KNN = '{"knn": {"field": "v", "query_vector": {{#toJson}}vector{{/toJson}}, "k": 3}}'
FEATURES = FeatureSet("set", (Feature("near", ("vector",), KNN),))


def query(name: str, **params: Any) -> JudgedQuery:
    return JudgedQuery(name, {"keywords": name, **params}, ["d"], np.ones(1, np.float32))


QUERIES = [query("own", vector=[1.0, 2.0]), query("none")]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return commands_in(tmp_path, monkeypatch, capsys)


def test_a_querys_own_parameter_goes_before_the_one_that_is_given() -> None:
    found = with_params(QUERIES, {"vector": np.array([0.5, 0.25]), "n": 3})
    assert [each.params for each in found] == [
        {"keywords": "own", "vector": [1.0, 2.0], "n": 3},
        {"keywords": "none", "vector": [0.5, 0.25], "n": 3},
    ]
    assert with_params(QUERIES, None) == QUERIES
    assert "n" not in QUERIES[0].params


def test_live_queries_ask_with_what_is_given_and_is_refused_without() -> None:
    asked = {"match": {"t": "{{keywords}}"}}
    live = LiveQueries(Judgments(QUERIES), params={"vector": [0.5]})
    question = live.question("index", asked, (), FEATURES)
    vectors = [request.params["vector"] for request in question.requests()]
    assert vectors == [[1.0, 2.0], [0.5]]
    with pytest.raises(BadInput, match="query 'none' has no 'vector', which the feature set 'set'"):
        LiveQueries(Judgments(QUERIES)).question("index", asked, (), FEATURES)


def test_a_parameter_of_an_upload_without_live_searches_is_refused(run: Run) -> None:
    Path("m.json").write_text("{}")
    code, _, err = run("upload", "m.json", "--param", "k=3")
    assert (code, err) == (
        2,
        "owpc-ltr: --param is for live searches of --judgments: give these too, or leave it out\n",
    )
