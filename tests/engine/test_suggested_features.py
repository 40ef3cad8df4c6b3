"""`featureset suggest`: a first feature set by the types of an index's fields, on a real node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import owpc_ltr as ltr
from owpc_ltr.engine.client.responses import NO_LIMIT, Incomplete, check_complete
from owpc_ltr.engine.feature_sets import SuggestedFeature, SuggestedFeatureSet, _statistics_of
from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import load_featureset

MAPPING = {
    "properties": {
        "headline": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
        "body": {"type": "text", "fields": {"english": {"type": "text", "analyzer": "english"}}},
        "sku": {"type": "keyword"},
        "brand": {"type": "keyword"},
        "price": {"type": "double"},
        "balance": {"type": "double"},
        "downloads": {"type": "integer"},
        "product_id": {"type": "long"},
        "constant": {"type": "integer"},
        "empty": {"type": "integer"},
        "added": {"type": "date"},
        "in_stock": {"type": "boolean"},
        "offers": {"type": "nested", "properties": {"price": {"type": "double"}}},
        "maker": {"properties": {"country": {"type": "keyword"}}},
    }
}


@pytest.fixture
def shop(node_url: str, tmp_path: Path) -> Iterator[ltr.Cluster]:
    """An index of a shop, with a field of most kinds."""
    lines = [
        {
            "headline": f"red shoe {n}",
            "body": "a shoe to walk in",
            "sku": f"S-{n}",
            "brand": ["acme", "sole"][n % 2],
            "price": n + 1.5,
            "balance": n - 20,
            "downloads": 1000 - n,
            "product_id": 7000 + n,
            "constant": 7,
            "added": f"2025-{1 + n % 12:02}-01",
            "in_stock": n % 3 == 0,
            "offers": [{"price": 1}],
            "maker": {"country": ["it", "pt"][n % 2]},
        }
        for n in range(40)
    ]
    documents = tmp_path / "shop.jsonl"
    documents.write_text("\n".join(map(json.dumps, lines)))
    cluster = ltr.connect(node_url)
    cluster.index(documents, index="suggest-shop", settings={"mappings": MAPPING})
    yield cluster
    cluster.engine.request("DELETE", "/suggest-shop")


def test_every_suggested_feature_is_pushed_and_its_description_stays_in_the_file(
    shop: ltr.Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "shop.json"
    suggested = shop.featuresets.suggest(index="suggest-shop", out=path)
    pushed = shop.featuresets.push(path, index="suggest-shop", name="suggest-shop")
    assert pushed.feature_names == tuple(feature.name for feature in suggested.features)
    stored = shop.featuresets.get("suggest-shop").to_body()["featureset"]["features"]
    assert not any("description" in feature for feature in stored)
    shop.featuresets.delete("suggest-shop")


def test_statistics_of_all_documents_are_complete_and_those_of_some_are_not(
    shop: ltr.Cluster,
) -> None:
    """OpenSearch 3.8 says `terminated_early` of both, unless the search has a limit."""
    aggregations = {"most": {"max": {"field": "price"}}, "skus": {"terms": {"field": "sku"}}}
    queries: list[dict[str, Any]] = [{"match_all": {}}, {"term": {"brand": "acme"}}]
    for query in queries:
        body = {"size": 0, "query": query, "aggs": aggregations, "terminate_after": NO_LIMIT}
        path = "/suggest-shop/_search"
        answer = shop.engine.request("POST", path, body=body)
        check_complete(answer, body, "statistics")
        assert answer["aggregations"]["most"]["value"] >= 39.5
        answer = shop.engine.request("POST", path, body={**body, "terminate_after": 1})
        with pytest.raises(Incomplete, match="terminated_early"):
            check_complete(answer, body, "statistics")


def test_each_kind_of_field_gives_what_it_can(shop: ltr.Cluster) -> None:
    suggested = shop.featuresets.suggest(index="suggest-shop")
    assert [feature.name for feature in suggested.features] == [
        *("headline_bm25", "headline_all", "headline_phrase"),
        *("body_bm25", "body_all", "body_phrase", "body_english_bm25", "body_english_all"),
        # Each document has another number of downloads: that is no id, whatever the count.
        *("best_field", "all_fields", "added_recency", "brand_in_query", "downloads", "in_stock"),
        *("maker_country_in_query", "price"),
    ]
    assert suggested.unused == {
        "sku": "40 values in 40 documents: an id",
        "product_id": "its name is that of an id",
        "balance": "values below 0 (from -20): scores must not be negative",
        "constant": "every document has the same value",
        "empty": "no document has a value",
    }


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("brand_in_query", 1.0), ("price", 0.916), ("in_stock", 1.0), ("headline_all", 1.0)],
)
def test_a_feature_measures_what_its_description_says(
    shop: ltr.Cluster, name: str, wanted: float
) -> None:
    suggested = shop.featuresets.suggest(index="suggest-shop")
    [feature] = [each for each in suggested.features if each.name == name]
    text = json.dumps(feature.template).replace("{{keywords}}", "acme shoe red 0")
    if name == "headline_all":
        text = text.replace("acme ", "")
    body: dict[str, Any] = {
        "query": {
            "bool": {"must": [json.loads(text)], "filter": {"term": {"headline.raw": "red shoe 0"}}}
        }
    }
    hits = shop.engine.request("POST", "/suggest-shop/_search", body=body)["hits"]["hits"]
    assert [round(hit["_score"], 3) for hit in hits] == [wanted]


def test_the_values_of_an_estimate_are_never_more_than_the_documents() -> None:
    facts = {"values": 14_281, "count": 14_000, "least": 0, "most": 9}
    of = partial(_statistics_of, value=lambda what, _key="value": facts.get(what))
    assert of("keyword") == {"reason": "14000 values in 14000 documents: an id"}
    assert of("integer") == {"reason": None}


def test_a_set_with_a_legs_vector_is_read_as_it_was_written() -> None:
    """`push` has the vector; the file knows none to try the set with."""
    template = '{"knn": {"v": {"vector": {{#toJson}}vector{{/toJson}}, "k": 10}}}'
    leg = SuggestedFeature("dense", "the leg's similarity", template, params=("vector",))
    suggested = SuggestedFeatureSet("shop", "suggest-shop", (leg,), {})
    read = load_featureset(json.dumps(suggested.to_body()))
    assert (read.params, read.validation) == (("vector",), None)


def test_an_index_without_fields_for_features_is_refused(node_url: str) -> None:
    cluster = ltr.connect(node_url)
    cluster.engine.request("PUT", "/suggest-empty", body={"mappings": {"dynamic": "strict"}})
    try:
        with pytest.raises(Refused, match="no field of 'suggest-empty' can be a feature"):
            cluster.featuresets.suggest(index="suggest-empty")
    finally:
        cluster.engine.request("DELETE", "/suggest-empty")
