"""Live reranking: one request, the scores of offline, the engine's order when things fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_rerankers.exchangeable import Exchangeable, ExchangeableReordering, ReorderingShape

from owpc_ltr import OwpcLtrError
from owpc_ltr.engine.client.engine import About, Engine, open_engine
from owpc_ltr.engine.client.responses import NotAllowed
from owpc_ltr.engine.index import index_documents
from owpc_ltr.engine.search.client_scoring import LiveResult, live_search, prepare
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.staging_index import create_index, drop_index
from owpc_ltr.engine.stores import Store
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.models.linear import LinearModel
from tests.engine.small_cluster import FEATURESET, STORES

QUERY = {"match": {"body": "{{keywords}}"}}
PARAMS = {"keywords": "rank list"}
NAN = float("nan")


def ranker(kernels: str = "cosine,rbf", **record: Any) -> ReorderingModel:
    base = LinearModel(FEATURESET.feature_names, np.array([1.0, 0.5, -0.2]))
    weights = np.linspace(2, -3, kernels.count(",") + 1)[None, :]
    reordering = ExchangeableReordering(
        base.feature_names, ReorderingShape(kernels), weights, np.ones(1)
    )
    return ReorderingModel(base, Exchangeable.name, reordering, record)


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    """No search here waits for a compiler, as in an application that has prepared."""
    prepare(ranker())


@dataclass
class Scripted:
    """An engine that answers searches from a list of feature rows, and notes what was asked."""

    settings: ClassVar[Any] = SimpleNamespace(url="memory:")
    rows: dict[str, list[float]] = field(
        default_factory=lambda: {"a": [3.0, 1.0, 2.0], "b": [2.0, NAN, 9.0], "c": [1.0, 4.0, 0.5]}
    )
    style: str = "plugin-free"
    faults: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    version: str = "3.8.0"
    """Without one, the account may not ask for it."""

    def about(self) -> About:
        if not self.version:
            raise NotAllowed("GET / is not allowed (403)")
        return About("opensearch", self.version, "a cluster", "u")

    def request(self, method: str, path: str, **given: Any) -> Any:
        self.asked.append((path, given))
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        body = given["body"]
        logged = "rescore" in body or "constant_score" in body["query"]
        hits = [self._hit(*item, logged) for item in self.rows.items()]
        answer = {
            "took": 3,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "failed": 0},
            "hits": {"hits": hits},
        }
        return answer if fault is None else fault(answer)

    def _hit(self, document: str, row: list[float], logged: bool) -> dict[str, Any]:
        hit: dict[str, Any] = {"_id": document, "_score": row[0], "_source": {"site": document}}
        values = zip(FEATURESET.feature_names, row, strict=True)
        if logged and self.style == "plugin-free":
            hit["matched_queries"] = {name: value for name, value in values if value == value}  # noqa: PLR0124 - NaN
        elif logged:
            entries = [
                {"name": name} | ({"value": value} if value == value else {})  # noqa: PLR0124 - NaN
                for name, value in values
            ]
            hit["fields"] = {"_ltrlog": [{"main": entries}]}
        return hit


OLD = "2.19.6"


def search(engine: Scripted, model: ReorderingModel | None = None, **options: Any) -> LiveResult:
    store: Store = STORES[engine.style](engine)  # type: ignore[arg-type]
    options = {"featureset": FEATURESET, "deadline": 60.0, **options}
    shown = {name: options.pop(name) for name in ("size", "window") if name in options}
    request = SearchRequest("docs", QUERY, PARAMS, **shown)
    return live_search(engine, store, request, model or ranker(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("style", ["plugin-free", "ltr-plugin"])
def test_one_request_brings_the_window_and_is_reordered(style: str) -> None:
    engine = Scripted(style=style)
    result = search(engine, size=2)
    assert (result.reordered, result.reason, result.took) == (True, "", 3)
    matrix = np.array(list(engine.rows.values()), dtype=np.float32)
    scores = ranker().rerank(matrix)
    order = np.argsort(-scores)
    assert [hit.document_id for hit in result.hits] == ["abc"[i] for i in order[:2]]
    assert [hit.score for hit in result.hits] == scores[order[:2]].tolist()
    assert [hit.engine_rank for hit in result.hits] == (order[:2] + 1).tolist()
    ((path, given),) = engine.asked
    assert path == "/docs/_search"
    assert given["body"]["size"] == given["body"]["rescore"][0]["window_size"] == 100
    weights = given["body"]["rescore"][0]["query"]
    assert (weights["query_weight"], weights["rescore_query_weight"]) == (1, 0)
    assert given["deadline"] == 60.0


@pytest.mark.parametrize(
    "fault",
    [
        EngineUnavailable("no answer in time"),
        Refused("too many clauses"),
        lambda answer: {**answer, "timed_out": True},
        lambda answer: {**answer, "_shards": {"total": 2, "failed": 1}},
        lambda answer: {"hits": {}},
        lambda answer: [],
    ],
)
def test_where_the_request_fails_a_plain_one_gives_the_engines_order(fault: Any) -> None:
    engine = Scripted(faults=[fault])
    result = search(engine, deadline=0.2)
    assert not result.reordered
    assert result.reason
    assert [hit.document_id for hit in result.hits] == ["a", "b", "c"]
    assert [hit.score for hit in result.hits] == [3.0, 2.0, 1.0]
    assert "rescore" not in engine.asked[1][1]["body"]


@pytest.mark.parametrize("version", [OLD, ""])
def test_an_engine_that_cannot_do_both_in_one_is_asked_for_the_features_of_the_hits(
    version: str,
) -> None:
    """Also one whose version the account may not ask for: every feature might seem missing."""
    engine, once = Scripted(version=version), Scripted()
    result, wanted = search(engine, size=2), search(once, size=2)
    assert (result.reordered, result.reason, result.took) == (True, "", 6)
    assert [(hit.document_id, hit.score) for hit in result.hits] == [
        (hit.document_id, hit.score) for hit in wanted.hits
    ]
    first, second = (given["body"] for _, given in engine.asked)
    assert "rescore" not in first
    (ids,) = second["query"]["constant_score"]["filter"]["bool"]["filter"]
    assert ids == {"ids": {"values": ["a", "b", "c"]}}
    assert second["size"] == 3
    assert engine.asked[1][1]["deadline"] <= engine.asked[0][1]["deadline"]


def test_a_hit_that_goes_away_between_two_searches_leaves_the_engines_order() -> None:
    def lose(answer: Any) -> Any:
        answer["hits"]["hits"].pop()
        return answer

    result = search(Scripted(version=OLD, faults=[None, lose]))
    assert not result.reordered
    assert "document 'c' went away" in result.reason
    assert [hit.document_id for hit in result.hits] == ["a", "b", "c"]
    nothing = Scripted(version=OLD, rows={})
    assert search(nothing).reordered
    assert len(nothing.asked) == 1


def test_a_missing_right_is_an_error_and_not_the_engines_order() -> None:
    with pytest.raises(NotAllowed, match="need read"):
        search(Scripted(faults=[NotAllowed("the credentials need read (403)")]))


def test_where_the_plain_search_fails_too_the_fault_is_raised() -> None:
    with pytest.raises(EngineUnavailable, match="again"):
        search(Scripted(faults=[Refused("once"), EngineUnavailable("and again")]))


@pytest.mark.parametrize("style", ["plugin-free", "ltr-plugin"])
def test_hits_without_features_keep_the_engines_order_without_another_request(style: str) -> None:
    def strip(answer: Any) -> Any:
        answer["hits"]["hits"][1] |= {"matched_queries": ["body"], "fields": {}}
        return answer

    engine = Scripted(style=style, faults=[strip])
    result = search(engine)
    assert not result.reordered
    assert "features" in result.reason or "names the matching queries" in result.reason
    assert [hit.document_id for hit in result.hits] == ["a", "b", "c"]
    assert len(engine.asked) == 1


def test_scoring_that_takes_too_long_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ranker()

    left_behind = threading.Event()

    def slow(_self: object, *_: Any) -> Any:
        left_behind.wait(300)

    monkeypatch.setattr(ReorderingModel, "rerank", slow)
    result = search(Scripted(), model, deadline=0.05)
    assert not result.reordered
    assert "deadline of 0.05 s passed" in result.reason
    left_behind.set()
    assert [hit.document_id for hit in result.hits] == ["a", "b", "c"]


def test_nothing_found_is_nothing_to_reorder() -> None:
    result = search(Scripted(rows={}))
    assert (result.hits, result.reordered) == ((), True)


def test_the_fields_that_kernels_read_are_asked_for() -> None:
    engine = Scripted()
    assert search(engine, ranker("same:site"), source=False).reordered
    assert engine.asked[0][1]["body"]["_source"] == ["site"]
    search(engine, ranker("same:site"), source=["title"])
    assert engine.asked[1][1]["body"]["_source"] == ["site", "title"]


def test_another_feature_set_or_query_is_refused() -> None:
    with pytest.raises(BadInput, match="not trained on the feature set"):
        search(Scripted(), ranker(featureset_hash="0" * 64))
    fewer = FeatureSet("docs", FEATURESET.features[:2])
    with pytest.raises(BadInput, match="not trained on"):
        search(Scripted(), featureset=fewer)
    with pytest.raises(UsageError, match="sort"):
        SearchRequest("docs", {"sort": []}, {})
    assert search(Scripted(), ranker(featureset_hash=FEATURESET.hash)).reordered


@pytest.fixture(scope="module")
def real(node_url: str) -> Iterator[Engine]:
    """The real node, with 60 documents."""
    rng = np.random.default_rng(1)
    words = np.array(["rank", "list", "search", "engine", "top", "learn"])
    documents = [
        (
            f"d{i}",
            {
                "title": " ".join(rng.choice(words, 3)),
                "body": " ".join(rng.choice(words, 20)),
                "size": float(i % 7),
                "site": {"name": f"s{i % 4}"},
            },
        )
        for i in range(60)
    ]
    engine = open_engine(node_url)
    drop_index(engine, "live-docs")
    create_index(engine, "live-docs", None)
    index_documents(engine, "live-docs", documents, lambda *_: None)
    yield engine
    drop_index(engine, "live-docs")
    engine.close()


def test_live_scores_equal_offline_scores_on_a_real_engine(real: Engine, tmp_path: Path) -> None:
    store = PluginFreeStore(real, "live-test")
    store.put_featureset(FEATURESET, replace=True)
    model = ranker("cosine,rbf,same:site.name", featureset_hash=FEATURESET.hash)
    request = SearchRequest("live-docs", QUERY, PARAMS, 40, 40)
    result = live_search(real, store, request, model, deadline=60)
    assert result.reordered, result.reason
    plain = real.request(
        "POST", "/live-docs/_search",
        body={"query": {"match": {"body": "rank list"}}, "size": 40},
    )["hits"]["hits"]  # fmt: skip
    # The silent rescorer changed neither the hits nor their order or scores.
    ranked = sorted(result.hits, key=lambda hit: hit.engine_rank)
    assert [(hit.document_id, hit.engine_score) for hit in ranked] == [
        (hit["_id"], hit["_score"]) for hit in plain
    ]
    ids = [hit["_id"] for hit in plain]
    logged = store.log_search(FEATURESET, PARAMS, ids)
    answer = real.request(
        "POST", "/live-docs/_search", params=logged.params, body=logged.body
    )["hits"]["hits"]  # fmt: skip
    rows = {hit["_id"]: store.features_of(FEATURESET, hit) for hit in answer}
    features = np.array([rows[doc_id] for doc_id in ids], dtype=np.float32)
    sites = {"site.name": [f"s{int(doc_id[1:]) % 4}" for doc_id in ids]}
    offline = dict(zip(ids, model.rerank(features, None, sites).tolist(), strict=True))
    assert {hit.document_id: hit.score for hit in result.hits} == offline
    assert [hit.score for hit in result.hits] == sorted(offline.values(), reverse=True)
    assert ids != [hit.document_id for hit in result.hits]


def test_a_real_engine_that_refuses_the_features_still_gives_its_order(real: Engine) -> None:
    bad = FeatureSet("docs", (*FEATURESET.features[:2], Feature("size", (), {"nonsense": {}})))
    result = live_search(
        real,
        PluginFreeStore(real),
        SearchRequest("live-docs", QUERY, PARAMS),
        ranker(),
        featureset=bad,
        deadline=60,
    )
    assert not result.reordered
    assert "nonsense" in result.reason
    assert [hit.engine_rank for hit in result.hits] == list(range(1, 11))
    nowhere = SearchRequest("live-nowhere", QUERY, PARAMS)
    with pytest.raises(OwpcLtrError, match="live-nowhere"):
        live_search(real, PluginFreeStore(real), nowhere, ranker())
