"""The gateway before a real engine: its answers, its rankings, and aliases that are switched."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opensearchpy import OpenSearch
from opensearchpy.exceptions import RequestError
from owpc_ltr_rerankers.exchangeable import Exchangeable, ExchangeableReordering, ReorderingShape
from owpc_ltr_serve.endpoint import MODEL_HEADER, STATUS_HEADER, Call
from owpc_ltr_serve.gateway import Gateway
from owpc_ltr_serve.metrics import Metrics
from owpc_ltr_serve.model_search import PATH
from owpc_ltr_serve.rankers import Rankers

from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.models.model_file import save_model
from tests.engine.deployed import put, trees, unchecked
from tests.engine.small_cluster import FEATURESET, WORDS, Small, linear, small_cluster
from tests.serve.service import service

QUERY = {"match": {"body": "{{keywords}}"}}


@pytest.fixture(scope="module", params=[1, 3], ids=["one shard", "three shards"])
def small(request: pytest.FixtureRequest, node_url: str) -> Iterator[Small]:
    with small_cluster(node_url, documents=200, shards=request.param) as made:
        yield made


class Asked:
    """A gateway in this process."""

    def __init__(self, small: Small, rankers: Rankers, model: str) -> None:
        self.small, self.rankers, self.model = small, rankers, model
        self.gateway = Gateway(rankers, Metrics(rankers.states))

    def search(self, words: str, **body: Any) -> tuple[str, dict[str, Any]]:
        """The status and the model of an answer, and its content."""
        own = {"model": self.model, "params": {"keywords": words}, **body.pop("own", {})}
        sent = {"query": {"match": {"body": words}}, **body, "ext": {"owpc_ltr": own}}
        until = time.monotonic() + 30
        where = {"index": self.small.index}
        reply = self.gateway.answer(Call(PATH, json.dumps(sent).encode(), until, where))
        assert reply.status == 200, reply.body
        model = reply.headers.get(MODEL_HEADER, "")
        return f"{reply.headers[STATUS_HEADER]}; {model}", json.loads(reply.body)

    def plain(self, words: str, **body: Any) -> dict[str, Any]:
        """The engine's own answer to the same search."""
        sent = {"query": {"match": {"body": words}}, **body}
        answer: dict[str, Any] = self.small.engine.request(
            "POST", f"/{self.small.index}/_search", body=sent
        )
        return answer


@pytest.fixture(scope="module", params=["linear", "trees"])
def asked(small: Small, request: pytest.FixtureRequest) -> Iterator[Asked]:
    """A gateway of a model that stays: other tests switch another alias."""
    own = replace(small, name=f"{small.name}-{request.param}")
    model = linear() if request.param == "linear" else trees()
    put(own, model, client_scored=request.param == "trees")
    rankers = Rankers(own.cluster, [own.name], refresh=0.02)
    rankers.start()
    yield Asked(own, rankers, own.name)
    rankers.stop()


ONE_SHARD = pytest.mark.parametrize(
    "small",
    [1, pytest.param(3, marks=pytest.mark.thorough)],
    ids=["one shard", "three shards"],
    indirect=True,
)
"""For what does not depend on shards."""


def test_the_order_and_the_scores_are_those_of_a_search(asked: Asked) -> None:
    cluster = asked.small.cluster
    for words in (f"{word} {other}" for word in WORDS[:3] for other in WORDS[3:6]):
        # Where the engine scores, each shard has a window of its own: here all documents are in it.
        status, answer = asked.search(words, size=60, own={"window": 200})
        assert status.startswith(f"ranked; {asked.small.name}-")
        search = cluster.search(
            words, model=asked.small.name, index=asked.small.index, query_template=QUERY, size=60,
            window=200,
        )  # fmt: skip
        hits = answer["hits"]["hits"]
        assert [hit["_id"] for hit in hits] == [hit.document_id for hit in search.after], words
        wanted = [hit.score for hit in search.after]
        assert [hit["_score"] for hit in hits] == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        {"aggs": {"sizes": {"stats": {"field": "size"}}}},
        {"aggs": {"best": {"top_hits": {"size": 2}}}, "size": 3},
        {"highlight": {"fields": {"body": {}}}, "_source": ["title"]},
        {"_source": False, "fields": ["size"], "track_total_hits": 20, "from": 4, "size": 4},
        {"post_filter": {"range": {"size": {"gte": 4}}}, "track_total_hits": False},
        {"min_score": 0.2, "docvalue_fields": ["size"], "version": True},
        {"query": {"bool": {"should": [{"match": {"body": {"query": "beta", "_name": "title"}}}]}}},
        {"explain": True, "size": 2},
        {"script_fields": {"twice": {"script": "2 * doc['size'].value"}}},
        {"suggest": {"s": {"text": "alpa", "term": {"field": "body"}}}},
    ],
    ids="+".join,
)
def test_all_but_order_scores_and_times_is_the_engines(asked: Asked, body: dict[str, Any]) -> None:
    status, answer = asked.search("alpha beta", **body)
    assert status.startswith("ranked")
    own = asked.plain("alpha beta", **{**body, "from": 0, "size": 200})
    hits, known = answer["hits"].pop("hits"), own["hits"].pop("hits")
    for each in (answer, own):
        del each["took"]
        each["hits"].pop("max_score")
    assert answer == own
    by_id = {hit["_id"]: hit for hit in known}
    assert hits
    for hit in hits:
        # An explanation is that of the engine's own score.
        assert {**hit, "_score": by_id[hit["_id"]]["_score"]} == by_id[hit["_id"]]


def test_pages_show_every_document_once(asked: Asked) -> None:
    doc_ids: list[str] = []
    for first in range(0, 200, 30):
        _, answer = asked.search("alpha beta", own={"window": 50}, **{"from": first, "size": 30})
        doc_ids += [hit["_id"] for hit in answer["hits"]["hits"]]
    own = asked.plain("alpha beta", size=200)["hits"]["hits"]
    assert len(doc_ids) == len(set(doc_ids)) == len(own)
    assert doc_ids[50:] == [hit["_id"] for hit in own[50:]]


def test_a_reranker_reads_fields_that_the_answer_does_not_show(
    small: Small, tmp_path: Path
) -> None:
    base = linear()
    reordering = ExchangeableReordering(
        base.feature_names, ReorderingShape("rbf,same:title"), np.array([[2.0, -3.0]]), np.ones(1)
    )
    record = {"featureset_hash": FEATURESET.hash}
    save_model(ReorderingModel(base, Exchangeable.name, reordering, record), tmp_path / "rr.json")
    rankers = Rankers(small.cluster, [tmp_path / "rr.json"])
    asked = Asked(small, rankers, "rr")
    cluster = small.cluster
    search = cluster.search(
        "alpha beta", reranker=tmp_path / "rr.json", index=small.index, query_template=QUERY,
        size=30, deadline=30,
    )  # fmt: skip
    wanted = [hit.document_id for hit in search.after]
    for source in ({}, {"_source": ["size"]}, {"_source": False}):
        status, answer = asked.search("alpha beta", size=30, **source)
        assert status.startswith("ranked; rr@"), status
        hits = answer["hits"]["hits"]
        assert [hit["_id"] for hit in hits] == wanted
        own = asked.plain("alpha beta", size=1, **source)["hits"]["hits"][0]
        assert all(hit.get("_source", {}).keys() == own.get("_source", {}).keys() for hit in hits)


@ONE_SHARD
def test_an_alias_that_is_switched_under_load_ranks_each_answer_by_one_model(small: Small) -> None:
    models = [put(small, linear(weights)).alias.current for weights in ((1, 0.5, -0.2), (0, 0, 1))]
    rankers = Rankers(small.cluster, [small.name], refresh=0.02)
    rankers.start()
    asked = Asked(small, rankers, small.name)
    orders = {}
    for model in models:
        gateway = Asked(small, Rankers(small.cluster, [model]), model)
        orders[model] = [hit["_id"] for hit in gateway.search("alpha beta")[1]["hits"]["hits"]]
    assert len({tuple(order) for order in orders.values()}) == 2
    ended = threading.Event()

    def switch() -> None:
        aliases = Aliases(small.engine, small.store)
        while not ended.is_set():
            for model in models:
                aliases.switch(small.name, model, check=unchecked)
                time.sleep(0.1)

    thread = threading.Thread(target=switch)
    thread.start()
    seen: Counter[str] = Counter()
    try:
        until = time.monotonic() + 20
        while min(seen[model] for model in models) < 5 and time.monotonic() < until:
            status, answer = asked.search("alpha beta")
            model = status.removeprefix("ranked; ")
            assert [hit["_id"] for hit in answer["hits"]["hits"]] == orders[model]
            seen[model] += 1
    finally:
        ended.set()
        thread.join()
        rankers.stop()
    assert min(seen[model] for model in models) >= 5


@ONE_SHARD
def test_a_deleted_alias_leaves_the_engines_order_until_it_is_back(small: Small) -> None:
    model = put(small, linear()).alias.current
    rankers = Rankers(small.cluster, [small.name], refresh=0.02)
    rankers.start()
    asked, aliases = Asked(small, rankers, small.name), Aliases(small.engine, small.store)
    own = [hit["_id"] for hit in asked.plain("alpha beta")["hits"]["hits"]]
    ranked = [hit["_id"] for hit in asked.search("alpha beta")[1]["hits"]["hits"]]
    assert own != ranked

    def until(word: str) -> tuple[str, list[str]]:
        for _ in range(500):
            status, answer = asked.search("alpha beta")
            if status.startswith(word):
                return status, [hit["_id"] for hit in answer["hits"]["hits"]]
            time.sleep(0.02)
        raise AssertionError(status)

    try:
        aliases.delete(small.name)
        status, order = until("degraded")
        assert status.startswith("degraded; model: there is no model")
        assert order == own
        aliases.switch(small.name, model, check=unchecked)
        assert until("ranked") == (f"ranked; {model}", ranked)
    finally:
        rankers.stop()


@ONE_SHARD
def test_a_client_of_the_engine_speaks_to_the_gateway(
    small: Small, node_url: str, tmp_path: Path
) -> None:
    put(small, linear())
    words = (small.name, "--store", str(small.store.name), "--deadline", "10")
    with service(tmp_path, node_url, *words) as made:
        client = OpenSearch([{"host": made.host, "port": made.port}])
        sltr = {"model": small.name, "params": {"keywords": "alpha beta"}}
        body = {
            "query": {"match": {"body": "alpha beta"}},
            "rescore": {
                "window_size": 200,
                "query": {"rescore_query": {"sltr": sltr}, "query_weight": 0},
            },
        }
        answer = client.search(index=small.index, body=body, size=7, from_=2, preference="_local")
        wanted = small.cluster.search(
            "alpha beta", model=small.name, index=small.index, query_template=QUERY, size=9,
            window=200,
        )  # fmt: skip
        ids = [hit.document_id for hit in wanted.after]
        assert [hit["_id"] for hit in answer["hits"]["hits"]] == ids[2:]
        with pytest.raises(RequestError, match="unknown query"):
            client.search(index=small.index, body={**body, "query": {"nonsense": {}}})
        client.close()
