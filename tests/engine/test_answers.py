"""What stands before an engine may answer anything, with 200: each is one line, never a traceback.

Nothing that is not an engine's own form of answer is taken for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import check_whole, hits_of, part_of, search_hits
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import Certificates
from owpc_ltr.engine.deployment.model_lifecycle import delete, promote, prunable
from owpc_ltr.engine.deployment.model_upload import upload_model
from owpc_ltr.engine.deployment.verify import verify_model
from owpc_ltr.engine.search.capacity import capacity
from owpc_ltr.engine.search.latency import timed
from owpc_ltr.engine.search.request import SearchRequest, default_query
from owpc_ltr.engine.search.search import search_stored
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.engine.stores.store import Search, Store
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, Refused
from owpc_ltr.formats.stored_model import StoredModel
from tests.engine.small_cluster import FEATURESET, linear

WHOLE = {"timed_out": False, "_shards": {"total": 1, "failed": 0}, "took": 1}
INNER: list[Any] = [None, [], 7, "text", True, {}, {"a": None}, [None], [{}], [[]]]


def strange_answers() -> list[Any]:
    """Something else in each place of an answer in which an engine puts what we look at."""
    found = list(INNER)
    for inner in INNER:
        hit = {"_id": "d0", "_score": inner, "sort": inner, "_source": inner}
        found += [
            {"_source": inner},
            *({"_source": {key: inner}} for key in ("featureset", "model", "certificate")),
            {"_source": {"name": "m", "current": inner, "previous": inner}},
            {"_shards": inner},
            {**WHOLE, "hits": inner},
            {**WHOLE, "hits": {"hits": inner, "total": {"value": 1}}},
            {**WHOLE, "hits": {"hits": [hit], "total": inner}},
            {"small": inner},
            {"small": {"mappings": inner}},
        ]
    return found


class Anything(Engine):
    """Answers every request alike."""

    def __init__(self, answer: Any) -> None:
        super().__init__(ConnectionSettings("http://127.0.0.1:1"))
        self.given = answer

    def request(self, *asked: Any, **given: Any) -> Any:
        return self.given


MODEL = StoredModel("m", "model/linear", {"title": 1.0}, FEATURESET)
QUERY: dict[str, Any] = {"match": {"body": "{{keywords}}"}}
PARAMS = {"keywords": "alpha"}
STORES: dict[str, Callable[[Engine], Store]] = {
    "ltr-plugin": LtrPluginStore,
    "plugin-free": PluginFreeStore,
}
ACTS: dict[str, Callable[[Engine, Store], object]] = {
    "get a set": lambda _, store: store.get_featureset("f"),
    "list sets": lambda _, store: store.list_featuresets(),
    "put a set": lambda _, store: store.put_featureset(FEATURESET),
    "replace a set": lambda _, store: store.put_featureset(FEATURESET, replace=True),
    "get a model": lambda _, store: store.get_model("m"),
    "put a model": lambda _, store: store.put_model(MODEL),
    "list models": lambda _, store: store.list_models(),
    "delete a model": lambda _, store: store.delete_model("m"),
    "find a name": lambda engine, store: Aliases(engine, store).find("m"),
    "all names": lambda engine, store: Aliases(engine, store).all(),
    "move a name": lambda engine, store: Aliases(engine, store).move("m", "m-1"),
    "go back": lambda engine, store: Aliases(engine, store).roll_back("m"),
    "certificate": lambda engine, store: Certificates(engine, store).get("m"),
    "prune": prunable,
    "delete": lambda engine, store: delete(engine, store, "m-3d3573b3"),
    "promote": lambda engine, store: promote(engine, store, "m-3d3573b3"),
    "upload": lambda engine, store: upload_model(engine, store, linear(), FEATURESET, "small", "m"),
    "verify": lambda engine, store: verify_model(engine, store, "m", "small", tolerance=1e-5),
    "search": lambda engine, store: search_stored(
        engine, store, SearchRequest("small", QUERY, PARAMS), MODEL
    ),
    "fields": lambda engine, _: default_query(engine, "small"),
    "time": lambda engine, _: timed(
        engine, "small", {"a": lambda _: Search({"query": {}})}, [PARAMS], 1
    ),
    "size": lambda engine, store: capacity(engine, store, FEATURESET, MODEL, PARAMS),
    "identity": lambda engine, _: engine.identity(),
}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("act", ACTS)
def test_any_answer_is_understood_or_refused_in_one_line(act: str, kind: str) -> None:
    messages = []
    for answer in strange_answers():
        engine = Anything(answer)
        try:
            ACTS[act](engine, STORES[kind](engine))
        except OwpcLtrError as error:
            messages.append(str(error))
    assert [message for message in messages if not message.isprintable()] == []
    # What only writes, or only tells what it was told, may take any answer.
    assert messages or act in {"size", "delete a model", "put a set", "replace a set"}


def test_an_answer_of_a_part_of_the_shards_is_told_from_one_of_something_else() -> None:
    whole = {"timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": [{"_id": "a"}]}}
    assert check_whole(whole, "it") == whole
    assert hits_of(whole, "it", "_id") == [{"_id": "a"}]
    parts: list[dict[str, Any]] = [{"timed_out": True}, {"_shards": {"failed": 1}}, {"_shards": {}}]
    for part in parts:
        with pytest.raises(Refused, match="part of the index"):
            hits_of({**whole, **part}, "it")
    others: list[Any] = [None, [], {}, {**whole, "hits": []}, {**whole, "hits": {"hits": [None]}}]
    for other in others:
        with pytest.raises(EngineUnavailable, match="not an engine's answer"):
            hits_of(other, "it")
    with pytest.raises(EngineUnavailable, match="what came for it"):
        hits_of(whole, "it", "_score")
    with pytest.raises(EngineUnavailable):
        part_of(None, "_source", "it")


@pytest.mark.parametrize(
    ("shards", "whole"),
    [
        ({"total": 2, "successful": 2, "skipped": 1, "failed": 0}, True),
        ({"total": 2, "successful": 1, "skipped": 1, "failed": 0}, True),
        ({"failed": 0}, True),
        ({"total": 2, "successful": 1, "skipped": 0, "failed": 0}, False),
        ({"total": 2, "successful": 1, "skipped": 0, "failed": 1}, False),
    ],
)
def test_an_answer_is_whole_if_every_shard_is_heard(shards: dict[str, int], whole: bool) -> None:
    answer = {"timed_out": False, "_shards": shards}
    if whole:
        assert check_whole(answer, "it") == answer
        return
    with pytest.raises(Refused, match="a part of the index only"):
        check_whole(answer, "it")


def _found(ids: str, **more: Any) -> dict[str, Any]:
    hits = [{"_index": "small", "_id": name, "_score": 1.0} for name in ids]
    shards = {"total": 1, "successful": 1, "failed": 0}
    return {**WHOLE, "_shards": shards, "hits": {"hits": hits, **more}}


def _total(value: int, relation: str = "eq") -> dict[str, Any]:
    return {"total": {"value": value, "relation": relation}}


@pytest.mark.parametrize(
    ("answer", "body", "why"),
    [
        (_found("aba", **_total(3)), {"size": 3}, "document 'a' twice"),
        (_found("ab", **_total(3)), {"size": 3}, "2 hits, where its total of 3 has 3"),
        (_found("ab", **_total(30, "gte")), {"size": 3}, "2 hits, where its total of 30 has 3"),
        (_found("a", total=5), {"size": 2, "from": 3}, "1 hits, where its total of 5 has 2"),
        (_found("", **_total(1)), {}, "0 hits, where its total of 1 has 1"),
        (_found("abc", **_total(3)), {"size": 2}, "3 hits, where 2 were asked for"),
    ],
)
def test_hits_that_no_engine_gives_are_refused(
    answer: dict[str, Any], body: dict[str, Any], why: str
) -> None:
    with pytest.raises(Refused, match=why):
        search_hits(answer, "the search", body)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (_found("ab", **_total(2)), {"size": 10}),
        (_found("a", **_total(4)), {"size": 2, "from": 3}),
        (_found("", **_total(4)), {"size": 2, "from": 9}),
        (_found("ab"), {"size": 10, "track_total_hits": False}),
        (_found("ab", **_total(9)), {"size": 10, "collapse": {"field": "brand"}}),
        (_found("ab", **_total(9)), {"size": 10, "min_score": 1}),
        (_found("ab", **_total(9)), {"size": 2}),
    ],
)
def test_hits_that_an_engine_may_give_are_believed(
    answer: dict[str, Any], body: dict[str, Any]
) -> None:
    assert len(search_hits(answer, "the search", body)) == len(answer["hits"]["hits"])


def test_documents_of_two_indices_may_have_one_id() -> None:
    answer = _found("ab", **_total(2))
    answer["hits"]["hits"][0]["_id"] = "b"
    answer["hits"]["hits"][0]["_index"] = "other"
    assert len(search_hits(answer, "the search", {"size": 2})) == 2
