"""`lint`: every trap is found where it stands, and not where it does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr import lint
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.fusion.lint import CHECKS, SearchBody
from tests.commands import Run

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
    (part,) = body["search_pipeline"]["phase_results_processors"]
    return dict(part)["normalization-processor"]  # type: ignore[no-any-return]


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
    "stored-pipeline": (
        HYBRID, lambda body: body.update(search_pipeline="fused"), "$.search_pipeline",
    ),
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
    findings = lint(changed(body, change)).findings
    assert [(each.check, each.place) for each in findings] == [(check, place)]
    (finding,) = findings
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
    (finding,) = json.loads(out)["findings"]
    assert (finding["check"], finding["place"].split(".")[0]) == ("skipping-mean", "pipeline $")
    assert "geometric mean" in error
    code, out, _ = run(*words[:-1])
    assert (code, out.split(":")[0]) == (0, "warning")


def test_a_stored_pipeline_is_checked_as_the_cluster_answers_it(tmp_path: Path, run: Run) -> None:
    request = changed(HYBRID, lambda body: body.update(search_pipeline="fused"))
    pipeline = {"fused": changed(HYBRID, TRAPS["skipping-mean"][1])["search_pipeline"]}
    for name, content in (("request", request), ("fused", pipeline)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    out = run.output("lint", "request.json", "--strict")
    assert "note: the search pipeline 'fused' is stored in the cluster and was not checked" in out
    assert "GET /_search/pipeline/fused" in out
    assert "with --pipeline" in " ".join(out.split())
    for words in (("request.json", "--pipeline", "fused.json"), ("fused.json",)):
        (finding,) = json.loads(run.output("lint", *words, "--json"))["findings"]
        assert (finding["check"], finding["place"].split(".")[0]) == ("skipping-mean", "pipeline $")
    unfused = lint(request, pipeline={"fused": {"request_processors": []}})
    assert [each.check for each in unfused.findings] == ["no-pipeline"]


def test_strict_is_refused_with_what_was_found_and_a_note_is_no_warning() -> None:
    with pytest.raises(Refused, match="pagination_depth") as caught:
        lint(changed(HYBRID, TRAPS["no-pagination-depth"][1]), strict=True)
    assert len(caught.value.result.findings) == 1
    assert lint(changed(HYBRID, TRAPS["explain-unfused"][1]), strict=True).warnings == ()


def test_a_file_that_is_no_object_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text("[1]")
    with pytest.raises(BadInput, match="holds no JSON object"):
        lint(tmp_path / "request.json")


def test_a_feature_set_is_no_request_and_its_refused_templates_are_named() -> None:
    for words, message in (
        ("{{q}}", "'s' is a feature set"),
        ("{{>q}}", "feature 'a': {{>…}} could"),
    ):
        feature = {"name": "a", "params": ["q"], "template": {"match": {"title": words}}}
        with pytest.raises(BadInput, match=message):
            lint({"featureset": {"name": "s", "features": [feature]}})
