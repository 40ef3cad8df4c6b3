"""Documents and queries of every kind, for tests on a real node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.stores import Search, Store
from owpc_ltr.features.feature_set import Feature, FeatureSet

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
PARAMS = {"keywords": "alpha betta gamma", "tag": "x"}
KW = "{{keywords}}"
QUERIES: dict[str, Any] = {
    "match": {"match": {"title": KW}},
    "match_all_words": {"match": {"title": {"query": "alpha beta", "operator": "and"}}},
    "fuzzy": {"match": {"body": {"query": KW, "fuzziness": "AUTO", "boost": 2}}},
    "phrase": {"match_phrase": {"body": {"query": "alpha beta", "slop": 3}}},
    "bool_prefix": {"match_bool_prefix": {"title": "gamma al"}},
    "best": {"multi_match": {"query": KW, "fields": ["title^2", "body"], "tie_breaker": 0.3}},
    "cross": {"multi_match": {"query": KW, "fields": ["title", "body"], "type": "cross_fields"}},
    "most": {"multi_match": {"query": KW, "fields": ["title", "body"], "type": "most_fields"}},
    "dis_max": {"dis_max": {"queries": [{"match": {"title": KW}}, {"match": {"body": KW}}]}},
    "nested_bool": {
        "bool": {"must": [{"match": {"title": KW}}], "should": [{"term": {"tag": "{{tag}}"}}]}
    },
    "no_must": {"bool": {"filter": [{"term": {"tag": "{{tag}}"}}]}},
    "boosting": {
        "boosting": {
            "positive": {"match": {"body": KW}},
            "negative": {"term": {"tag": "y"}},
            "negative_boost": 0.5,
        }
    },
    "popularity": {
        "function_score": {
            "query": {"match_all": {}},
            "field_value_factor": {"field": "pop", "modifier": "ln1p", "missing": 0},
            "boost_mode": "replace",
        }
    },
    "has_popularity": {
        "function_score": {
            "query": {"exists": {"field": "pop"}},
            "gauss": {"pop": {"origin": 50, "scale": 20}},
            "boost_mode": "replace",
        }
    },
    "script": {
        "script_score": {
            "query": {"match": {"title": KW}},
            "script": {"source": "_score * params.f + doc['n'].value", "params": {"f": 3}},
        }
    },
    "range": {"range": {"n": {"gte": 30, "lte": 150, "boost": 1.5}}},
    "plain_range": {"range": {"n": {"gte": 50}}},
    "term": {"term": {"tag": {"value": "{{tag}}", "boost": 0.7}}},
    "terms": {"terms": {"tag": ["{{tag}}", "y"]}},
    "prefix": {"prefix": {"title": "al"}},
    "wildcard": {"wildcard": {"body": "*ta"}},
    "exists": {"exists": {"field": "pop"}},
    "constant": {"constant_score": {"filter": {"match": {"body": KW}}, "boost": 2.5}},
    "year_like": {"simple_query_string": {"query": "70 " + KW, "fields": ["n"], "lenient": True}},
    "nothing": {"match": {"title": "nosuchword"}},
    "zero": {"match": {"title": {"query": KW, "boost": 0}}},
}


@dataclass(frozen=True)
class Docs:
    """An index on a real node."""

    engine: Engine
    index: str
    ids: list[str]


def fill(engine: Engine, index: str, shards: int) -> Docs:
    rng = np.random.default_rng(7)
    text = {"type": "text"}
    numbers = {"n": {"type": "integer"}, "pop": {"type": "float"}, "tag": {"type": "keyword"}}
    engine.request(
        "PUT",
        f"/{index}",
        body={
            "settings": {"number_of_shards": shards, "number_of_replicas": 0},
            "mappings": {"properties": {"title": text, "body": text, **numbers}},
        },
    )
    lines: list[Any] = []
    for n in range(200):
        document = {
            "title": " ".join(rng.choice(WORDS, 3)),
            "body": " ".join(rng.choice(WORDS, int(rng.integers(5, 30)))),
            "n": n,
            "tag": str(rng.choice(["x", "y", "z"])),
            **({"pop": float(rng.uniform(0, 100))} if n % 3 else {}),
        }
        lines += [{"index": {"_id": str(n)}}, document]
    answer = engine.request("POST", f"/{index}/_bulk", ndjson=lines, params={"refresh": "true"})
    assert not answer["errors"]
    return Docs(engine, index, [str(n) for n in range(200)])


def featureset_of(
    queries: dict[str, Any], name: str = "fs", index: str | None = None
) -> FeatureSet:
    features = tuple(
        Feature(feature, tuple(p for p in PARAMS if "{{" + p in str(query)), query)
        for feature, query in queries.items()
    )
    validation = {"index": index, "params": PARAMS} if index else None
    return FeatureSet(name, features, validation)


def hits_of(docs: Docs, search: Search) -> list[dict[str, Any]]:
    answer = docs.engine.request(
        "POST", f"/{docs.index}/_search", params=search.params, body=search.body
    )
    assert answer["_shards"]["failed"] == 0
    hits: list[dict[str, Any]] = answer["hits"]["hits"]
    return hits


def logged(docs: Docs, store: Store, featureset: FeatureSet) -> np.ndarray[Any, Any]:
    """Feature values of all documents, by id."""
    hits = hits_of(docs, store.log_search(featureset, PARAMS, docs.ids))
    rows = {hit["_id"]: store.features_of(featureset, hit) for hit in hits}
    assert sorted(rows) == sorted(docs.ids)
    return np.array([rows[document] for document in docs.ids], dtype=np.float32)
