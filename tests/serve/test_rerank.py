"""Rerank requests: every shape, every kind of document, and answers that strict clients take."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from owpc_ltr_rerankers.exchangeable import Exchangeable, ExchangeableReordering, ReorderingShape
from owpc_ltr_serve import rerank
from owpc_ltr_serve.endpoint import BadRequest, Call, json_reply
from owpc_ltr_serve.rankers import Rankers
from owpc_ltr_serve.rerank import MOST_DOCUMENTS, Candidates, ranked, rerank_endpoints

from owpc_ltr import OwpcLtrError, connect
from owpc_ltr.data.external_features import read_external_features
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from tests.engine.fake_engine import FakeEngine
from tests.engine.memory_engine import find
from tests.serve.java import java_casts
from tests.serve.searched_engine import MODEL, NAMES, SearchedEngine, features_of, model_scores
from tests.serve.service import NotedMetrics

PATHS = ("/v1/rerank", "/v2/rerank")
NUMBERS = [4, 9, 2, 6, 17, 3, 1]
"""Of the documents of a request: some have no title."""


@dataclass
class Service:
    """The endpoints, without a server."""

    rankers: Rankers
    engine: SearchedEngine

    def ask(self, path: str, body: Any) -> Any:
        """The content of an answer."""
        return json.loads(self.reply(path, body).body)

    def reply(self, path: str, body: Any) -> Any:
        """An answer."""
        handlers = {
            endpoint.path: endpoint.handler
            for endpoint in rerank_endpoints(self.rankers, NotedMetrics())
        }
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return handlers[path](Call(path, content, time.monotonic() + 20))


class Lacking(SearchedEngine):
    """It has no document whose id begins with an x."""

    def search(self, body: Mapping[str, Any], params: Mapping[str, str]) -> dict[str, Any]:
        ids = find(body.get("query"), "ids")
        if ids is not None:
            ids["values"] = [doc_id for doc_id in ids["values"] if doc_id[0] != "x"]
        answer = super().search(body, params)
        if ids is not None:
            answer["hits"]["total"]["value"] = len(ids["values"])
        return answer


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    save_model(MODEL, tmp_path / "model.json")
    engine = Lacking()
    with FakeEngine() as fake:
        engine.scripts(fake)
        rankers = Rankers(connect(fake.url), [tmp_path / "model.json"], index="movies")
        yield Service(rankers, engine)


def as_log(number: int, turned: bool = False) -> str:
    """The LTR plugin's log as Java prints a map; a feature without a value has a name only."""
    values = features_of(number)
    entries = []
    for name in NAMES:
        parts = [f"name={name}"] + ([f"value={values[name]!r}"] if name in values else [])
        entries.append("{" + ", ".join(parts[::-1] if turned else parts) + "}")
    return "{main=[" + ", ".join(entries[::-1] if turned else entries) + "]}"


KINDS: dict[str, Callable[[int], Any]] = {
    "object": features_of,
    "object with null": lambda n: {name: features_of(n).get(name) for name in NAMES},
    "object and other keys": lambda n: {**features_of(n), "text": "Insidious", "year": "2013"},
    "JSON text": lambda n: json.dumps(features_of(n)),
    "JSON in a text": lambda n: {"text": json.dumps(features_of(n)), "id": n},
    "log": as_log,
    "log, turned": lambda n: as_log(n, turned=True),
    "log in a list": lambda n: f"[{as_log(n)}]",
    "id": lambda n: f"d{n}",
    "id in a text": lambda n: {"text": f"d{n}"},
}


def expected() -> tuple[list[int], list[float]]:
    """The documents' order by the model on this machine, and their scores in that order."""
    scores = np.array(model_scores(NUMBERS))
    order = np.argsort(-scores, kind="stable").tolist()
    return order, scores[order].tolist()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_document_is_ranked_as_the_model_does(
    service: Service, path: str, kind: str
) -> None:
    documents = [KINDS[kind](number) for number in NUMBERS]
    body = {"model": "model", "query": "title", "documents": documents}
    results = service.ask(path, body)["results"]
    order, scores = expected()
    assert [result["index"] for result in results] == order
    relevance = [result["relevance_score"] for result in results]
    assert relevance == pytest.approx(scores, rel=1e-9)


def test_ids_cost_one_search_however_often_one_comes(service: Service) -> None:
    service.rankers.located(service.rankers.get())
    service.engine.asked.clear()
    documents = ["d4", "d2", "d4", "d2", "d9"]
    answer = service.ask("/v2/rerank", {"query": "title", "documents": documents})
    assert [result["index"] for result in answer["results"]] == np.argsort(
        -np.array(model_scores([4, 2, 4, 2, 9])), kind="stable"
    ).tolist()
    (asked,) = service.engine.asked
    assert asked.body["size"] == 3
    assert asked.params["allow_partial_search_results"] == "false"


def test_equal_scores_stay_in_the_order_of_the_request(service: Service) -> None:
    same, better = features_of(1), {**features_of(1), "size": 99.0}
    documents = [same, same, better, same]
    answer = service.ask("/v2/rerank", {"query": "q", "documents": documents})
    assert [result["index"] for result in answer["results"]] == [2, 0, 1, 3]


def test_all_come_back_unless_fewer_are_asked_for(service: Service) -> None:
    documents = [features_of(number) for number in NUMBERS]
    order, _ = expected()
    for path in PATHS:
        for top, many in ((None, 7), (3, 3), (7, 7), (100, 7)):
            body = {"query": "q", "documents": documents, "top_n": top}
            indices = [result["index"] for result in service.ask(path, body)["results"]]
            assert indices == order[:many]


def test_documents_come_back_with_a_text(service: Service) -> None:
    texts = [json.dumps(features_of(number)) for number in NUMBERS]
    body = {"query": "q", "documents": texts, "return_documents": True}
    for path in PATHS:
        for result in service.ask(path, body)["results"]:
            assert result["document"] == {"text": texts[result["index"]]}
    objects = [features_of(number) for number in NUMBERS]
    for result in service.ask("/v1/rerank", {**body, "documents": objects})["results"]:
        assert result["document"] == objects[result["index"]]
    assert "document" not in service.ask("/v1/rerank", {"query": "q", "documents": texts})[
        "results"][0]  # fmt: skip


def test_keys_of_other_clients_are_ignored(service: Service) -> None:
    body = {
        "model": "model",
        "query": "q",
        "documents": [features_of(1)],
        "top_k": 5,
        "max_tokens_per_doc": 4096,
        "rank_fields": ["text"],
        "truncate": "END",
        "priority": {"a": 1},
    }
    assert len(service.ask("/v2/rerank", body)["results"]) == 1


WRONG: dict[str, tuple[Any, str]] = {
    "no documents": ({"query": "q"}, "'documents' is missing"),
    "no query": ({"documents": [{}]}, "'query' is missing"),
    "empty": ({"query": "q", "documents": []}, "'documents' is empty"),
    "query": ({"query": 7, "documents": [{}]}, "'query' is a number, not a text"),
    "documents": ({"query": "q", "documents": "d1"}, "'documents' is a text, not a list"),
    "document": ({"query": "q", "documents": [7]}, r"documents\[0\] is a number, not a text or"),
    "null": ({"query": "q", "documents": ["d1", None]}, r"documents\[1\] is null, not a text or"),
    "model": ({"query": "q", "documents": ["d1"], "model": 7}, "'model' is a number, not a text"),
    "top_n": ({"query": "q", "documents": ["d1"], "top_n": "3"}, "'top_n' is a text, not a whole"),
    "no top_n": ({"query": "q", "documents": ["d1"], "top_n": 0}, "'top_n' is 0: at least 1"),
    "half": ({"query": "q", "documents": ["d1"], "top_n": 1.5}, "'top_n' is a number, not a whole"),
    "true": ({"query": "q", "documents": ["d1"], "top_n": True}, "'top_n' is true or false"),
    "return": (
        {"query": "q", "documents": ["d1"], "return_documents": "yes"},
        "'return_documents' is a text, not true or false",
    ),
    "params": ({"query": "q", "documents": ["d1"], "params": []}, "'params' is a list, not an obj"),
    "query_id": ({"query": "q", "documents": ["d1"], "query_id": 3}, "'query_id' is a number"),
    "text for a number": (
        {"query": "q", "documents": [{"title": 1.5}, {"title": "1.5"}]},
        r"documents\[1\]\.title is a text, not a number",
    ),
    "true for a number": (
        {"query": "q", "documents": [{"size": True}]},
        r"documents\[0\]\.size is true or false, not a number",
    ),
    "too large": (
        {"query": "q", "documents": [{"size": 1.0}, {"size": 1e39}]},
        r"documents\[1\]\.size is 1e\+39, which is not a finite 32-bit number",
    ),
    "no feature": (
        {"query": "q", "documents": [{"titel": 1.0}]},
        "no document has a feature of the model ",
    ),
    "two kinds": (
        {"query": "q", "documents": [{"size": 1.0}, "d1"]},
        r"documents\[1\] is of another kind",
    ),
    "broken log": (
        {"query": "q", "documents": ["{main=[{name=size, value=abc}]}"]},
        r"documents\[0\] begins like an object, and is neither JSON nor the LTR plugin's log",
    ),
    "cut log": ({"query": "q", "documents": [as_log(1)[:-4]]}, r"documents\[0\] begins like an ob"),
    "log with a feature twice": (
        {"query": "q", "documents": ["{main=[{name=size, value=1.0}, {name=size, value=2.0}]}"]},
        r"documents\[0\] has the feature 'size' twice",
    ),
    "broken JSON": (
        {"query": "q", "documents": ['{"size":}']},
        r"documents\[0\] begins like a JSON object",
    ),
    "unknown ids": (
        {"query": "q", "documents": ["x1", "x2"]},
        "documents: 'movies' has none of these 2 ids",
    ),
    "list": ([1], "the body is a list, not an object"),
    "no JSON": (b'{"query": "q",', "the body is not JSON"),
    "NaN": (b'{"query": "q", "documents": [{"size": NaN}]}', "the body is not JSON"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_by_name(service: Service, case: str) -> None:
    body, message = WRONG[case]
    with pytest.raises(BadRequest, match=message):
        service.ask("/v2/rerank", body)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
    | st.sampled_from(["", "d1", "d4", "{", "{}", "[{", '{"size": 1}', "{main=[]}", as_log(4)])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from([*NAMES, "text", "_id", "a.b"]) | st.text(max_size=3), inner, max_size=4
    ),
    max_leaves=12,
)  # fmt: skip
KEYS = ["model", "query", "documents", "texts", "top_n", "return_documents", "params", "query_id"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(KEYS), VALUES), st.lists(VALUES, max_size=4), st.booleans())
def test_anything_is_ranked_or_refused(
    service: Service, body: dict[str, Any], documents: list[Any], valid: bool
) -> None:
    if valid:
        body = {**body, "query": "q", "model": None, "documents": documents}
    content = json.dumps(body).encode()
    for path in PATHS:
        try:
            answer = service.ask(path, content)
        except OwpcLtrError:
            continue
        places = [result["index"] for result in answer["results"]]
        assert len(set(places)) == len(places)
        sent = body["documents"]
        assert set(places) <= set(range(len(sent)))
        assert len(places) == len(sent) or body.get("top_n")


def test_there_may_be_so_many_documents(service: Service) -> None:
    documents = [{"size": float(number % 97)} for number in range(MOST_DOCUMENTS)]
    answer = service.ask("/v2/rerank", {"query": "q", "documents": documents})
    assert len(answer["results"]) == MOST_DOCUMENTS
    with pytest.raises(BadRequest, match="'documents' has 10001 entries: at most 10000"):
        service.ask("/v2/rerank", {"query": "q", "documents": [*documents, {}]})


def test_a_feature_that_no_document_has_is_told(service: Service) -> None:
    documents = [{"size": 1.0}, {"size": 2.0, "body": 3.0}]
    answer = service.ask("/v2/rerank", {"query": "q", "documents": documents})
    assert answer["meta"]["warnings"] == ["no document has a value of title"]


def test_documents_that_the_index_lacks_come_last_and_are_told(service: Service) -> None:
    documents = ["x9", "d4", "x8", "d9"]
    reply = service.reply("/v2/rerank", {"query": "title", "documents": documents})
    results = json.loads(reply.body)["results"]
    assert [result["index"] for result in results[2:]] == [0, 2]
    lowest = min(model_scores([4, 9]))
    assert [result["relevance_score"] for result in results[2:]] == pytest.approx([lowest - 1] * 2)
    assert reply.headers["X-LTR-Status"] == "degraded; 2 of 4 documents without features"
    assert json.loads(reply.body)["meta"]["warnings"] == ["2 of 4 documents are not in the index"]


def test_an_empty_text_among_logs_comes_last(service: Service) -> None:
    """OpenSearch sends one for a hit that lacks the field."""
    reply = service.reply("/v2/rerank", {"query": "q", "documents": ["", as_log(4), as_log(9)]})
    assert json.loads(reply.body)["results"][-1]["index"] == 0
    assert reply.headers["X-LTR-Status"] == "degraded; 1 of 3 documents without features"


def test_scores_that_are_no_numbers_are_refused(service: Service, tmp_path: Path) -> None:
    save_model(LinearModel(("a", "b"), np.array([3e38, 3e38])), tmp_path / "huge.json")
    rankers = Rankers(service.rankers.cluster, [tmp_path / "huge.json"])
    documents = [{"a": 0.5, "b": 0.5}, {"a": 3e38, "b": 3e38}]
    huge = Service(rankers, service.engine)
    with pytest.raises(
        Refused, match=r"gives document 1 the score 1.8.*e\+77, which is not a finite"
    ):
        huge.ask("/v2/rerank", {"query": "q", "documents": documents})
    with pytest.raises(Refused, match=r"gives document 0 the score nan, which is not a"):
        rankers.get().score(np.array([[np.inf, -np.inf]], np.float32))


FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(st.lists(st.one_of(FINITE, st.integers(-5, 5).map(float)), min_size=1, max_size=30))
@example([-2595190770000000.0, 1e10, 9999999999.5, -4.862810965e-05])
def test_java_casts_every_answer(values: list[float]) -> None:
    candidates = Candidates(np.zeros((len(values), 1), np.float32), {})
    scores = ranked(np.array(values), candidates)
    request = rerank.RerankRequest("q", ["d"] * len(values))
    content = rerank.cohere_answer("1", request, scores, ())
    text = json_reply(content).body.decode()
    assert java_casts(text, len(values)) == pytest.approx(values, rel=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        '{"index":0,"relevance_score":1}',
        '{"index":0,"relevance_score":0.30000000000000004}',
        '{"index":0.0,"relevance_score":1.0}',
        '{"index":0,"relevance_score":NaN}',
        '{"index":1,"relevance_score":1.0}',
    ],
)
def test_what_java_does_not_cast_is_caught(text: str) -> None:
    with pytest.raises((TypeError, IndexError)):
        java_casts(f'{{"results":[{text}]}}', 1)


def test_a_document_as_opensearch_prints_it(service: Service) -> None:
    """Floats of Java: exponents, and what is no number."""
    text = "{main=[{name=title, value=1.0E10}, {name=body, value=NaN}, {name=size, value=-4.5E-5}]}"
    answer = service.ask("/v2/rerank", {"query": "q", "documents": [text, text]})
    row = np.array([[1e10, math.nan, -4.5e-5]], np.float32)
    assert answer["results"][0]["relevance_score"] == pytest.approx(float(MODEL.score(row)[0]))


def test_external_features_are_looked_up_for_ids(service: Service, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"document_id": ["d4", "d2"], "ctr": pa.array([9.0, 3.0], pa.float32())}),
        tmp_path / "ctr.parquet",
    )
    tables = read_external_features([tmp_path / "ctr.parquet"])
    record = {**MODEL.record, "joined_tables": [tables[0].source.as_dict()]}
    model = LinearModel((*NAMES, "ctr"), np.array([1.0, -0.5, 2.0, 10.0]), record=record)
    save_model(model, tmp_path / "joined.json")
    with pytest.raises(UsageError, match=r"'ctr' .from ctr\.parquet., which is not in the"):
        Rankers(service.rankers.cluster, [tmp_path / "joined.json"]).get()
    rankers = Rankers(service.rankers.cluster, [tmp_path / "joined.json"], "movies", tables)
    documents = [f"d{number}" for number in NUMBERS]
    joined = Service(rankers, service.engine)
    answer = joined.ask("/v2/rerank", {"query": "title", "documents": documents})
    external = {"d4": 9.0, "d2": 3.0}
    rows = [
        [features_of(n).get(name, math.nan) for name in NAMES] + [external.get(f"d{n}", math.nan)]
        for n in NUMBERS
    ]
    scores = model.score(np.array(rows, np.float32))
    assert [result["index"] for result in answer["results"]] == np.argsort(-scores).tolist()
    assert sorted(result["relevance_score"] for result in answer["results"]) == pytest.approx(
        sorted(scores.tolist())
    )


def of_whole_lists(service: Service, folder: Path) -> tuple[ReorderingModel, Service]:
    """A reranker that compares the documents of a list, and the endpoints that serve it."""
    shape = ReorderingShape("cosine,rbf")
    reordering = ExchangeableReordering(NAMES, shape, np.array([[2.0, -3.0]]), np.ones(1))
    reranker = ReorderingModel(MODEL, Exchangeable.name, reordering, MODEL.record)
    save_model(reranker, folder / "lists.json")
    rankers = Rankers(service.rankers.cluster, [folder / "lists.json"], "movies")
    return reranker, Service(rankers, service.engine)


@pytest.mark.parametrize("kind", ["object", "id"])
def test_a_reranker_of_whole_lists_sees_the_list(
    service: Service, tmp_path: Path, kind: str
) -> None:
    reranker, lists = of_whole_lists(service, tmp_path)
    documents = [KINDS[kind](number) for number in NUMBERS]
    rows = [[features_of(n).get(name, math.nan) for name in NAMES] for n in NUMBERS]
    # What it compiles is no part of the request's time.
    scores = reranker.rerank(np.array(rows, np.float32))
    answer = lists.ask("/v2/rerank", {"query": "title", "documents": documents})
    assert [result["index"] for result in answer["results"]] == np.argsort(-scores).tolist()
    assert np.abs(scores - MODEL.score(np.array(rows, np.float32))).max() > 1e-3


def test_documents_that_are_not_there_change_no_score(service: Service, tmp_path: Path) -> None:
    """A reranker of whole lists sees those that are."""
    _, lists = of_whole_lists(service, tmp_path)
    for kind, nothing in (("id", "x1"), ("log", "")):
        whole = [KINDS[kind](number) for number in NUMBERS]
        results = lists.ask("/v2/rerank", {"query": "title", "documents": whole})["results"]
        gaps = [nothing, *whole[:3], nothing, *whole[3:]]
        places = [1, 2, 3, 5, 6, 7, 8]
        again = lists.ask("/v2/rerank", {"query": "title", "documents": gaps})["results"]
        assert again[:-2] == [{**result, "index": places[result["index"]]} for result in results]
        assert [result["index"] for result in again[-2:]] == [0, 4]


def test_ids_are_told_where_nothing_can_be_asked(service: Service, tmp_path: Path) -> None:
    other = LinearModel(("colour",), np.array([1.0]))
    save_model(other, tmp_path / "other.json")
    rankers = Rankers(service.rankers.cluster, [tmp_path / "other.json"], "movies")
    lone = Service(rankers, service.engine)
    with pytest.raises(OwpcLtrError, match="the store holds no feature set with the reranker's"):
        lone.ask("/v2/rerank", {"query": "q", "documents": ["d1"]})
    answer = lone.ask("/v2/rerank", {"query": "q", "documents": [{"colour": 1}, {"colour": 2}]})
    assert [result["index"] for result in answer["results"]] == [1, 0]
