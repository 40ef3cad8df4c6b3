"""Judgments, queries and a ranker in the workbench, against answers as its documentation has them.

No node with the workbench runs here: that the bodies are taken as they are is not shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_rating.push import PushedJudgments, judge_push

import owpc_ltr as ltr
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, Refused, UsageError
from tests.engine.fake_engine import FakeEngine, Reply

BASE = "/_plugins/_search_relevance"
JUDGED = Judgments(
    [
        JudgedQuery(
            "q1",
            {"query": "red shoe", "keywords": "red shoe", "size": 42, "vector": [0.5, 1]},
            ["a", "b"],
            np.array([2, 0.5], np.float32),
        )
    ]
)
TEMPLATE = {"match": {"title": "{{keywords}}"}}


def engine() -> FakeEngine:
    fake = FakeEngine()
    fake.on("GET", "/", {"version": {"number": "3.4.0", "distribution": "opensearch"}})
    for what in ("judgment", "query_set", "search_configuration"):
        answer = {f"{what}_id": f"{what}-id", f"{what}_result": "CREATED"}
        fake.on("PUT", f"{BASE}/{what}s", answer)
    return fake


def pushed(fake: FakeEngine, **how: Any) -> PushedJudgments:
    with fake:
        return judge_push(ltr.connect(fake.url), JUDGED, **{"name": "movies", **how})


def test_a_list_and_its_query_set_carry_grades_and_parameters_as_texts() -> None:
    fake = engine()
    push_report = pushed(fake)
    assert push_report.as_dict() == {
        "name": "movies",
        "judgments": "judgment-id",
        "query_set": "query_set-id",
        "search_configuration": "",
    }
    (judgments,) = (request.body for request in fake.asked("PUT", f"{BASE}/judgments"))
    assert (judgments["name"], judgments["type"]) == ("movies", "IMPORT_JUDGMENT")
    assert judgments["judgmentRatings"][0]["ratings"] == [
        {"docId": "a", "rating": "2"},
        {"docId": "b", "rating": "0.5"},
    ]
    (queries,) = (request.body for request in fake.asked("PUT", f"{BASE}/query_sets"))
    assert queries["sampling"] == "manual"
    assert queries["querySetQueries"] == [
        {"queryText": "red shoe", "size": "42", "vector": "[0.5,1]"}
    ]
    assert fake.asked("PUT", f"{BASE}/search_configurations") == []


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (
            Reply({"error": f"no handler found for uri [{BASE}/judgments] and method [PUT]"}, 400),
            Refused,
            "this cluster has no Search Relevance Workbench",
        ),
        (
            Reply(b"Search Relevance Workbench is disabled", 403, content_type="text/plain"),
            EngineUnavailable,
            "plugins.search_relevance.workbench_enabled",
        ),
        ({"took": 3}, EngineUnavailable, "gives no id for the judgments"),
        (Reply({"error": {"type": "x", "reason": "name is taken"}}, 400), Refused, "name is taken"),
    ],
    ids=str,
)
def test_every_no_is_one_line(reply: Any, kind: type[OwpcLtrError], message: str) -> None:
    fake = engine()
    fake.on("PUT", f"{BASE}/judgments", reply)
    with pytest.raises(kind) as raised:
        pushed(fake)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_that_the_workbench_does_not_take_is_refused_first() -> None:
    fake = engine()
    with pytest.raises(UsageError, match="1 to 50 characters"):
        pushed(fake, name="x" * 51)
    assert fake.requests == []


def test_two_queries_of_one_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.tsv"
    path.write_text("query_id\tquery\tdoc_id\tgrade\nq1\tred\ta\t1\nq2\tred\ta\t1\n")
    fake = engine()
    with fake, pytest.raises(BadInput, match="2 queries have the text 'red'"):
        judge_push(ltr.connect(fake.url), path, name="movies")
