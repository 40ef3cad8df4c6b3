"""Legs: how they find, how they score every document, and what is refused."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.legs import LEAD, MOST_NEAREST, Legs, read_legs
from owpc_ltr.engine.stores.feature_queries import compile_template, render
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import DOC_IDS

WORDS = {"match": {"title": "{{keywords}}"}}
VECTOR = "{{#toJson}}vector{{/toJson}}"
PARAMS = {"keywords": 'red "shoe"', "vector": [0.5, -0.25]}


def knn(**more: Any) -> str:
    content = json.dumps({"v": {"vector": "V", "k": 10, **more}})
    return f'{{"knn": {content}}}'.replace('"V"', VECTOR)


def elastic(**more: Any) -> str:
    content = json.dumps({"field": "v", "query_vector": "V", **more})
    return f'{{"knn": {content}}}'.replace('"V"', VECTOR)


def legs_of(
    *templates: Any,
    field: dict[str, Any] | None = None,
    distribution: str = "opensearch",
    version: str = "9.2.0",
    refused: int | None = None,
    shards: int = 1,
) -> Legs:
    """Legs read from an engine that may refuse scripts, with an HTTP status."""
    field = field or {
        "type": "knn_vector",
        "dimension": 2,
        "method": {"space_type": "cosinesimil"},
    }
    mapping = {"things": {"mappings": {"properties": {"title": {"type": "text"}, "v": field}}}}
    flat = {"index.number_of_shards": str(shards)}

    def request(_: str, path: str, **_given: Any) -> Any:
        if path.endswith("/_search") and refused:
            raise EngineRefusal("cannot execute scripts", status=refused, type="x", reason="x")
        return {"things": {"settings": flat}} if path.endswith("/_settings") else mapping

    engine: Any = SimpleNamespace(
        about=lambda: SimpleNamespace(distribution=distribution, version=version),
        request=request,
    )
    names = "abcdefg"
    features = [
        {
            "name": names[number],
            "params": [param for param in ("keywords", "vector") if param in json.dumps(template)],
            "template": template,
        }
        for number, template in enumerate(templates)
    ]
    source = {"featureset": {"name": "legs", "features": features}}
    return read_legs(source, engine, "things", 50)


def scored(legs: Legs, leg: int) -> dict[str, Any]:
    return compile_template(legs.legs[leg].feature.template)(PARAMS)["script_score"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("space", "score"),
    [
        ("cosinesimil", "(1 + cosineSimilarity(params.q, doc[params.field])) / 2"),
        ("l2", "1 / (1 + l2Squared(params.q, doc[params.field]))"),
        ("innerproduct", "return s < 0 ? 1 / (1 - s) : 1 + s"),
    ],
)
def test_a_knn_leg_is_scored_by_a_script_over_its_field(space: str, score: str) -> None:
    legs = legs_of(WORDS, knn(), field={"type": "knn_vector", "dimension": 2, "space_type": space})
    script = scored(legs, 1)["script"]
    assert script["source"].endswith(score)
    assert script["params"] == {"q": [0.5, -0.25], "field": "v"}
    # Documents without a vector have no value, and the script is not run on them.
    assert scored(legs, 1)["query"] == {"bool": {"filter": [{"exists": {"field": "v"}}]}}
    assert render(legs.legs[1].search, PARAMS) == {"knn": {"v": {"vector": [0.5, -0.25], "k": 50}}}
    assert legs.legs[1].vector == ("vector", 2)


def test_a_filter_and_a_boost_of_a_leg_hold_in_both_forms() -> None:
    only = {"term": {"shop": "{{keywords}}"}}
    legs = legs_of(WORDS, knn(filter=only, boost=2))
    request = scored(legs, 1)
    assert request["query"]["bool"]["filter"][1] == {"term": {"shop": 'red "shoe"'}}
    assert request["boost"] == 2
    assert legs.legs[1].search["knn"]["v"]["filter"] == only


def test_elasticsearchs_knn_names_its_field_inside() -> None:
    field = {"type": "dense_vector", "dims": 2}
    legs = legs_of(WORDS, elastic(), field=field, distribution="elasticsearch")
    assert legs.legs[1].search["knn"] == {
        "field": "v", "query_vector": VECTOR, "num_candidates": 50,
    }  # fmt: skip
    source = scored(legs, 1)["script"]["source"]
    assert source == "(1 + cosineSimilarity(params.q, params.field)) / 2"
    with_k = elastic(k=5, num_candidates=400)
    legs = legs_of(WORDS, with_k, field=field, distribution="elasticsearch")
    assert legs.legs[1].search["knn"]["k"] == 50
    assert legs.legs[1].search["knn"]["num_candidates"] == 400


IDS = {"ids": {"values": ["a", "b"]}}


@pytest.mark.parametrize(("space", "refused"), [("l2", 400), ("l1", None)])
def test_without_a_script_a_knn_leg_is_scored_among_the_documents_of_given_ids(
    space: str, refused: int | None
) -> None:
    vectors = {"type": "knn_vector", "dimension": 2, "space_type": space}
    only = {"term": {"shop": "{{keywords}}"}}
    legs = legs_of(WORDS, knn(filter=only, boost=2), field=vectors, shards=3, refused=refused)
    feature = legs.legs[1].feature
    assert compile_template(feature.template)({**PARAMS, DOC_IDS: ["a", "b"]})["knn"]["v"] == {
        "vector": [0.5, -0.25],
        "k": MOST_NEAREST,
        "boost": 2,
        "filter": {"bool": {"filter": [
            IDS, {"exists": {"field": "v"}}, {"term": {"shop": 'red "shoe"'}},
        ]}},
    }  # fmt: skip
    # No query has the ids: they are no parameter that anybody gives, and the client scores.
    assert legs.featureset.params == ("keywords", "vector")
    assert "'b' needs the ids of the documents that it scores" in legs.featureset.why_by_client
    assert legs.legs[1].vector == ("vector", 2)
    # It rescores the best of all shards.
    assert legs.query_template["rescore"] == {"window_size": 3 * 2 * 50}
    assert legs_of(WORDS, knn(), shards=3).query_template["rescore"] == {"window_size": 2 * 50}


def test_scripts_are_only_missing_where_the_engine_refuses_them() -> None:
    with pytest.raises(EngineRefusal):
        legs_of(WORDS, knn(), refused=503)


@pytest.mark.parametrize(
    ("kind", "version", "more"),
    [
        ("int8_hnsw", "9.2.0", {"rescore_vector": {"oversample": 1.0}}),
        ("int8_hnsw", "8.17.0", {}),
        ("hnsw", "9.2.0", {}),
    ],
)
def test_elasticsearch_compares_whole_vectors_where_it_can(
    kind: str, version: str, more: dict[str, Any]
) -> None:
    field = {"type": "dense_vector", "dims": 2, "index_options": {"type": kind}}
    legs = legs_of(
        WORDS, elastic(k=5), field=field, distribution="elasticsearch", version=version, refused=400
    )
    given = compile_template(legs.legs[1].feature.template)({**PARAMS, DOC_IDS: ["a", "b"]})
    assert given["knn"] == {
        "field": "v",
        "query_vector": [0.5, -0.25],
        "k": MOST_NEAREST,
        "num_candidates": MOST_NEAREST,
        "filter": {"bool": {"filter": [IDS, {"exists": {"field": "v"}}]}},
        **more,
    }


def test_a_neural_leg_scores_as_many_as_the_engine_takes() -> None:
    neural = {"neural": {"v": {"query_text": "{{keywords}}", "model_id": "m", "k": 5}}}
    (_, leg) = legs_of(WORDS, neural).legs
    assert leg.search["neural"]["v"]["k"] == 50
    filled = compile_template(leg.feature.template)(PARAMS)["neural"]["v"]
    assert filled == {"query_text": 'red "shoe"', "model_id": "m", "k": MOST_NEAREST}


def test_the_nearest_documents_lead_the_candidates() -> None:
    legs = legs_of(WORDS, knn())
    template = legs.query_template
    assert template["rescore"] == {"window_size": 100}
    words, nearest = render(template["query"], PARAMS)["bool"]["should"]
    assert words == {"match": {"title": 'red "shoe"'}}
    assert nearest["constant_score"]["boost"] == LEAD
    assert nearest["constant_score"]["filter"]["knn"]["v"]["vector"] == [0.5, -0.25]
    assert legs.featureset.feature_names == ("a", "b")
    assert legs.featureset.features[0].template == WORDS


@pytest.mark.parametrize(
    ("templates", "field", "message"),
    [
        ((WORDS,), None, "has 1 legs: give 2 to 5"),
        ((WORDS, {"bool": {"must": [{"knn": {"v": {}}}]}}), None, "inside another one"),
        ((WORDS, knn()), {"type": "float"}, "'v' of 'things' is a float: name a knn_vector"),
        ((WORDS, knn(min_score=0.5)), None, "it has 'min_score'; write knn with a field, k"),
        (
            (WORDS, {"knn": {"v": {"vector": [1, 2], "k": 5}}}),
            None,
            "its vector is not a parameter",
        ),
    ],
)
def test_a_leg_that_cannot_score_every_document_is_refused(
    templates: tuple[Any, ...], field: dict[str, Any] | None, message: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        legs_of(*templates, field=field)


@pytest.mark.parametrize(("vector", "fault"), [([0.5], "gives 1 as"), (None, "gives none as")])
def test_vectors_of_another_length_are_refused_by_query(vector: Any, fault: str) -> None:
    legs = legs_of(WORDS, knn())
    params = {"keywords": "x", **({} if vector is None else {"vector": vector})}
    query = JudgedQuery("q7", params, ["d"], np.ones(1, np.float32))
    message = f"leg 'b': its field has vectors of 2 numbers, and query 'q7' {fault}"
    with pytest.raises(BadInput, match=message):
        legs.check_vectors([query])
