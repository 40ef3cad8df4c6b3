"""Every place of the query language where a field stands is read, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.features.feature_set import DERIVED, SCRIPT, Feature
from owpc_ltr.features.named_fields import NamedField, fields_of_query_text, named_fields

# A query with F wherever a field stands, alone or as part of a longer name.
PLACES: list[Any] = [
    {"match": {"F": "{{q}}"}},
    {"match": {"F": {"query": "{{q}}", "fuzziness": "AUTO"}}},
    {"match_phrase": {"F": {"query": "{{q}}", "slop": 2}}},
    {"match_bool_prefix": {"F": "{{q}}"}},
    {"term": {"F": {"value": "{{q}}"}}},
    {"terms": {"F": ["a", "b"], "boost": 2}},
    {"terms_set": {"F": {"terms": ["a"], "minimum_should_match_field": "F"}}},
    {"range": {"F": {"gte": 1979}}},
    {"exists": {"field": "F"}},
    {"multi_match": {"query": "{{q}}", "fields": ["F^2", "F"]}},
    {"multi_match": {"query": "{{q}}", "fields": "F"}},
    {"combined_fields": {"query": "{{q}}", "fields": ["F^0.5"]}},
    {"query_string": {"query": "{{q}}", "fields": ["F"]}},
    {"query_string": {"query": "{{q}}", "default_field": "F"}},
    {"query_string": {"query": "F:{{q}} AND (F:alien OR _exists_:F)"}},
    {"simple_query_string": {"query": "{{q}}", "fields": ["F^3"]}},
    {"more_like_this": {"fields": ["F"], "like": "{{q}}"}},
    {"bool": {"must": [{"match": {"F": "x"}}], "filter": {"term": {"F": 1}}}},
    {"dis_max": {"queries": [{"prefix": {"F": "x"}}, {"wildcard": {"F": "x*"}}]}},
    {"constant_score": {"filter": {"regexp": {"F": "x.*"}}}},
    {"boosting": {"positive": {"fuzzy": {"F": "x"}}, "negative": {"term": {"F": 1}}}},
    {"function_score": {"field_value_factor": {"field": "F", "missing": 0}}},
    {"function_score": {"query": {"match": {"F": "x"}}, "gauss": {"F": {"scale": "2km"}}}},
    {"function_score": {"functions": [{"filter": {"term": {"F": 1}}, "weight": 2},
                                      {"exp": {"F": {"scale": 1}}},
                                      {"random_score": {"field": "F"}}]}},
    {"function_score": {"script_score": {"script": "doc['F'].value"}}},
    {"script_score": {"query": {"match_all": {}}, "script": {"source": 'doc["F"].value * 2'}}},
    {"script_score": {"query": {"exists": {"field": "F"}},
                      "script": {"source": "doc[params.by].value", "params": {"by": "F"}}}},
    {"script": {"script": {"source": "doc.containsKey('F') && doc['F'].size() > 0"}}},
    {"rank_feature": {"field": "F", "linear": {}}},
    {"distance_feature": {"field": "F", "origin": "now", "pivot": "7d"}},
    {"geo_distance": {"distance": "2km", "F": {"lat": 1, "lon": 2}}},
    {"span_term": {"F": "x"}},
    {"span_near": {"clauses": [{"span_term": {"F": "x"}}], "slop": 1}},
    {"span_first": {"match": {"span_term": {"F": "x"}}, "end": 3}},
    {"span_multi": {"match": {"prefix": {"F": {"value": "x"}}}}},
    {"span_not": {"include": {"span_term": {"F": 1}}, "exclude": {"span_term": {"F": 2}}}},
    {"field_masking_span": {"query": {"span_term": {"F": "x"}}, "field": "F"}},
    {"intervals": {"F": {"all_of": {"intervals": [{"match": {"query": "x", "use_field": "F"}}]}}}},
    {"knn": {"F": {"vector": [1, 2], "k": 3, "filter": {"term": {"F": 1}}}}},
    {"knn": {"field": "F", "query_vector": [1, 2], "filter": {"term": {"F": 1}}}},
    {"neural": {"F": {"query_text": "{{q}}", "model_id": "m", "k": 5}}},
    {"hybrid": {"queries": [{"match": {"F": "x"}}]}},
    {"term": {"type": "movie", "F": "x"}},
]  # fmt: skip


def written(tree: Any, name: str) -> Any:
    """The query with `name` in the place of F."""
    return json.loads(json.dumps(tree).replace("F", name).replace("ALSE", "alse"))


def names(template: Any, language: str = "mustache", **params: Any) -> list[str]:
    found = named_fields(Feature("f", tuple(params), template, language), params)
    return list(dict.fromkeys(field.name for field in found))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: json.dumps(place)[:60])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_field_is_found_wherever_it_stands_and_only_there(place: Any, as_text: bool) -> None:
    query = written(place, "vots.raw")
    expected = ["type", "vots.raw"] if "type" in place.get("term", {}) else ["vots.raw"]
    assert names(json.dumps(query) if as_text else query, q="words") == expected


@pytest.mark.parametrize("place", PLACES, ids=lambda place: json.dumps(place)[:60])
def test_a_name_with_a_parameter_in_it_is_left_out(place: Any) -> None:
    query = written(place, "title_{{lang}}")
    if '"source"' in json.dumps(query) or '"script"' in json.dumps(query):
        return  # a quote inside of a script ends no name
    for template in (query, json.dumps(query)):
        assert "title_" not in " ".join(names(template, q="words", lang="en"))


def test_lists_of_names_that_are_parameters_are_left_out_of_templates_in_text() -> None:
    template = (
        '{"bool": {"must": [{"multi_match": {"query": "{{q}}", "fields": '
        '{{#toJson}}fields{{/toJson}}}}, {"range": {"year": {"gte": {{year}} }}}]}}'
    )
    assert names(template, q="x", fields=["titel"], year=1979) == ["year"]


def test_sections_are_read_as_they_come_out() -> None:
    template = (
        '{"bool": {"should": [{{#tags}}{"term": {"tag": "{{.}}"}},{{/tags}} {"match_all": {}}]}}'
    )
    assert names(template, tags=["a", "b"]) == ["tag"]
    assert names(template, tags=[]) == []


def test_what_a_template_without_json_names_is_not_known() -> None:
    assert names('{"range": {"year": {"gte": {{year}} }}}', year="test") == []


def test_derived_features_name_no_field_and_scripts_do() -> None:
    assert names("ln(1 + votes)", DERIVED) == []
    script = {"lang": "painless", "source": "doc['vots'].value", "params": {}}
    assert names(script, SCRIPT) == ["vots"]


def test_nested_paths_and_exists_say_what_they_are_for() -> None:
    query = {
        "nested": {
            "path": "cast",
            "query": {"bool": {"should": [{"match": {"cast.name": "x"}}]}},
            "inner_hits": {"_source": ["nosuch"]},
        }
    }
    found = named_fields(Feature("f", (), query))
    assert found == [NamedField("cast", "path"), NamedField("cast.name")]
    assert named_fields(Feature("f", (), {"exists": {"field": "cast"}})) == [
        NamedField("cast", "exists")
    ]


@pytest.mark.parametrize(
    "query",
    [
        {"match_all": {}},
        {"ids": {"values": ["a"]}},
        {"script_score": {"query": {"match_all": {}},
                          "script": {"source": "// doc['old'].value\nreturn 1;",
                                     "params": {"match": {"x": 1}}}}},
        {"wrapper": {"query": "e30="}},
        {"percentile_of_my_plugin": {"fieldname": "x", "options": {"term": {"y": 1}}}},
        {"query_string": {"query": '"a: b" AND http\\://x'}},
    ],
)  # fmt: skip
def test_what_is_no_field_is_not_taken_for_one(query: Any) -> None:
    assert names(query) == []


def test_the_query_language_has_fields_before_colons_only() -> None:
    assert list(fields_of_query_text("tags.\\*:x AND a:[1 TO 2] -b:{1 TO 3} c-d:/e:f/ {{q}}")) == [
        "tags.*", "a", "b", "c-d",
    ]  # fmt: skip


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from(["match", "field", "fields", "nested", "path", "script", "functions",
                             "query", "filter", "knn", "intervals", "source", "gauss", "x"]),
            inner, max_size=4),
        max_leaves=12,
    )
)  # fmt: skip
def test_no_tree_whatever_breaks_the_reading(tree: Any) -> None:
    for field in named_fields(Feature("f", (), tree)):
        assert isinstance(field.name, str)
        assert field.name
