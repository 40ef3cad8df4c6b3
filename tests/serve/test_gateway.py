"""The gateway: the engine's answer in the model's order, and nothing else of it changed."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from owpc_ltr_serve.endpoint import MODEL_HEADER, STATUS_HEADER, Call
from owpc_ltr_serve.experiment_search import ImpressionLog
from owpc_ltr_serve.gateway import QUERY_HEADER, Gateway
from owpc_ltr_serve.model_search import PATH
from owpc_ltr_serve.rankers import Rankers

from owpc_ltr import connect
from owpc_ltr.data.external_features import read_external_features
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.memory_engine import whole
from tests.serve.searched_engine import INDEX, MODEL, NAMES, SearchedEngine, model_scores
from tests.serve.service import NotedMetrics

QUERY = {"match": {"title": "title"}}
PARAMS = {"keywords": "title"}


def asking(**options: Any) -> dict[str, Any]:
    """The part of a search that names the model."""
    return {"ext": {"owpc_ltr": {"model": "model", "params": PARAMS, **options}}}


@dataclass
class Served:
    """A gateway before a fake engine."""

    engine: SearchedEngine
    fake: FakeEngine
    rankers: Rankers
    noted: NotedMetrics
    log: ImpressionLog | None = None

    def search(
        self,
        body: Any,
        *,
        index: str = INDEX,
        seconds: float = 10.0,
        late: float = 0.0,
        **params: Any,
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers and content of the gateway's answer."""
        gateway = Gateway(self.rankers, self.noted, self.log)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        texts = {name: str(value) for name, value in params.items()}
        reply = gateway.answer(
            Call(PATH, content, time.monotonic() + seconds, {"index": index}, texts, late=late)
        )
        return reply.status, dict(reply.headers), json.loads(reply.body)

    def plain(self, body: dict[str, Any]) -> dict[str, Any]:
        """The engine's own answer."""
        answer: dict[str, Any] = json.loads(json.dumps(self.engine.search(body, {})))
        return answer


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    save_model(MODEL, tmp_path / "model.json")
    with FakeEngine() as fake:
        engine = SearchedEngine(plugin=getattr(request, "param", None) == "ltr-plugin")
        engine.scripts(fake)
        cluster = connect(fake.url)
        rankers = Rankers(cluster, [tmp_path / "model.json"])
        yield Served(engine, fake, rankers, NotedMetrics())
        rankers.stop()


def expected(window: int = 100) -> tuple[list[str], list[float]]:
    """The documents of the window in the model's order, and their scores."""
    scores = np.array(model_scores(list(range(window))))
    order = np.argsort(-scores, kind="stable")
    return [f"d{n}" for n in order], scores[order].tolist()


@pytest.mark.parametrize("served", ["plugin-free", "ltr-plugin"], indirect=True)
@pytest.mark.parametrize("more", [{}, {"fields": ["year"]}, {"ext": {"other": {}}}])
def test_the_page_has_the_models_order_and_all_else_is_the_engines(
    served: Served, more: dict[str, Any]
) -> None:
    body: dict[str, Any] = {
        "query": QUERY, "size": 7, "from": 3, "aggs": {"sizes": {}}, "highlight": {"fields": {}},
        "track_total_hits": 50, **more,
    }  # fmt: skip
    sent = {**body, "ext": {**more.get("ext", {}), **asking()["ext"]}}
    status, headers, answer = served.search(sent)
    assert status == 200
    assert headers[STATUS_HEADER] == "ranked"
    assert headers[MODEL_HEADER].startswith("model@")
    ids, scores = expected()
    hits = answer["hits"].pop("hits")
    assert [hit["_id"] for hit in hits] == ids[3:10]
    assert [hit["_score"] for hit in hits] == scores[3:10]
    assert answer["hits"].pop("max_score") == scores[0]
    own = served.plain({**body, "from": 0, "size": 250})
    by_id = {hit["_id"]: hit for hit in own["hits"].pop("hits")}
    own["hits"].pop("max_score")
    assert answer.pop("took") % own.pop("took") == 0
    assert answer == own
    for hit in hits:
        assert {**hit, "_score": by_id[hit["_id"]]["_score"]} == by_id[hit["_id"]]
    assert served.noted.stages == ["engine", "score"]
    assert served.noted.rows[0].shape == (100, len(NAMES))


@pytest.mark.parametrize("size", [7, 40, 100])
def test_pages_show_every_document_once_down_to_the_last(served: Served, size: int) -> None:
    doc_ids = []
    for first in range(0, served.engine.documents, size):
        body = {"query": QUERY, "from": first, "size": size, **asking(window=90)}
        doc_ids += [hit["_id"] for hit in served.search(body)[2]["hits"]["hits"]]
    assert doc_ids == expected(90)[0] + [f"d{n}" for n in range(90, served.engine.documents)]


def test_a_page_beyond_the_window_is_the_engines_own(served: Served) -> None:
    body = {"query": QUERY, "from": 100, "size": 5}
    status, headers, answer = served.search({**body, **asking()})
    assert (status, headers[STATUS_HEADER]) == (200, "engine; beyond the window")
    assert answer == served.plain(body)
    headers = served.search({"query": QUERY, "size": 0, **asking()})[1]
    assert headers[STATUS_HEADER] == "engine; no hits were asked for"


@pytest.mark.parametrize("counted", [None, True, False, 40, 10_000])
def test_the_total_is_what_the_search_asked_for(served: Served, counted: Any) -> None:
    body = {"query": QUERY} if counted is None else {"query": QUERY, "track_total_hits": counted}
    answer = served.search({**body, **asking()})[2]
    own = served.plain(body)
    assert answer["hits"].get("total") == own["hits"].get("total")
    if counted is not None:
        by_url = served.search({"query": QUERY, **asking()}, track_total_hits=str(counted).lower())
        assert by_url[2]["hits"].get("total") == own["hits"].get("total")


@pytest.mark.parametrize(
    "part",
    [
        {"query": {"match": {"title": {"query": "title", "_name": "title"}}}},
        {"aggs": {"best": {"top_hits": {}}}},
        {"explain": True},
        {"ext": {"other": {}}},
    ],
)
def test_what_would_show_the_features_has_them_asked_for_apart(
    served: Served, part: dict[str, Any]
) -> None:
    body: dict[str, Any] = {"query": QUERY, **part}
    sent = copy.deepcopy(body)
    sent.setdefault("ext", {}).update(asking()["ext"])
    answer = served.search(sent)[2]
    assert [hit["_id"] for hit in answer["hits"]["hits"]] == expected()[0][:10]
    first, second = (request.body for request in served.engine.asked)
    assert first == {**body, "from": 0, "size": 100}
    assert "constant_score" in second["query"]
    own = {hit["_id"]: hit for hit in served.plain({**body, "size": 100})["hits"]["hits"]}
    for hit in answer["hits"]["hits"]:
        assert {**hit, "_score": own[hit["_id"]]["_score"]} == own[hit["_id"]]


def test_an_sltr_in_rescore_combines_scores_as_the_plugin_does(served: Served) -> None:
    def clause(window: int | None, **query: Any) -> dict[str, Any]:
        sltr = {"sltr": {"model": "model", "params": PARAMS}}
        size = {} if window is None else {"window_size": window}
        return {"query": QUERY, "rescore": {**size, "query": {"rescore_query": sltr, **query}}}

    alone = served.search(clause(100, query_weight=0))[2]
    assert [hit["_id"] for hit in alone["hits"]["hits"]] == expected()[0][:10]
    engine = np.array([250.0 - n for n in range(100)])
    model = np.array(model_scores(list(range(100))))
    ways = {
        "total": engine + 30 * model,
        "multiply": engine * 30 * model,
        "avg": (engine + 30 * model) / 2,
        "max": np.maximum(engine, 30 * model),
        "min": np.minimum(engine, 30 * model),
    }
    for mode, scores in ways.items():
        answer = served.search(clause(100, rescore_query_weight=30, score_mode=mode))[2]
        order = np.argsort(-scores, kind="stable")[:10]
        hits = answer["hits"]["hits"]
        assert [hit["_id"] for hit in hits] == [f"d{n}" for n in order], mode
        assert [hit["_score"] for hit in hits] == pytest.approx(scores[order].tolist()), mode
    # Ten documents are the engine's own default for a window.
    ten = served.search({**clause(None, query_weight=0), "size": 12})[2]["hits"]["hits"]
    assert [hit["_id"] for hit in ten] == [*expected(10)[0], "d10", "d11"]


REFUSED: list[tuple[Any, str]] = [
    ({}, "name the model"),
    ({**asking(), "rescore": {}}, "name the model"),
    ({**asking(), "sort": ["_score"]}, "sort"),
    ({**asking(), "search_after": [1]}, "search_after"),
    ({**asking(), "knn": {}}, "knn"),
    ({**asking(), "nonsense": 1}, "nonsense"),
    ({**asking(), "size": -1}, "'size' is a whole number from 0"),
    ({**asking(), "from": "x"}, "'from' is a whole number"),
    ({**asking(), "size": 10_001}, "10000"),
    ({**asking(), "collapse": {"field": "x"}}, "collapse"),
    (asking(window=0), "window of 'ext.owpc_ltr'"),
    (asking(param={}), "has 'param', which is not known"),
    ({"ext": {"owpc_ltr": {"model": 3}}}, "the model of 'ext.owpc_ltr' is a number"),
    ({"ext": {"owpc_ltr": {"model": "m", "params": []}}}, "params of 'ext.owpc_ltr' is a list"),
    ({"ext": []}, "'ext' is a list"),
    ({"rescore": []}, "0 clauses"),
    ({"rescore": {"query": {"rescore_query": {"match_all": {}}}}}, "no sltr"),
    (
        {"rescore": {"query": {"rescore_query": {"sltr": {"featureset": "f"}}}}},
        "has 'featureset', which is not known",
    ),
    ({"rescore": {"query": {"rescore_query": {"sltr": {}}, "score_mode": "sum"}}}, "score_mode"),
    (b"{", "not JSON"),
    (b'{"query": {}, "query": {}}', "occurs twice"),
    (b"[]", "the body is a list"),
]


@pytest.mark.parametrize(("body", "words"), REFUSED)
def test_a_search_that_cannot_be_ranked_is_refused_by_name(
    served: Served, body: Any, words: str
) -> None:
    status, headers, answer = served.search(body)
    assert (status, headers) == (400, {})
    assert words in answer["error"]["reason"]
    assert answer["error"]["root_cause"][0]["type"] == answer["error"]["type"]
    assert not served.engine.asked


_TEXT = st.text(max_size=5)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_PARTS = ("query", "size", "from", "track_total_hits", "_source", "aggs", "sort", "rescore", "ext")
_OWN = ("model", "params", "window", "query_id", "\u202e")


@given(
    body=st.dictionaries(st.sampled_from(_PARTS), _JSON, max_size=4),
    own=st.dictionaries(st.sampled_from(_OWN), _JSON, max_size=3),
    url=st.dictionaries(st.sampled_from(("size", "from", "\x1b", "routing")), st.text(max_size=4)),
    shape=st.sampled_from(("ext", "rescore", "neither")),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_is_sent_is_ranked_degraded_or_refused(
    served: Served, body: Any, own: Any, url: dict[str, Any], shape: str
) -> None:
    if shape == "ext":
        body["ext"] = {"owpc_ltr": {"model": "model", "params": PARAMS, **own}}
    elif shape == "rescore":
        sltr = {"model": "model", "params": PARAMS, **own}
        body["rescore"] = {"query": {"rescore_query": {"sltr": sltr}}}
    status, headers, answer = served.search(body, **url)
    if status == 200:
        assert headers[STATUS_HEADER].startswith(("ranked", "degraded; ", "engine; "))
        assert len(answer["hits"]["hits"]) <= body.get("size", 10) or "size" in url
    else:
        assert status == 400
        assert answer["error"]["reason"].isprintable()


def test_parameters_of_the_url_go_to_the_engine_or_are_refused_by_name(served: Served) -> None:
    body = {"query": QUERY, **asking()}
    answer = served.search(body, size=2, preference="me")[2]
    assert [hit["_id"] for hit in answer["hits"]["hits"]] == expected()[0][:2]
    assert served.engine.asked[0].params["preference"] == "me"
    refused: list[dict[str, Any]] = [{name: "x"} for name in ("q", "sort", "scroll", "filter_path")]
    for params in refused:
        (name,) = params
        status, _, answer = served.search(body, **params)
        assert status == 400
        assert f"has '{name}'" in answer["error"]["reason"]
    for index in ("*", "a,b", ".security", "_all", "../x"):
        assert served.search(body, index=index)[0] == 400


def degraded(served: Served, body: dict[str, Any], **given: Any) -> str:
    """The reason of an answer that must be the engine's own."""
    status, headers, answer = served.search({**body, **asking()}, **given)
    assert status == 200
    assert answer == served.plain(body)
    word, _, reason = headers[STATUS_HEADER].partition("; ")
    assert word == "degraded"
    assert MODEL_HEADER not in headers
    return reason


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"model": "other"}, "model: no model 'other' is served here"),
        ({"params": {}}, "features: the feature set 'small' needs 'keywords'"),
    ],
)
def test_a_model_that_cannot_answer_leaves_the_engines_order(
    served: Served, asked: dict[str, Any], reason: str
) -> None:
    body = {"query": QUERY, "from": 2, "aggs": {"sizes": {}}}
    status, headers, answer = served.search({**body, **asking(**asked)})
    assert status == 200
    assert headers[STATUS_HEADER].startswith(f"degraded; {reason}")
    assert answer == served.plain(body)
    assert served.noted.degradations == [(PATH, reason.partition(":")[0])]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Reply({"took": 1}, drip=0.3), ("engine", "deadline")),
        (Reply({"error": {"type": "too_many_clauses", "reason": "much"}}, 400), "features: "),
        (Reply(b"<html>", 200), "engine"),
        (Reply({**whole([], 0), "timed_out": True}), "features: "),
        (Reply([]), "engine"),
        (Reply({"took": 1, "timed_out": False, "_shards": {"failed": 1}, "hits": {}}), "features"),
    ],
)
def test_features_that_do_not_come_leave_the_engines_order(
    served: Served, fault: Reply, reason: str | tuple[str, ...]
) -> None:
    """The search with the features is answered badly, the plain one is not."""

    def answer(asked: Any) -> Reply:
        return fault if "rescore" in asked.body else served.engine.answer(asked)

    served.fake.on("POST", f"/{INDEX}/_search", answer)
    started = time.monotonic()
    assert degraded(served, {"query": QUERY, "size": 3}, seconds=2.0).startswith(reason)
    assert time.monotonic() - started < 2.0


@pytest.mark.parametrize(
    "values",
    [
        {"matched_queries": ["title"]},
        {"matched_queries": {"another": 1.0}},
        {"matched_queries": {"title": "x"}},
    ],
)
def test_strange_features_leave_the_engines_order(served: Served, values: dict[str, Any]) -> None:
    def answer(asked: Any) -> Reply:
        reply = served.engine.answer(asked)
        if "rescore" in asked.body:
            reply.body["hits"]["hits"][5] |= values
        return reply

    served.fake.on("POST", f"/{INDEX}/_search", answer)
    assert degraded(served, {"query": QUERY}).startswith("features: ")


def test_scoring_that_takes_too_long_leaves_the_engines_order(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = served.rankers.get("model").ranker
    monkeypatch.setattr(type(ranker), "rerank", lambda *_: time.sleep(3))
    started = time.monotonic()
    assert degraded(served, {"query": QUERY}, seconds=0.6).startswith("deadline: ")
    assert time.monotonic() - started < 0.6


def test_a_model_that_fails_leaves_the_engines_order(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ranker = served.rankers.get("model").ranker
    monkeypatch.setattr(type(ranker), "rerank", lambda *_: dict[str, int]()["a word of a user"])
    assert degraded(served, {"query": QUERY}) == "model: the model failed: KeyError"
    # The log says where, and not what users typed.
    assert "KeyError in " in caplog.text
    assert "user" not in caplog.text


def test_a_search_whose_deadline_has_passed_gets_the_engines_order(served: Served) -> None:
    assert degraded(served, {"query": QUERY}, seconds=-0.1, late=10.0)
    status, _, answer = served.search({"query": QUERY, **asking()}, seconds=-0.1)
    assert (status, answer["error"]["type"]) == (503, "engine_unavailable")


def test_an_engine_that_does_not_say_what_it_is_answers_searches(served: Served) -> None:
    served.fake.on("GET", "/", Reply({}, drip=0.2))
    for _ in range(2):
        status, headers, _ = served.search({"query": QUERY, **asking()}, seconds=0.8, late=10.0)
        assert status == 200
        assert headers[STATUS_HEADER].partition(";")[0] in {"ranked", "degraded"}
    collapsed = {"query": QUERY, "collapse": {"field": "brand"}, **asking()}
    assert served.search(collapsed, seconds=0.8, late=10.0)[0] == 200


def test_scores_that_are_no_numbers_leave_the_engines_order(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = served.rankers.get("model").ranker
    monkeypatch.setattr(type(ranker), "rerank", lambda _self, rows, *_: np.full(len(rows), np.nan))
    assert degraded(served, {"query": QUERY}).startswith("scores: ")


def test_the_engines_own_errors_are_answered_as_it_says_them(served: Served) -> None:
    error = {"type": "parsing_exception", "reason": "unknown query [x]"}
    served.fake.on(
        "POST", f"/{INDEX}/_search",
        Reply({"error": {"root_cause": [error], **error}, "status": 400}, 400),
    )  # fmt: skip
    status, headers, answer = served.search({"query": QUERY, **asking()})
    assert (status, headers) == (400, {})
    assert answer["error"] == {"root_cause": [error], **error}
    status, _, answer = served.search({"query": QUERY, **asking()}, index="nowhere")
    assert status == 404
    assert answer["error"]["type"] == "index_not_found_exception"
    assert not served.noted.degradations


def test_elasticsearchs_clients_know_their_engine(served: Served) -> None:
    assert "X-Elastic-Product" not in served.search({"query": QUERY, **asking()})[1]
    served.engine.distribution = "elasticsearch"
    before = served.engine.asked.copy()
    assert served.search({"query": QUERY, **asking()})[1]["X-Elastic-Product"] == "Elasticsearch"
    assert len(served.engine.asked) == len(before) + 1


def test_external_features_are_looked_up_for_the_window(served: Served, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = {"query_id": ["q1", "q1"], "document_id": ["d4", "d99"], "ctr": [40.0, 50.0]}
    pq.write_table(pa.table(rows), tmp_path / "ctr.parquet")
    tables = read_external_features([tmp_path / "ctr.parquet"])
    record = {**MODEL.record, "joined_tables": [tables[0].source.as_dict()]}
    weights = np.array([*MODEL.weights, 1.0])
    save_model(LinearModel((*NAMES, "ctr"), weights, record=record), tmp_path / "joined.json")
    served.rankers = Rankers(served.rankers.cluster, [tmp_path / "joined.json"], tables=tables)
    body = {"query": QUERY, **asking(model="joined", query_id="q1")}
    status, headers, answer = served.search(body)
    assert (status, headers[STATUS_HEADER]) == (200, "ranked")
    scores = np.array(model_scores(list(range(100))))
    scores[[4, 99]] += [40, 50]
    order = np.argsort(-scores, kind="stable")[:10]
    assert [hit["_id"] for hit in answer["hits"]["hits"]] == [f"d{n}" for n in order]
    assert served.noted.rows[0].shape == (100, len(NAMES) + 1)
    headers = served.search({"query": QUERY, **asking(model="joined")})[1]
    assert headers[STATUS_HEADER].startswith("degraded; features: ")
    assert "query_id" in headers[STATUS_HEADER]


def test_what_was_shown_is_logged_under_the_id_that_clicks_name(
    served: Served, tmp_path: Path
) -> None:
    served.log = ImpressionLog(tmp_path / "shown.jsonl")
    body = {"query": QUERY, "size": 3, **asking()}
    headers = served.search(body)[1]
    body["ext"]["ubi"] = {"query_id": "q-1", "client_id": "c", "user_query": "What I Typed"}
    assert served.search({**body, "from": 3})[1][QUERY_HEADER] == "q-1"
    body["ext"]["owpc_ltr"] = {"model": "other"}
    served.search(body)
    served.search({**body, "from": 3})  # what stands above is not known
    lines = [json.loads(line) for line in (tmp_path / "shown.jsonl").read_text().splitlines()]
    ids = expected()[0]
    assert [line["query_response_hit_ids"] for line in lines] == [
        ids[:3], ids[:6], ["d0", "d1", "d2"],
    ]  # fmt: skip
    assert lines[0]["query_id"] == headers[QUERY_HEADER]
    assert [line["user_query"] for line in lines] == ["title", "What I Typed", "What I Typed"]
    assert [line.get("client_id") for line in lines] == [None, "c", "c"]
    assert [line["query_attributes"]["status"] for line in lines] == [
        "ranked", "ranked", "degraded",
    ]  # fmt: skip
    assert all("ubi" not in request.body.get("ext", {}) for request in served.engine.asked)
