"""Templates of features: vector search, and what a score is made of."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.feature_log.job import typed_params
from owpc_ltr.engine.stores.feature_queries import (
    check_params,
    compile_featureset,
    count_clauses,
    render,
)
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import Feature, FeatureSet, load_featureset
from owpc_ltr.features.mustache import compiled, json_escape, query_of
from owpc_ltr.features.query_analysis import (
    always_matches,
    highest_value,
    never_negative,
    text_scores,
)
from tests.engine.log_runs import judged

VECTOR = "{{#toJson}}vector{{/toJson}}"
TEXT = {"match": {"title": "{{keywords}}"}}
KNN = f'{{"knn": {{"field": "v", "query_vector": {VECTOR}, "k": 10, "num_candidates": 50}}}}'
OF_VECTORS: dict[str, Any] = {
    "knn of Elasticsearch, in text": KNN,
    "knn of OpenSearch, in text": f'{{"knn": {{"v": {{"vector": {VECTOR}, "k": {{{{k}}}} }}}}}}',
    "knn": {"knn": {"field": "v", "query_vector": [0.5, 1], "k": 3, "filter": TEXT}},
    "neural": {"neural": {"v": {"query_text": "{{keywords}}", "model_id": "m", "k": 5}}},
    "semantic": {"semantic": {"field": "s", "query": "{{keywords}}"}},
    "sparse_vector": {"sparse_vector": {"field": "s", "query_vector": {"a": 0.5}}},
    "neural_sparse": {"neural_sparse": {"s": {"query_tokens": {"a": 0.5}}}},
    "in a bool": {"bool": {"must": [{"knn": {"v": {"vector": [1], "k": 2}}}], "filter": TEXT}},
}


def feature(template: Any, *params: str) -> Feature:
    return Feature("f", params, template)


def as_text(featureset: FeatureSet) -> str:
    return json.dumps(featureset.to_body())


@pytest.mark.parametrize("template", OF_VECTORS.values(), ids=OF_VECTORS)
def test_similarities_of_vectors_are_no_text_scores(template: Any) -> None:
    assert text_scores(FeatureSet("set", (feature(template),))) == ()


@pytest.mark.parametrize("template", OF_VECTORS.values(), ids=OF_VECTORS)
def test_nothing_is_claimed_of_vectors_but_that_they_are_never_negative(template: Any) -> None:
    assert never_negative(feature(template))
    assert not always_matches(feature(template))
    assert highest_value(feature(template)) == math.inf


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_characters="{}")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
)


@given(TREES)
def test_a_text_without_parameters_is_its_tree(tree: Any) -> None:
    template = {"query": tree}
    assert query_of(json.dumps(template)) == template == query_of(template)


@pytest.mark.parametrize(
    ("query", "leaves"),
    [
        ({"knn": {"field": "v", "query_vector": [0.1] * 768, "k": 10}}, 1),
        ({"knn": {"v": {"vector": [0.1] * 768, "k": 10}}}, 1),
        ({"neural": {"v": {"query_text": "a b c", "k": 5}}}, 1),
        ({"semantic": {"field": "s", "query": "a b"}}, 1),
        ({"sparse_vector": {"field": "s", "query_vector": {"a": 1.0, "b": 2.0, "c": 0.5}}}, 3),
        ({"sparse_vector": {"field": "s", "inference_id": "e", "query": "a"}}, 1),
        ({"neural_sparse": {"s": {"query_tokens": {"a": 1.0, "b": 2.0}}}}, 2),
        ({"bool": {"must": [{"knn": {"v": {"vector": [1], "k": 2}}}, TEXT]}}, 2),
    ],
)
def test_each_vector_and_each_token_is_a_clause(query: Any, leaves: int) -> None:
    assert count_clauses([query]) == leaves
    assert count_clauses([{"bool": {"must": [query], "_name": "f"}}] * 3) == 3 * leaves


@pytest.mark.parametrize(
    ("template", "fixed"),
    [
        (
            {"bool": {"should": [TEXT, {"multi_match": {"query": "{{q}}", "fields": ["a", "b"]}}]}},
            True,
        ),
        ({"{{kind}}": {"title": "{{q}}"}}, False),
        ('{"multi_match": {"query": "{{q}}", "fields": {{#toJson}}fields{{/toJson}} }}', False),
    ],
)
def test_clauses_are_counted_once_where_no_parameter_adds_any(template: Any, fixed: bool) -> None:
    prepared = compile_featureset(FeatureSet("fs", (Feature("f", (), template),)))
    params = {"q": "a", "kind": "match", "fields": ["a", "b", "c"], "keywords": "red"}
    leaves = count_clauses([part.query(params) for part in prepared.queries])
    assert prepared.leaves == (leaves if fixed else None)
    assert leaves == (1 if "kind" in str(template) else 3)


HYBRID = {"hybrid": {"queries": [TEXT, {"knn": {"v": {"vector": [1], "k": 2}}}]}}
SECTION = {"field": "v", "query_vector": [1], "k": 2, "num_candidates": 5}


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        (HYBRID, "a hybrid query is allowed at the top of a search only"),
        (json.dumps(HYBRID), "a hybrid query is allowed at the top of a search only"),
        ({"bool": {"must": [HYBRID]}}, "a hybrid query is allowed at the top of a search only"),
        ({"query": TEXT, "knn": SECTION}, "it is a search with a 'query', and a feature is one"),
        ({"query": TEXT}, "it is a search with a 'query', and a feature is one query"),
        ({"retriever": {"rrf": {}}}, "it is a search with a 'retriever'"),
        ({"knn": [SECTION, SECTION]}, "it has a knn section, which ranks beside"),
        ({"knn": SECTION, "match_all": {}}, "it has a knn section, which ranks beside"),
    ],
)
def test_what_is_no_query_says_what_to_write_instead(template: Any, fault: str) -> None:
    params = ("keywords",) if "{{" in json.dumps(template) else ()
    featureset = FeatureSet("set", (feature(template, *params),))
    with pytest.raises(BadInput) as refused:
        load_featureset(as_text(featureset))
    message = str(refused.value)
    assert message.startswith(f"the feature set: feature 'f': {fault}")
    assert "a feature of its own" in message


@pytest.mark.parametrize("template", OF_VECTORS.values(), ids=OF_VECTORS)
def test_a_vector_query_is_a_feature(template: Any) -> None:
    names = [
        n
        for n in ("vector", "keywords", "k")
        if n in json.dumps(template) and "{{" in str(template)
    ]
    featureset = FeatureSet("set", (feature(template, *names),))
    assert load_featureset(as_text(featureset)) == featureset


def test_a_field_called_as_these_queries_are_is_none_of_them() -> None:
    for template in ({"match": {"hybrid": "x"}}, {"match": {"query": "x"}}, {"term": {"knn": "x"}}):
        load_featureset(as_text(FeatureSet("set", (feature(template),))))


SET = FeatureSet("set", (feature(KNN, "vector"), Feature("title", ("keywords",), TEXT)))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_vector_reaches_the_query_as_it_is(vector: list[float]) -> None:
    (query, _) = compile_featureset(SET).queries
    given_to = check_params(SET, {"vector": vector, "keywords": "red"})
    assert query.query(given_to)["knn"]["query_vector"] == vector


@pytest.mark.parametrize("value", [["a"], [0.5, 1], {"a": 1}, ()], ids=str)
def test_a_list_that_would_be_text_is_refused_by_feature_and_parameter(value: Any) -> None:
    params = {"vector": [1.0], "keywords": value}
    kind = "an object" if isinstance(value, dict) else "a list"
    message_start = (
        f"feature 'title' inserts 'keywords' as text, and it is {kind}: give a text or a number"
    )
    with pytest.raises(BadInput) as refused:
        check_params(SET, params)
    assert str(refused.value).startswith(message_start)
    with pytest.raises(BadInput, match=r"^query 'q7': feature 'title' inserts 'keywords' as text"):
        typed_params(judged(**params), SET)
    with pytest.raises(BadInput, match=r"^the query inserts 'keywords' as text, and it is"):
        render(TEXT, params)
    with pytest.raises(BadInput, match="the feature set: validation: feature 'title' inserts"):
        load_featureset(as_text(FeatureSet("s", SET.features, {"index": "i", "params": params})))


@pytest.mark.parametrize("value", ["[1.0]", 3, True])
def test_what_is_no_list_is_refused_by_feature_and_parameter_before_a_log_begins(
    value: Any,
) -> None:
    with pytest.raises(
        BadInput, match=r"^query 'q7': feature 'f' inserts 'vector' as JSON: it must"
    ):
        typed_params(judged(vector=value, keywords="red"), SET)


@given(TREES.filter(lambda tree: isinstance(tree, list | dict)), st.text())
def test_a_template_without_sections_is_filled_as_with_one(value: Any, text: str) -> None:
    """By pieces, and by the library of mustache."""
    template = (
        '{"a": {{#toJson}}vector{{/toJson}}, "b": "{{ q }}", "c": [{{#toJson}} vector {{/toJson}}]}'
    )
    section = "{{^nothing}}" + template + "{{/nothing}}"
    params = {"vector": value, "q": text, "nothing": []}
    filled = compiled(template, json_escape)(params)
    assert filled == compiled(section, json_escape)(params)
    assert json.loads(filled) == {"a": value, "b": text, "c": [value]}


@pytest.mark.parametrize("value", [3, 0.5, True, "text"])
def test_numbers_and_booleans_have_a_text(value: Any) -> None:
    assert check_params(SET, {"vector": [1.0], "keywords": value})["keywords"] == value


def test_a_list_may_be_gone_through_and_an_object_taken_apart() -> None:
    sections = (
        '{"bool": {"should": [{{#tags}}{"term": {"t": "{{.}}"}},{{/tags}} {"match_all": {}}]}}'
    )
    parts = {"geo_distance": {"at": {"lat": "{{at.lat}}"}}}
    featureset = FeatureSet("set", (feature(sections, "tags"), Feature("g", ("at",), parts)))
    check_params(featureset, {"tags": ["a", "b"], "at": {"lat": 1.5}})


def test_java_writes_a_list_as_the_recorded_exchange_has_it() -> None:
    """The plugin takes it without a word: so it is refused before it is sent."""
    assert compiled("{{keywords}}", str)({"keywords": ["alpha", "beta"]}) == "{0=alpha, 1=beta}"


def test_an_applications_own_query_may_have_the_vector_in_a_string_of_its_own() -> None:
    query = {"knn": {"field": "v", "query_vector": VECTOR, "k": "{{#toJson}}k{{/toJson}}"}}
    filled = render(query, {"vector": [0.5, -1.0], "k": 7})
    assert filled == {"knn": {"field": "v", "query_vector": [0.5, -1.0], "k": 7}}
    with pytest.raises(BadInput, match=r"no value for '\{\{vector\}\}'"):
        render(query, {"k": 7})
    # The plugin renders a feature as text, in which that would be a string.
    body = as_text(FeatureSet("s", (feature(query, "vector", "k"),)))
    with pytest.raises(BadInput, match="toJson inside a string gives no JSON"):
        load_featureset(body)
