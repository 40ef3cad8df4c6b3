"""Answers of searches: complete, or refused alike by whatever searches."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from owpc_ltr.data.judgments import Judgments
from owpc_ltr.engine.client.engine import About, Engine, open_engine
from owpc_ltr.engine.client.responses import (
    NO_LIMIT,
    Incomplete,
    MalformedAnswer,
    SearchAnswer,
    part_of,
)
from owpc_ltr.engine.deployment.alias import all_aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.feature_log.snapshot import LogOptions, PointInTime, read_contents
from owpc_ltr.engine.legs import Legs, find_candidates
from owpc_ltr.engine.live_results.judge_pool import pool
from owpc_ltr.engine.profile import time_variants
from owpc_ltr.engine.search.client_scoring import Served, live_search, query_alone
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.search import search_ranked
from owpc_ltr.engine.stores import Search
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.engine.ubi import ScanWindow, count, pages
from owpc_ltr.engine.workbench import fetch_list
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.evaluation.judged_data import without_features
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.combined import ReorderingModel
from tests.engine.log_runs import QUICK, Spoiler
from tests.engine.memory_engine import MemoryEngine, small_judgments, whole
from tests.engine.memory_engine import log as log_in_memory
from tests.engine.small_cluster import FEATURESET, Through, linear
from tests.engine.write_world import World, commands
from tests.judgment_writers import RAMBO, fetched
from tests.rankers import live_ranker

QUERY: dict[str, Any] = {"match": {"body": "{{keywords}}"}}
REQUEST = SearchRequest("small", QUERY, {"keywords": "alpha"})
RANKER = ReorderingModel(linear(), "", None)
SOURCE = fetched(RAMBO)["hits"]["hits"][0]["_source"]
ALIAS = {
    "name": "m", "current": "m-1", "previous": [], "history": 5, "store_kind": "plugin-free",
}  # fmt: skip
SHARDS = {"total": 2, "successful": 2, "skipped": 1, "failed": 0}

INCOMPLETE: dict[str, tuple[dict[str, Any], str]] = {
    "timed out": ({"timed_out": True}, "timed_out"),
    "no word of timing out": ({"timed_out": None}, "timed_out"),
    "timed out is text": ({"timed_out": "false"}, "timed_out"),
    "terminated early": ({"terminated_early": True}, "terminated_early"),
    "a shard failed": ({"_shards": {**SHARDS, "successful": 1, "failed": 1}}, "1 failed"),
    "a shard failed, the count is whole": ({"_shards": {**SHARDS, "failed": 1}}, "1 failed"),
    "a shard is silent": ({"_shards": {**SHARDS, "successful": 1}}, "1 of 2 shards answered"),
    "a shard is silent, one is skipped": (
        {"_shards": {**SHARDS, "total": 3, "successful": 2}},
        "2 of 3 shards answered",
    ),
    "no shard at all": ({"_shards": {**SHARDS, "total": 0, "successful": 0}}, "0 of 0 shards"),
    "no count of shards": ({"_shards": {"failed": 0}}, "not counted"),
    "nothing of shards": ({"_shards": {}}, "not counted"),
    "shards are counted in text": ({"_shards": {**SHARDS, "total": "2"}}, "not counted"),
    "shards are counted in truth": ({"_shards": {**SHARDS, "failed": False}}, "not counted"),
}
"""What an answer has that is not complete, and the words that tell why."""


@dataclass
class Spoiled(Through):
    """An engine whose every answer to a search is changed."""

    change: dict[str, Any]
    searches: int = 0

    def limited(self, _: object) -> Spoiled:
        return self

    def request(self, method: str, path: str, **given: Any) -> Any:
        answer = self.engine.request(method, path, **given)
        if not isinstance(answer, dict) or "hits" not in answer:
            return answer
        self.searches += 1
        return {**answer, **self.change}


class Answering:
    """An engine that gives one document to every search, and what else is asked for beside it."""

    settings = SimpleNamespace(url="memory:")

    def about(self) -> About:
        return About("opensearch", "3.8.0", "c", "u")

    def request(self, _method: str, path: str, *, body: Any = None, **_: Any) -> Any:
        if path.endswith("/point_in_time"):
            return {"pit_id": "p"}
        if path.endswith("/_field_caps"):
            return {"fields": {"sku": {"keyword": {}}}}
        return whole([self._hit()][: (body or {}).get("size", 10)], 1)

    def _hit(self) -> dict[str, Any]:
        return {
            "_index": "small",
            "_id": "d0",
            "_score": 1.0,
            "_seq_no": 3,
            "_primary_term": 1,
            "_source": {**SOURCE, **ALIAS},
            "fields": {"sku": ["a"]},
            "matched_queries": dict.fromkeys(FEATURESET.feature_names, 1.0),
            "sort": ["m"],
        }


def _pit(engine: Engine) -> PointInTime:
    return PointInTime(engine, "small", "p")


def _logs(engine: Engine, folder: Path) -> object:
    """A log whose answers with features are spoiled as those of this engine."""
    change = cast("Spoiled", engine).change
    spoiler = Spoiler(lambda answer: {**answer, **change})
    cast("Spoiled", engine).searches += 1
    return log_in_memory(MemoryEngine(fault=spoiler), folder / "log.parquet", options=QUICK)


WINDOW = ScanWindow(None, None, "2026-01-01T00:00:00Z").slices(1, elastic=True)[0]
OPTIONS = LogOptions(pause=0)
SearchPath = Callable[[Engine, Path], object]


def _of_plugins() -> dict[str, SearchPath]:
    """What plugins search, where they are installed."""
    paths: dict[str, SearchPath] = {}
    if find_spec("owpc_ltr_clicks"):
        from owpc_ltr_clicks.ubi.snapshot import FieldLookup

        paths["documents by a field"] = lambda e, _: FieldLookup(e, "small")("sku", ["a"])
    if find_spec("owpc_ltr_demo"):
        from owpc_ltr_demo.corpus import OBJECT, DemoQuery, candidates_of
        from owpc_ltr_demo.preparation import engine_scores

        demo_query = DemoQuery("q", "x", OBJECT, {})
        judged_data = without_features(Judgments([demo_query.judged(["d0"])]))
        paths["demo candidates"] = lambda e, _: candidates_of(e, "small", demo_query)
        paths["demo scores"] = lambda e, _: engine_scores(e, QUERY, judged_data)
    if find_spec("owpc_ltr_tune"):
        from owpc_ltr_tune.clauses import LoggedClauses

        def tuned(engine: Engine, _: Path) -> object:
            data, metric = without_features(small_judgments(1)), parse_metric("ndcg@10")
            how: dict[str, Any] = {"most_searches": 100, "in_flight": 1, "taken_apart": True}
            clauses = LoggedClauses(engine, "small", data, metric, progress=lambda *_: None, **how)
            return clauses.value({"match": {"body": "{{query}}"}})

        paths["clauses of a query to tune"] = tuned
    return paths


PATHS: dict[str, SearchPath] = {
    "search": lambda e, _: search_ranked(e, PluginFreeStore(e), REQUEST, None),
    "live results": lambda e, _: query_alone(e, PluginFreeStore(e))(REQUEST),
    "client rerank": lambda e, _: live_search(
        e, PluginFreeStore(e), REQUEST, RANKER, featureset=FEATURESET, deadline=60
    ),
    "latency": lambda e, _: time_variants(
        e, "small", {"a": lambda _: Search({"query": {}})}, [{}], 1
    ),
    "feature log": _logs,
    "point in time": lambda e, _: _pit(e).search({"size": 1}, {}),
    "contents": lambda e, _: read_contents(_pit(e), {"small": 1}, OPTIONS, elastic=False),
    "events": lambda e, _: [*pages(_pit(e), "small", ["sku"], WINDOW)],
    "number of events": lambda e, _: count(_pit(e), "small", {"match_all": {}}),
    "plugin's list": lambda e, _: LtrPluginStore(e).list_models(),
    "store's list": lambda e, _: PluginFreeStore(e).list_models(),
    "workbench": lambda e, _: fetch_list(e, "b54f791a"),
    "aliases": lambda e, _: all_aliases(e),
    "deployment records": lambda e, _: DeploymentRecords(e, PluginFreeStore(e)).recorded(["d0"]),
    "legs": lambda e, _: find_candidates(
        e, "small", Legs("legs", (), 1), small_judgments(1).queries, 1, 1, lambda *_: None
    ),
    "pool": lambda e, _: pool(
        e,
        "small",
        [live_ranker(lambda _: Served(("d0",), 1))],
        small_judgments(1).queries,
        judged={},
    ),
    **_of_plugins(),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_complete_answer_is_taken_on_every_path(path: str, tmp_path: Path) -> None:
    engine = Spoiled(Answering(), {"_shards": SHARDS})
    PATHS[path](cast("Engine", engine), tmp_path)
    assert engine.searches


@pytest.mark.parametrize(("change", "why"), INCOMPLETE.values(), ids=INCOMPLETE.keys())
@pytest.mark.parametrize("path", PATHS)
def test_an_incomplete_answer_is_refused_on_every_path(
    path: str, change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    engine = Spoiled(Answering(), change)
    with pytest.raises(Refused, match=f"for a part of the index only.*{why}.*try again"):
        PATHS[path](cast("Engine", engine), tmp_path)
    assert engine.searches


@pytest.mark.parametrize("command", ["upload", "upload a challenger", "delete", "prune", "append"])
def test_a_silent_shard_stops_what_writes(command: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    engine = Spoiled(world.cluster, INCOMPLETE["a shard is silent"][0])
    before = copy.deepcopy(world.state())
    with pytest.raises(Refused, match="1 of 2 shards answered"):
        commands(world)[command](cast("Engine", engine))
    assert world.state() == before


def read(answer: Any, body: dict[str, Any] | None = None, *, scored: bool = False) -> SearchAnswer:
    return SearchAnswer.read(answer, body or {}, "it", scored=scored)


def answer_with(ids: str, total: Any = None, **more: Any) -> dict[str, Any]:
    hits = [{"_index": "small", "_id": name, "_score": 1.0} for name in ids]
    answer = whole(hits, len(hits)) | more
    return answer if total is None else {**answer, "hits": {"total": total, "hits": hits}}


def test_an_answer_says_what_was_found() -> None:
    answer = read(answer_with("ab", pit_id="p") | {"took": 7})
    assert [hit["_id"] for hit in answer.hits] == ["a", "b"]
    assert (answer.took, answer.total, answer.pit) == (7, 2, "p")
    assert (read(answer_with("a", 1)).exact_total(), read(answer_with("a")).pit) == (1, None)


def test_a_search_that_may_stop_early_may_say_so() -> None:
    assert read(answer_with("a", terminated_early=True), {"terminate_after": 1}).hits
    with pytest.raises(Incomplete, match="terminated_early"):
        read(answer_with("a", terminated_early=True), {"terminate_after": NO_LIMIT})


def test_a_total_that_is_a_bound_is_no_count() -> None:
    totals: list[Any] = [_total(1, "gte"), {"value": "1", "relation": "eq"}, "1", []]
    for total in totals:
        answer = read(answer_with("a", total))
        assert answer.total is None
        with pytest.raises(Incomplete, match="exactly"):
            answer.exact_total()


def test_no_hits_may_be_left_out_only_where_there_are_none() -> None:
    assert read({**answer_with(""), "hits": {"total": {"value": 0, "relation": "eq"}}}).hits == ()
    for hits in ({}, {"total": {"value": 1, "relation": "eq"}}):
        with pytest.raises(MalformedAnswer, match=r"hits\.hits"):
            read({**answer_with(""), "hits": hits})


MALFORMED: dict[str, tuple[Any, str]] = {
    "nothing": (None, "it is not an engine's answer"),
    "a list": ([], "it is not an engine's answer"),
    "an empty object": ({}, "'_shards'"),
    "shards are text": (answer_with("a", _shards="all"), "'_shards'"),
    "hits are a list": (answer_with("a", hits=[]), "'hits'"),
    "hits are numbered": (answer_with("a", hits={"hits": {"0": "a"}}), r"hits\.hits"),
    "a hit is nothing": (answer_with("a", hits={"hits": [None]}), r"hits\.hits\[\]"),
    "a hit without an id": (answer_with("a", hits={"hits": [{"_score": 1.0}]}), "_id"),
    "an id is a number": (answer_with("a", hits={"hits": [{"_id": 1}]}), "_id"),
    "a source is text": (
        answer_with("a", hits={"hits": [{"_id": "a", "_source": "b"}]}),
        "_source",
    ),
    "a score is infinite": (
        answer_with("a", hits={"hits": [{"_id": "a", "_score": 1e400}]}),
        "_score",
    ),
    "a score is not a float": (
        answer_with("a", hits={"hits": [{"_id": "a", "_score": 10**40}]}),
        "_score",
    ),
    "took is text": (answer_with("a", took="1"), "took"),
    "took is below 0": (answer_with("a", took=-1), "took"),
}


@pytest.mark.parametrize(("answer", "where"), MALFORMED.values(), ids=MALFORMED.keys())
def test_what_no_engine_answers_is_told_with_its_place(answer: Any, where: str) -> None:
    with pytest.raises(EngineUnavailable, match=where) as error:
        read(answer)
    assert isinstance(error.value, MalformedAnswer)
    with pytest.raises(EngineUnavailable):
        part_of(None, "_source", "it")


def _total(value: int, relation: str = "eq") -> dict[str, Any]:
    return {"value": value, "relation": relation}


@pytest.mark.parametrize(
    ("answer", "body", "why"),
    [
        (answer_with("aba"), {"size": 3}, "document 'a' twice"),
        (answer_with("ab", _total(3)), {"size": 3}, "2 hits, where its total of 3 has 3"),
        (answer_with("ab", _total(30, "gte")), {"size": 3}, "2 hits, where its total of 30 has 3"),
        (answer_with("a", 5), {"size": 2, "from": 3}, "1 hits, where its total of 5 has 2"),
        (answer_with("", _total(1)), {}, "0 hits, where its total of 1 has 1"),
        (answer_with("abc"), {"size": 2}, "3 hits, where 2 were asked for"),
    ],
)
def test_hits_that_no_engine_gives_are_refused(
    answer: dict[str, Any], body: dict[str, Any], why: str
) -> None:
    with pytest.raises(Incomplete, match=why):
        read(answer, body)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (answer_with("ab"), {"size": 10}),
        (answer_with("a", _total(4)), {"size": 2, "from": 3}),
        (answer_with("", _total(4)), {"size": 2, "from": 9}),
        (answer_with("ab", "untold"), {"size": 10, "track_total_hits": False}),
        (answer_with("ab", _total(9)), {"size": 10, "collapse": {"field": "brand"}}),
        (answer_with("ab", _total(9)), {"size": 10, "min_score": 1}),
        (answer_with("ab", _total(9)), {"size": 10, "search_after": ["a"]}),
        (answer_with("ab", _total(9)), {"size": 2}),
    ],
)
def test_hits_that_an_engine_may_give_are_believed(
    answer: dict[str, Any], body: dict[str, Any]
) -> None:
    assert len(read(answer, body).hits) == len(answer["hits"]["hits"])


def test_documents_of_two_indices_may_have_one_id() -> None:
    answer = answer_with("bb")
    answer["hits"]["hits"][0]["_index"] = "other"
    assert len(read(answer, {"size": 2}).hits) == 2


@pytest.mark.parametrize("score", [None, True, "1.0", []])
def test_a_score_that_is_no_number_is_refused_where_scores_are_needed(score: Any) -> None:
    answer = answer_with("a")
    answer["hits"]["hits"][0]["_score"] = score
    assert read(answer).hits
    with pytest.raises(Refused, match="document 'a' came without a score"):
        read(answer, scored=True)
    del answer["hits"]["hits"][0]["_score"]
    with pytest.raises(Refused, match="came without a score"):
        read(answer, scored=True)


def test_an_engine_counts_skipped_shards_among_the_successful_ones(node_url: str) -> None:
    engine = open_engine(node_url)
    years = {"skipped-old": "2020-01-01", "skipped-new": "2024-01-01"}
    for name, time in years.items():
        mappings = {"properties": {"time": {"type": "date"}}}
        made = {"aliases": {"skipped": {}}, "mappings": mappings}
        engine.request("PUT", f"/{name}", body=made)
        lines: list[Any] = [{"index": {"_id": "d"}}, {"time": time}]
        engine.request("POST", f"/{name}/_bulk", ndjson=lines, params={"refresh": "true"})
    body = {"query": {"range": {"time": {"gte": "2023-01-01"}}}}
    answer = engine.request(
        "POST", "/skipped/_search", params={"pre_filter_shard_size": "1"}, body=body
    )
    assert answer["_shards"]["skipped"] > 0
    assert [hit["_index"] for hit in read(answer, body).hits] == ["skipped-new"]
    for name in years:
        engine.request("DELETE", f"/{name}")
    engine.close()
