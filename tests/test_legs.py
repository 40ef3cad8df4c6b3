"""Legs: how they find, how they score every document, and what is refused."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.engine.legs import LEAD, MOST_NEAREST, Legs, read_legs
from owpc_ltr.engine.stores.feature_queries import compile_template, render
from owpc_ltr.errors import BadInput

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
    *templates: Any, field: dict[str, Any] | None = None, distribution: str = "opensearch"
) -> Legs:
    field = field or {
        "type": "knn_vector",
        "dimension": 2,
        "method": {"space_type": "cosinesimil"},
    }
    mapping = {"things": {"mappings": {"properties": {"title": {"type": "text"}, "v": field}}}}
    engine: Any = SimpleNamespace(
        about=lambda: SimpleNamespace(distribution=distribution),
        request=lambda *_args, **_given: mapping,
    )
    names = "abcdefg"
    features = [
        {
            "name": names[number],
            "params": [one for one in ("keywords", "vector") if one in json.dumps(template)],
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
    found = scored(legs, 1)
    assert found["query"]["bool"]["filter"][1] == {"term": {"shop": 'red "shoe"'}}
    assert found["boost"] == 2
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
    ("templates", "field", "told"),
    [
        ((WORDS,), None, "has 1 legs: give 2 to 5"),
        ((WORDS, {"bool": {"must": [{"knn": {"v": {}}}]}}), None, "inside another one"),
        ((WORDS, knn()), {"type": "float"}, "'v' of 'things' is a float: name a knn_vector"),
        ((WORDS, knn()), {"type": "knn_vector", "space_type": "l1"}, "no script scores 'v'"),
        ((WORDS, knn(min_score=0.5)), None, "it has 'min_score'; write knn with a field, k"),
        ((WORDS, {"knn": {"v": {"vector": [1, 2], "k": 5}}}), None, "its vector is no parameter"),
    ],
)
def test_a_leg_that_cannot_score_every_document_is_refused(
    templates: tuple[Any, ...], field: dict[str, Any] | None, told: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(told)) as caught:
        legs_of(*templates, field=field)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("vector", "told"), [([0.5], "gives 1 as"), (None, "gives none as")])
def test_vectors_of_another_length_are_refused_by_query(vector: Any, told: str) -> None:
    legs = legs_of(WORDS, knn())
    params = {"keywords": "x", **({} if vector is None else {"vector": vector})}
    query = JudgedQuery("q7", params, ["d"], np.ones(1, np.float32))
    message = f"leg 'b': its field has vectors of 2 numbers, and query 'q7' {told}"
    with pytest.raises(BadInput, match=message):
        legs.check_vectors([query])
