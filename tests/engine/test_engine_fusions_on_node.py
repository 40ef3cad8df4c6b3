"""The engine's fusions as computed here, compared with a real node's: every score of every hit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.fusion.engine_fusions import EngineFusion, Mean, engine_fusions

pytestmark = pytest.mark.thorough

DOCUMENTS, DIMENSIONS, DEPTH = 120, 3, 25
WORDS = ("red", "blue", "shoe", "hat", "coat", "wool")
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Shop:
    """An index of random products on so many shards."""

    engine: Engine
    name: str
    shards: int

    def hits(self, query: dict[str, Any], **params: str) -> list[dict[str, Any]]:
        body = {"query": query, "size": DEPTH, "_source": False}
        answer = self.engine.request("POST", f"/{self.name}/_search", body=body, params=params)
        return list(answer["hits"]["hits"])


@pytest.fixture(scope="module", params=[1, 2, 3])
def shop(request: pytest.FixtureRequest, vectors_url: str) -> Iterator[Shop]:
    rng = np.random.default_rng(11)
    engine = Engine(ConnectionSettings(vectors_url))
    made = Shop(engine, f"fusions-{uuid.uuid4().hex[:8]}", request.param)
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    vector = {"type": "knn_vector", "dimension": DIMENSIONS, "method": method}
    fields = {"title": {"type": "text"}, "price": {"type": "float"}, "vector": vector}
    settings = {"index.knn": True, "number_of_shards": made.shards, "number_of_replicas": 0}
    body = {"settings": settings, "mappings": {"properties": fields}}
    engine.request("PUT", f"/{made.name}", body=body)
    lines: list[Any] = []
    for number in range(DOCUMENTS):
        words = " ".join(rng.choice(WORDS, rng.integers(1, 5)))
        # Few prices: many products have the same score, some 0.
        product = {"title": words, "price": int(rng.integers(0, 9)), "number": number}
        lines += [{"index": {"_id": str(number)}}]
        lines += [{**product, "vector": rng.normal(size=DIMENSIONS).tolist()}]
    engine.request("POST", f"/{made.name}/_bulk", ndjson=lines, params={"refresh": "true"})
    yield made
    engine.request("DELETE", f"/{made.name}")
    engine.close()


def legs_of(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Two to five queries; some find one product or none."""
    price = {"function_score": {
        "query": {"match": {"title": str(rng.choice(WORDS))}},
        "field_value_factor": {"field": "price"}, "boost_mode": "replace",
    }}  # fmt: skip
    vector = {"vector": rng.normal(size=DIMENSIONS).tolist(), "k": int(rng.integers(1, DEPTH))}
    choices = [
        {"match": {"title": " ".join(rng.choice(WORDS, 2))}},
        {"knn": {"vector": vector}},
        price,
        {"term": {"number": int(rng.integers(0, DOCUMENTS))}},
        {"match": {"title": "absent"}},
    ]
    chosen = rng.permutation(len(choices))[: rng.integers(2, len(choices) + 1)]
    return [choices[each] for each in chosen]


def matrix_of(shop: Shop, legs: list[dict[str, Any]]) -> tuple[list[str], Any, Any]:
    """Ids, scores by leg and shards: each leg asked by itself of each shard."""
    scores: dict[str, list[float]] = {}
    shards: dict[str, int] = {}
    for column, leg in enumerate(legs):
        for shard in range(shop.shards):
            for hit in shop.hits(leg, preference=f"_shards:{shard}"):
                row = scores.setdefault(hit["_id"], [np.nan] * len(legs))
                row[column], shards[hit["_id"]] = hit["_score"], shard
    # In the order of the index, in which the engine breaks ties; what scores 0 is not found.
    ids = sorted((each for each in scores if np.nanmax(scores[each]) > 0), key=int)
    return ids, np.array([scores[each] for each in ids]), np.array([shards[each] for each in ids])


def some_fusions(rng: np.random.Generator, legs: int) -> list[EngineFusion]:
    """Variants that 2.19 has, some with equal weights, and weights that are no round numbers."""
    known = [each for each in engine_fusions(legs) if each.normalization != "z_score"]
    chosen = [known[each] for each in rng.choice(len(known), 6, replace=False)]
    shares = rng.dirichlet(np.ones(legs))
    chosen += [EngineFusion("min_max", mean, tuple(shares.tolist())) for mean in get_args(Mean)]
    return [
        *chosen,
        EngineFusion("l2"),
        EngineFusion("rrf", rank_constant=int(rng.integers(1, 99))),
    ]


def pipeline_of(fusion: EngineFusion) -> dict[str, Any]:
    """The search pipeline of 2.19 that fuses so."""
    if fusion.normalization == "rrf":
        by_rank = {"technique": "rrf", "parameters": {"rank_constant": fusion.rank_constant}}
        processor: dict[str, Any] = {"score-ranker-processor": {"combination": by_rank}}
    else:
        combination: dict[str, Any] = {"technique": f"{fusion.mean}_mean"}
        if fusion.weights:
            combination["parameters"] = {"weights": fusion.weights}
        normalization = {"technique": fusion.normalization}
        clauses = {"normalization": normalization, "combination": combination}
        processor = {"normalization-processor": clauses}
    return {"phase_results_processors": [processor]}


def test_every_score_is_the_nodes(shop: Shop) -> None:
    rng = np.random.default_rng(shop.shards)
    compared = 0
    for _ in range(12):
        legs = legs_of(rng)
        ids, values, shards = matrix_of(shop, legs)
        if not ids:
            continue
        query = {"hybrid": {"queries": legs, "pagination_depth": DEPTH}}
        for fusion in some_fusions(rng, len(legs)):
            expected = fusion.scores(values, np.array([0, len(ids)]), shards)
            body = {"query": query, "size": len(ids), "search_pipeline": pipeline_of(fusion)}
            answer = shop.engine.request("POST", f"/{shop.name}/_search", body=body)
            scores_by_id = {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}
            assert scores_by_id.keys() == set(ids)
            actual = np.array([scores_by_id[each] for each in ids])
            np.testing.assert_allclose(
                actual, expected, rtol=0, atol=TOLERANCE, err_msg=str(fusion)
            )
            compared += len(ids)
    assert compared > 2000
