"""`lint`: every trap is found where it stands, and not where it does not."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr import connect, lint
from owpc_ltr.engine.client.engine import Engine, Identity
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.fusion.request_checks import CHECKS, SearchBody, request_findings
from owpc_ltr.fusion.request_trials import IndexFacts, index_findings, with_examples
from owpc_ltr.types import RequestFinding
from tests.commands import Run
from tests.engine.memory_engine import whole

Body = dict[str, Any]
NORMALIZED = {"normalization": {"technique": "min_max"}, "combination": {
    "technique": "arithmetic_mean", "parameters": {"weights": [0.3, 0.7]},
}}  # fmt: skip
LEXICAL: Body = {"match": {"title": "red shoe"}}
DENSE: Body = {"knn": {"vector": {"vector": [1.0, 0.0], "k": 100}}}
HYBRID: Body = {
    "query": {"hybrid": {"queries": [LEXICAL, DENSE], "pagination_depth": 100}},
    "search_pipeline": {"phase_results_processors": [{"normalization-processor": NORMALIZED}]},
}
ONE_REQUEST: Body = {
    "query": {"bool": {"should": [LEXICAL, {"constant_score": {"filter": DENSE, "boost": 1000}}]}},
    "rescore": {"window_size": 200, "query": {"query_weight": 0, "rescore_query": {
        "bool": {"should": [LEXICAL, {"script_score": {
            "query": {"match_all": {}},
            "script": {"source": "(1+cosineSimilarity(params.q, doc['vector']))/2"},
        }}]},
    }}},
}  # fmt: skip
RERANKED: Body = {"retriever": {"text_similarity_reranker": {
    "retriever": {"knn": {"field": "vector", "query_vector": [1.0, 0.0], "k": 100}},
    "inference_id": "reranker", "rank_window_size": 100,
}}}  # fmt: skip
KNN: Body = {"knn": {"field": "vector", "query_vector": [1.0, 0.0], "k": 10}, "query": LEXICAL}
CLEAN = {"hybrid": HYBRID, "one request": ONE_REQUEST, "reranked": RERANKED, "knn": KNN}


def changed(body: Body, change: Callable[[Body], Any]) -> Body:
    copy = deepcopy(body)
    change(copy)
    return copy


def processor(body: Body) -> Body:
    (found,) = body["search_pipeline"]["phase_results_processors"]
    return dict(found)["normalization-processor"]  # type: ignore[no-any-return]


def combination(body: Body) -> Body:
    return processor(body)["combination"]  # type: ignore[no-any-return]


def hybrid(body: Body) -> Body:
    return body["query"]["hybrid"]  # type: ignore[no-any-return]


def fuse_by_rank(body: Body, **given: Any) -> None:
    retrievers = [{"standard": {"query": LEXICAL}}, {"knn": {"field": "vector", "k": 100}}]
    body["retriever"] = {"rrf": {"retrievers": retrievers, **given}}


TRAPS: dict[str, tuple[Body, Callable[[Body], Any], str]] = {
    "rescore-in-hybrid": (
        HYBRID,
        lambda body: body.update(rescore={"query": {"rescore_query": LEXICAL}}),
        "$.rescore",
    ),
    "from-without-depth": (
        HYBRID,
        lambda body: (body.update({"from": 10}), hybrid(body).pop("pagination_depth")),
        "$.from",
    ),
    "no-pagination-depth": (
        HYBRID, lambda body: hybrid(body).pop("pagination_depth"), "$.query.hybrid",
    ),
    "depth-below-page": (
        HYBRID, lambda body: body.update(size=101), "$.query.hybrid.pagination_depth",
    ),
    "no-pipeline": (HYBRID, lambda body: body.pop("search_pipeline"), "$.query.hybrid"),
    "too-many-queries": (
        HYBRID,
        lambda body: (
            hybrid(body).update(queries=[LEXICAL] * 6), combination(body).pop("parameters"),
        ),
        "$.query.hybrid.queries",
    ),
    "skipping-mean": (
        HYBRID,
        lambda body: combination(body).update(technique="geometric_mean"),
        "$.search_pipeline.phase_results_processors[0].normalization-processor.combination.technique",
    ),
    "weights-sum": (
        HYBRID,
        lambda body: combination(body)["parameters"].update(weights=[0.3, 0.8]),
        "$.search_pipeline.phase_results_processors[0].normalization-processor.combination.parameters"
        ".weights",
    ),
    "weights-count": (
        HYBRID,
        lambda body: combination(body)["parameters"].update(weights=[0.3, 0.3, 0.4]),
        "$.search_pipeline.phase_results_processors[0].normalization-processor.combination.parameters"
        ".weights",
    ),
    "z-score-raw": (
        HYBRID,
        lambda body: processor(body)["normalization"].update(technique="z_score"),
        "$.search_pipeline.phase_results_processors[0].normalization-processor.normalization"
        ".technique",
    ),
    "k-below-window": (
        HYBRID,
        lambda body: hybrid(body)["queries"][1]["knn"]["vector"].update(k=99),
        "$.query.hybrid.queries[1].knn.vector.k",
    ),
    "knn-rescorer": (
        ONE_REQUEST,
        lambda body: body["rescore"]["query"].update(rescore_query=DENSE),
        "$.rescore.query.rescore_query.knn",
    ),
    "rank-window-10": (
        RERANKED,
        lambda body: body["retriever"]["text_similarity_reranker"].pop("rank_window_size"),
        "$.retriever.text_similarity_reranker",
    ),
    "rank-window-below-page": (
        RERANKED,
        lambda body: body.update(size=101),
        "$.retriever.text_similarity_reranker.rank_window_size",
    ),
    "licence": (RERANKED, lambda body: fuse_by_rank(body, rank_window_size=100), "$.retriever.rrf"),
    "explain-unfused": (HYBRID, lambda body: body.update(explain=True), "$.explain"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_request_has_no_finding(name: str) -> None:
    assert lint(CLEAN[name]).findings == ()
    assert str(lint(CLEAN[name])) == "nothing was found"


@pytest.mark.parametrize("check", TRAPS)
def test_a_trap_is_found_where_it_stands(check: str) -> None:
    body, change, place = TRAPS[check]
    found = lint(changed(body, change)).findings
    assert [(each.check, each.place) for each in found] == [(check, place)]
    (finding,) = found
    assert f"\n  at {place}\n" in str(lint(changed(body, change)))
    assert "\n" not in finding.line
    assert finding.source in finding.line


def test_every_check_has_a_trap() -> None:
    """Each function of the checks finds one of them, so that none is dead."""
    for check in CHECKS:
        bodies = [changed(body, change) for body, change, _ in TRAPS.values()]
        assert any(list(check(SearchBody(body))) for body in bodies), check.__name__


def test_what_is_near_a_trap_is_none() -> None:
    near: list[Body] = [
        # A field may be called hybrid or knn.
        {"query": {"match": {"hybrid": "red"}}, "rescore": {"query": {"rescore_query": LEXICAL}}},
        # Places to fill in are no numbers.
        changed(HYBRID, lambda body: hybrid(body).update(pagination_depth="{{depth}}")),
        changed(HYBRID, lambda body: combination(body)["parameters"].update(weights=["{{w}}", 1])),
        # A stored pipeline that nobody has looked at.
        changed(HYBRID, lambda body: body.update(search_pipeline="fused")),
        # Vectors within a distance have no k.
        changed(HYBRID, lambda body: hybrid(body)["queries"].__setitem__(
            1, {"knn": {"vector": {"vector": [1.0], "min_score": 0.7}}})),
    ]  # fmt: skip
    for body in near:
        assert lint(body).findings == (), body


def test_a_pipeline_is_checked_by_itself_and_with_its_request(tmp_path: Path, run: Run) -> None:
    pipeline = changed(HYBRID, TRAPS["skipping-mean"][1])["search_pipeline"]
    (alone,) = lint(pipeline).findings
    assert alone.check == "skipping-mean"
    request = changed(HYBRID, lambda body: body.pop("search_pipeline"))
    for name, content in (("request", request), ("pipeline", pipeline)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    words = ("lint", "request.json", "--pipeline", "pipeline.json", "--strict")
    code, out, error = run(*words, "--json")
    assert code == 5
    (found,) = json.loads(out)["findings"]
    assert (found["check"], found["place"].split(".")[0]) == ("skipping-mean", "pipeline $")
    assert "geometric mean" in error
    code, out, _ = run(*words[:-1])
    assert (code, out.split(":")[0]) == (0, "warning")


def test_strict_is_refused_with_what_was_found_and_a_note_is_no_warning() -> None:
    with pytest.raises(Refused, match="pagination_depth") as caught:
        lint(changed(HYBRID, TRAPS["no-pagination-depth"][1]), strict=True)
    assert len(caught.value.result.findings) == 1
    assert lint(changed(HYBRID, TRAPS["explain-unfused"][1]), strict=True).warnings == ()


def test_a_file_that_is_no_object_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text("[1]")
    with pytest.raises(BadInput, match="holds no JSON object"):
        lint(tmp_path / "request.json")


VECTOR = {"type": "knn_vector", "dimension": 2}


class Licensed:
    """A cluster that tells its licence, and knows one pipeline."""

    def request(self, method: str, path: str, **_: Any) -> Any:
        if path == "/_search/pipeline/absent":
            raise EngineRefusal(f"{method} {path}", 404, "", "")
        assert path in {"/_license", "/_search/pipeline/fused"}
        return {"license": {"type": "basic"}, "fused": {}}


def looked_at(
    distribution: str = "opensearch", version: str = "2.19.1", **given: Any
) -> IndexFacts:
    plugins = ("opensearch-knn", "opensearch-neural-search")
    known: dict[str, Any] = {"shards": 1, "fields": {"vector": VECTOR}, "default_pipeline": None}
    identity = Identity(distribution, version, "c", "u", given.pop("plugins", plugins))
    return IndexFacts(Licensed(), "shop", identity, **{**known, **given})  # type: ignore[arg-type]


def checks(found: list[RequestFinding]) -> list[str]:
    return [each.check for each in found]


RANKED = changed(HYBRID, lambda body: body.update(search_pipeline={"phase_results_processors": [
    {"score-ranker-processor": {"combination": {"technique": "rrf", "rank_constant": 20}}}]
}))  # fmt: skip


@pytest.mark.parametrize(
    ("looked", "body", "expected"),
    [
        (looked_at(), HYBRID, []),
        (looked_at(plugins=()), HYBRID, ["missing-plugin"]),
        (looked_at("elasticsearch", "9.2.0"), HYBRID, ["missing-plugin"]),
        (looked_at(), RERANKED, ["missing-retriever"]),
        (looked_at(), {**HYBRID, "search_pipeline": "fused"}, []),
        (looked_at(), {**HYBRID, "search_pipeline": "absent"}, ["missing-pipeline"]),
        (looked_at(fields={"vector": {"type": "text"}}), HYBRID, ["no-vector-field"]),
        (looked_at(fields={"vector": {**VECTOR, "dimension": 3}}), HYBRID, ["vector-length"]),
        (looked_at(shards=3), HYBRID, ["windows-by-shard"]),
        (looked_at(shards=3), ONE_REQUEST, []),
        (looked_at(shards=3), RANKED, ["ranks-by-shard", "needs-later-version"]),
        (looked_at(version="3.1.0", shards=3), RANKED, ["ranks-by-shard"]),
        (looked_at(version="3.5.0", shards=3), RANKED, ["windows-by-shard"]),
        (looked_at(), changed(HYBRID, TRAPS["z-score-raw"][1]), ["needs-later-version"]),
        (looked_at(version="3.0.0"), changed(HYBRID, TRAPS["z-score-raw"][1]), []),
        (
            looked_at("elasticsearch", "9.2.0"),
            changed({}, lambda body: fuse_by_rank(body, rank_window_size=100)),
            ["licence-refused"],
        ),
    ],
)
def test_an_index_tells_what_the_request_alone_does_not(
    looked: IndexFacts, body: Body, expected: list[str]
) -> None:
    assert checks(index_findings(looked, SearchBody(body))) == expected


class Silent:
    """An engine that finds nothing, whatever is asked."""

    def request(self, *_: Any, **__: Any) -> Any:
        return whole([], 0)


def test_examples_need_no_hits_and_no_known_form() -> None:
    far = changed(RERANKED, lambda body: body["retriever"]["text_similarity_reranker"][
        "retriever"]["knn"].update(k=99))  # fmt: skip
    scripted = changed(HYBRID, lambda body: body.update(rescore={"script": {}}))
    bodies = [far, scripted, *(changed(body, change) for body, change, _ in TRAPS.values())]
    looked = replace(looked_at(), engine=Silent())  # type: ignore[arg-type]
    for body in bodies:
        search = SearchBody(body)
        found = request_findings(search)
        assert checks(with_examples(looked, search, found)) == checks(found) != []


def test_a_request_with_places_to_fill_in_is_not_run() -> None:
    body = changed(HYBRID, TRAPS["no-pagination-depth"][1])
    body["query"]["hybrid"]["queries"][0] = {"match": {"title": "{{keywords}}"}}
    search = SearchBody(body)
    found = request_findings(search)
    assert with_examples(looked_at(), search, found) == found


def test_a_feature_set_is_no_request_and_its_refused_templates_are_named() -> None:
    for words, told in (("{{q}}", "'s' is a feature set"), ("{{>q}}", "feature 'a': {{>…}} could")):
        feature = {"name": "a", "params": ["q"], "template": {"match": {"title": words}}}
        with pytest.raises(BadInput, match=told):
            lint({"featureset": {"name": "s", "features": [feature]}})


@pytest.fixture
def plain(node_url: str) -> Iterator[tuple[str, str]]:
    """The address of a node without plugins, and an index on two shards."""
    engine, index = Engine(ConnectionSettings(node_url)), f"lint-{uuid.uuid4().hex[:8]}"
    engine.request("PUT", f"/{index}", body={"settings": {"number_of_shards": 2}})
    yield node_url, index
    engine.request("DELETE", f"/{index}")
    engine.close()


def test_a_node_without_the_plugin_says_so_in_its_own_words(plain: tuple[str, str]) -> None:
    url, index = plain
    found = lint(HYBRID, index=index, cluster=connect(url))
    assert "(2 shards, opensearch" in found.index
    told = {each.check: each.example for each in found.findings}
    assert told["missing-plugin"].startswith("the engine refuses it: unknown query [hybrid]")
    assert {"no-vector-field", "windows-by-shard"} <= told.keys()
