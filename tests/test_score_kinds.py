"""What a score is made of, told by the structure of its query."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.features.feature_set import Feature
from owpc_ltr.features.score_kinds import ScoreKind, score_kind

TEXT = {"match": {"title": "{{q}}"}}
CONSTANT = {"constant_score": {"filter": TEXT}}
MIXED = {"match_bool_prefix": {"title": "{{q}}"}}
UNKNOWN = {"term": {"tag": "x"}}
LEAVES = st.sampled_from([TEXT, CONSTANT, MIXED, UNKNOWN])


def kind(template: Any) -> ScoreKind:
    return score_kind(Feature("f", (), template))


@pytest.mark.parametrize(
    "template",
    [
        TEXT,
        {"match": {"title": {"query": "{{q}}", "fuzziness": "AUTO"}}},
        {"match_phrase_prefix": {"title": "{{q}}"}},
        {"multi_match": {"query": "{{q}}", "fields": ["a", "b"], "type": "cross_fields"}},
        {"dis_max": {"queries": [TEXT, {"multi_match": {"query": "x"}}], "tie_breaker": 0.3}},
        {"bool": {"must": TEXT, "filter": CONSTANT, "must_not": CONSTANT}},
        {"boosting": {"positive": TEXT, "negative": CONSTANT, "negative_boost": 0.5}},
        {"nested": {"path": "p", "query": TEXT}},
        {"function_score": {"query": TEXT}},
        {"function_score": {"query": TEXT, "field_value_factor": {"field": "n"}}},
    ],
    ids=str,
)
def test_text_alone_moves_by_the_factor(template: Any) -> None:
    assert kind(template) is ScoreKind.text


@pytest.mark.parametrize(
    "template",
    [
        CONSTANT,
        {"match_all": {}},
        {"range": {"n": {"gte": 1}}},
        {"terms": {"tag": ["x"]}},
        {"prefix": {"title": "a"}},
        {"bool": {"filter": [TEXT]}},
        {"bool": {"should": [CONSTANT, {"exists": {"field": "n"}}]}},
        {"nested": {"path": "p", "query": TEXT, "score_mode": "none"}},
        {"has_child": {"type": "c", "query": TEXT}},
        {"has_parent": {"parent_type": "c", "query": TEXT}},
        {"function_score": {"field_value_factor": {"field": "n"}}},
        {"function_score": {"query": TEXT, "gauss": {"n": {}}, "boost_mode": "replace"}},
        {"script_score": {"query": TEXT, "script": {"source": "doc['n'].value"}}},
    ],
    ids=str,
)
def test_what_has_nothing_of_text_stays(template: Any) -> None:
    assert kind(template) is ScoreKind.constant


@pytest.mark.parametrize(
    "template",
    [
        MIXED,
        {"multi_match": {"query": "{{q}}", "fields": ["a"], "type": "bool_prefix"}},
        {"bool": {"should": [TEXT, CONSTANT]}},
        {"dis_max": {"queries": [TEXT, CONSTANT]}},
        {"function_score": {"query": TEXT, "gauss": {"n": {}}, "boost_mode": "sum"}},
        {"function_score": {"query": TEXT, "functions": [{"weight": 3}], "boost_mode": "max"}},
    ],
    ids=str,
)
def test_a_sum_of_text_and_constants_moves_by_no_factor(template: Any) -> None:
    assert kind(template) is ScoreKind.mixed


@pytest.mark.parametrize(
    "template",
    [
        "{{#a}}{}{{/a}}",
        {},
        UNKNOWN,
        {"query_string": {"query": "{{q}}"}},
        {"simple_query_string": {"query": "70 {{q}}", "fields": ["year"]}},
        {"prefix": {"title": {"value": "a", "rewrite": "scoring_boolean"}}},
        {"match": {"title": {"query": "{{q}}", "zero_terms_query": "all"}}},
        {"script_score": {"query": TEXT, "script": {"source": "_score * 3"}}},
        {"script_score": {"query": TEXT, "script": {"id": "stored"}}},
        {"function_score": {"query": TEXT, "min_score": 2}},
        {"function_score": {"query": TEXT, "script_score": {"script": "_score + 1"}}},
        {"function_score": {"query": UNKNOWN, "boost_mode": "sum"}},
        {"brand_new_query": {}},
    ],
    ids=str,
)
def test_what_the_query_alone_does_not_say_is_not_known(template: Any) -> None:
    assert kind(template) is ScoreKind.unknown


@given(st.lists(LEAVES, min_size=1, max_size=4), st.booleans())
def test_one_clause_around_queries_has_the_kind_of_their_sum(
    queries: list[dict[str, Any]], most: bool
) -> None:
    kinds = {kind(query) for query in queries}
    whole = {"dis_max": {"queries": queries}} if most else {"bool": {"should": queries}}
    found = kind(whole)
    assert kind({"bool": {"must": [whole]}}) is found
    assert kind({"bool": {"must": queries[::-1]}}) is found
    if len(kinds) == 1:
        assert found in kinds
    assert (found is ScoreKind.text) == (kinds == {ScoreKind.text})
    assert (found is ScoreKind.constant) == (kinds == {ScoreKind.constant})


def test_a_script_or_a_derived_feature_is_not_known() -> None:
    for language in ("derived_expression", "script_feature"):
        assert score_kind(Feature("f", (), "a + b", language)) is ScoreKind.unknown
