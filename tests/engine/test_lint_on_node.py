"""Examples of `lint` on a node with vectors: what a trap does to the request's own hits."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from owpc_ltr import Cluster, connect, lint
from owpc_ltr.fusion.engine_fusions import EngineFusion

pytestmark = pytest.mark.thorough

DOCUMENTS = 60
MEAN = EngineFusion("min_max", weights=(0.5, 0.5)).pipeline()
SKIPPING = EngineFusion("min_max", "geometric", (0.5, 0.5)).pipeline()
# The dearest first: the document 59, and none below 30.
DEAR: dict[str, Any] = {"function_score": {
    "query": {"range": {"price": {"gte": 30}}},
    "field_value_factor": {"field": "price"}, "boost_mode": "replace",
}}  # fmt: skip


def near(k: int) -> dict[str, Any]:
    """The documents from 0 on, by the angle of their vectors."""
    return {"knn": {"vector": {"vector": [1.0, 0.0], "k": k}}}


@pytest.fixture(scope="module")
def cluster(vectors_url: str) -> Cluster:
    return connect(vectors_url)


@pytest.fixture(scope="module", params=[1, 2])
def shop(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[str]:
    """Sixty products, each dearer and further from the query than the one before."""
    name, engine = f"lint-{uuid.uuid4().hex[:8]}", cluster.engine
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    vector = {"type": "knn_vector", "dimension": 2, "method": method}
    fields = {"properties": {"price": {"type": "float"}, "vector": vector}}
    settings = {"index.knn": True, "number_of_shards": request.param, "number_of_replicas": 0}
    engine.request("PUT", f"/{name}", body={"settings": settings, "mappings": fields})
    lines: list[Any] = []
    for number in range(DOCUMENTS):
        angle = math.radians(number)
        lines += [{"index": {"_id": str(number)}}]
        lines += [{"price": number, "vector": [math.cos(angle), math.sin(angle)]}]
    engine.request("POST", f"/{name}/_bulk", ndjson=lines, params={"refresh": "true"})
    yield name
    engine.request("DELETE", f"/{name}")


def examples(cluster: Cluster, shop: str, body: dict[str, Any]) -> dict[str, str]:
    found = lint(body, index=shop, cluster=cluster)
    return {each.check: each.example for each in found.findings}


def hybrid(*legs: dict[str, Any], pipeline: Any = MEAN, **given: Any) -> dict[str, Any]:
    rest = {"search_pipeline": pipeline} if pipeline else {}
    return {"query": {"hybrid": {"queries": list(legs), **given}}, **rest}


def found_by(cluster: Cluster, shop: str, body: dict[str, Any]) -> list[str]:
    answer = cluster.engine.request("POST", f"/{shop}/_search", body=body)
    return [hit["_id"] for hit in answer["hits"]["hits"]]


def test_a_clean_request_has_no_finding_but_its_shards(cluster: Cluster, shop: str) -> None:
    body = hybrid(DEAR, near(100), pagination_depth=100)
    assert examples(cluster, shop, body).keys() <= {"windows-by-shard"}


def test_a_larger_window_is_compared(cluster: Cluster, shop: str) -> None:
    body = hybrid(DEAR, near(100))
    told = examples(cluster, shop, body)["no-pagination-depth"]
    now = found_by(cluster, shop, body)
    deeper = found_by(cluster, shop, hybrid(DEAR, near(100), pagination_depth=100))
    assert f"{len(set(now) & set(deeper))} of the first 10 stay" in told
    place, (one, other) = next(
        each for each in enumerate(zip(now, deeper, strict=True), 1) if each[1][0] != each[1][1]
    )
    assert told.endswith(f"place {place}: '{one}' becomes '{other}'")


def test_rescoring_after_fusion_is_compared(cluster: Cluster, shop: str) -> None:
    """A rescorer that lifts the document 30, which fusion has near its end, above all."""
    first = {"constant_score": {"filter": {"ids": {"values": ["30"]}}, "boost": 100}}
    rescore = {"window_size": DOCUMENTS, "query": {"rescore_query": first}}
    body = {**hybrid(DEAR, near(60), pagination_depth=60), "rescore": rescore}
    told = examples(cluster, shop, body)["rescore-in-hybrid"]
    now = found_by(cluster, shop, body)
    assert told.startswith("rescored after fusion: ")
    if now[0] != "30":
        assert f"place 1: '{now[0]}' becomes '30'" in told


def test_a_document_that_a_query_misses_is_shown_above_one_that_all_find(
    cluster: Cluster, shop: str
) -> None:
    body = hybrid(DEAR, near(40), pipeline=SKIPPING, pagination_depth=60)
    told = examples(cluster, shop, body)["skipping-mean"]
    found = re.fullmatch(
        r"'(\d+)', which query (\d) misses, has place (\d+), above '(\d+)' \((\d+)\), .*", told
    )
    assert found is not None
    missed, query, place, both, below = found.groups()
    fused = found_by(cluster, shop, {**body, "size": 60})
    assert (fused.index(missed) + 1, fused.index(both) + 1) == (int(place), int(below))
    assert int(place) < int(below)
    legs = [found_by(cluster, shop, {"query": leg, "size": 60}) for leg in (DEAR, near(40))]
    assert missed not in legs[int(query) - 1]
    assert all(both in leg for leg in legs)


def test_documents_beyond_k_are_counted(cluster: Cluster, shop: str) -> None:
    rescore = {"window_size": 30, "query": {"rescore_query": near(5)}}
    told = examples(cluster, shop, {"query": DEAR, "rescore": rescore})["knn-rescorer"]
    # The window holds the dear products, and the near ones are others.
    assert re.fullmatch(r"30 of the 30 documents in the window get 0", told)


def test_too_few_neighbours_are_counted(cluster: Cluster, shop: str) -> None:
    told = examples(cluster, shop, hybrid(DEAR, near(5), pagination_depth=60))["k-below-window"]
    shards = cluster.engine.request("GET", f"/{shop}/_settings")[shop]["settings"]["index"]
    assert told == f"it finds {5 * int(shards['number_of_shards'])} documents"


def test_markers_are_counted(cluster: Cluster, shop: str) -> None:
    told = examples(cluster, shop, hybrid(DEAR, near(60), pipeline=None))["no-pipeline"]
    assert "scores down to -9.5495e+09" in told


@pytest.mark.parametrize(
    ("body", "check", "words"),
    [
        ({**hybrid(DEAR, near(60)), "from": 5}, "from-without-depth", "pagination_depth param"),
        (hybrid(DEAR, near(60), DEAR), "weights-count", r"number of weights \[2\] must match"),
        (hybrid(*[DEAR] * 6, pipeline=None), "too-many-queries", "exceeds maximum supported"),
        (hybrid(DEAR, near(60), pipeline="absent"), "missing-pipeline", "absent is not defined"),
        (
            hybrid(DEAR, {"knn": {"vector": {"vector": [1.0], "k": 60}}}),
            "vector-length",
            "invalid dimension: 1",
        ),
        (hybrid(DEAR, {"knn": {"price": {"vector": [1.0], "k": 60}}}), "no-vector-field", "price"),
    ],
)
def test_a_refusal_is_told_in_the_engines_words(
    cluster: Cluster, shop: str, body: dict[str, Any], check: str, words: str
) -> None:
    assert re.search(f"the engine refuses it: .*{words}", examples(cluster, shop, body)[check])


def test_what_a_version_ignores_is_told(cluster: Cluster, shop: str) -> None:
    ranked = {"combination": {"technique": "rrf", "rank_constant": 1}}
    pipeline = {"phase_results_processors": [{"score-ranker-processor": ranked}]}
    body = hybrid(DEAR, near(60), pipeline=pipeline, pagination_depth=60)
    told = examples(cluster, shop, body)
    assert "needs-later-version" in told
    answer = cluster.engine.request("POST", f"/{shop}/_search", body=body)
    # With a rank constant of 1 it would be at least 1/2.
    assert answer["hits"]["max_score"] < 2 / 61 + 1e-6
    if "ranks-by-shard" in told:
        assert re.fullmatch(
            r"'\d+' \([\d.]+\) and '\d+' .* both have rank 1 of query 1", told["ranks-by-shard"]
        )


def test_the_pipeline_of_the_index_is_read(cluster: Cluster, shop: str) -> None:
    name = f"lint-{uuid.uuid4().hex[:8]}"
    engine = cluster.engine
    engine.request("PUT", f"/_search/pipeline/{name}", body=SKIPPING)
    try:
        setting = {"index.search.default_pipeline": name}
        engine.request("PUT", f"/{shop}/_settings", body=setting)
        body = hybrid(DEAR, near(60), pipeline=None, pagination_depth=60)
        assert "skipping-mean" in examples(cluster, shop, body)
        assert "no-pipeline" not in examples(cluster, shop, body)
        named = {**body, "search_pipeline": "_none"}
        assert "no-pipeline" in examples(cluster, shop, named)
    finally:
        engine.request("PUT", f"/{shop}/_settings", body={"index.search.default_pipeline": None})
        engine.request("DELETE", f"/_search/pipeline/{name}")
