"""Feature sets: what an engine would ignore is refused, and every field of a query is found."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.stores.feature_queries import check_params, compile_featureset, render
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.expressions import compile_expression, expression_variables
from owpc_ltr.features.feature_set import DERIVED, SCRIPT, Feature, FeatureSet, load_featureset
from owpc_ltr.features.mustache import java_text, variables
from owpc_ltr.features.query_analysis import NamedField, fields_of_query_text, named_fields

SHIPPED = sorted((Path(__file__).resolve().parents[2] / "featuresets").glob("*.json"))
TITLE = {"name": "title", "params": ["keywords"], "template": {"match": {"title": "{{keywords}}"}}}


def text_of(*features: Any, **more: Any) -> str:
    return json.dumps({"featureset": {"name": "fs", "features": list(features)}, **more})


def fault(text: str) -> str:
    with pytest.raises(BadInput) as error:
        load_featureset(text)
    line = str(error.value)
    assert "\n" not in line
    return line


def with_template(template: Any, *params: str, **more: Any) -> dict[str, Any]:
    return {"name": "f", "params": list(params), "template": template, **more}


# --- files


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_shipped_sets_are_sound(path: Path) -> None:
    featureset = load_featureset(path)
    assert featureset.name == path.stem
    assert len(featureset.features) >= 12
    assert featureset.params == ("keywords",)
    assert featureset.validation is not None
    compile_featureset(featureset)


def test_what_is_written_is_what_was_read() -> None:
    validation = {"index": "docs", "params": {"keywords": "a"}}
    featureset = load_featureset(text_of(TITLE, validation=validation))
    again = load_featureset(json.dumps(featureset.to_body()))
    assert again == featureset
    assert again.hash == featureset.hash
    assert again.validation == featureset.validation == validation


def test_a_set_may_stand_bare_and_take_its_files_name(tmp_path: Path) -> None:
    path = tmp_path / "films.json"
    path.write_text(json.dumps({"features": [TITLE]}))
    assert load_featureset(path).name == "films"
    assert load_featureset(path, "other").name == "other"
    with pytest.raises(BadInput, match="has no name"):
        load_featureset(path.read_text())


def test_a_text_without_a_bracket_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "films.json"
    path.write_text(text_of(TITLE))
    assert load_featureset(str(path)) == load_featureset(path)
    assert load_featureset(f"\n {path.read_text()}") == load_featureset(path)
    for absent in ("films.json", '"a text"', "name\0", "x" * 5000):
        with pytest.raises(BadInput, match=r"^cannot read the feature set "):
            load_featureset(absent)


def test_the_hash_tells_features_and_their_order_and_nothing_else() -> None:
    other, none = (with_template({kind: {}}) for kind in ("match_all", "match_none"))
    featureset = load_featureset(text_of(TITLE, other))
    for changed in (text_of(other, TITLE), text_of(TITLE, none)):
        assert load_featureset(changed).hash != featureset.hash
    renamed = {"featureset": {"name": "x", "features": [TITLE, other]}}
    assert load_featureset(json.dumps(renamed, sort_keys=True, indent=3)).hash == featureset.hash


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not JSON"),
        ("{", "line 1"),
        ("[1]", "must be a JSON object"),
        ("[" * 100_000, "nested too deep"),
        ('{"featureset": {"name": "a", "name": "b", "features": []}}', "'name' occurs twice"),
        ('{"features": {}, "name": "a"}', "a list of features"),
        (text_of(), "empty"),
        (text_of(TITLE, TITLE), "'title' occurs twice"),
        (text_of(TITLE, foo=1), "unknown key 'foo'"),
        (text_of({"name": "f", "params": []}), "template is missing"),
        (text_of({**TITLE, "weight": 2}), "unknown key 'weight'"),
        (text_of({**TITLE, "params": "keywords"}), "list of names"),
        (text_of({**TITLE, "template": 3}), "query object"),
        (text_of({**TITLE, "template": {}}), "empty"),
        (text_of({**TITLE, "template_language": "nolang"}), "'nolang'"),
        (text_of({**TITLE, "name": "a,b"}), "comma"),
        (text_of({**TITLE, "name": ""}), "printable"),
        (text_of({**TITLE, "name": " a"}), "outer spaces"),
        (text_of({**TITLE, "name": "query_id"}), "column of that name"),
        (text_of({**TITLE, "name": "label"}), "column of that name"),
        (text_of({**TITLE, "params": []}), "'keywords'"),
        (text_of(TITLE, validation={"index": "i"}), "no value for 'keywords'"),
        (text_of(TITLE, validation={"params": {}}), "index is missing"),
        (text_of(TITLE, validation={"index": "i", "size": 3}), "unknown key 'size'"),
        (text_of(with_template("ln(title)", template_language="derived_expression")), "'title'"),
        (text_of(with_template("log(1)", template_language="derived_expression")), "'log'"),
        (text_of(with_template("ln((1)", template_language="derived_expression")), "parentheses"),
        (
            text_of(with_template("title", template_language="derived_expression"), TITLE),
            "comes after it",
        ),
    ],
)
def test_a_broken_set_is_told_in_one_line(text: str, what: str) -> None:
    assert what in fault(text)


@pytest.mark.parametrize(
    "tag",
    [
        *("{{{q}}}", "{{&q}}", "{{& q}}", "{{>q}}", "{{> file:///etc/passwd}}", "{{=<% %>=}}"),
        *("{{ {q} }}", "{{#join}}q{{/join}}", "{{#url}}q{{/url}}", "{{q", "{{q}", "{{#q}}"),
        *("{{/q}}", "{{q r}}", "{{q.size}}", "{{}}", "{{#a}}{{#q}}{{/a}}{{/q}}"),
    ],
)
@pytest.mark.parametrize("as_text", [True, False])
def test_tags_that_escape_checks_are_refused(tag: str, as_text: bool) -> None:
    template: Any = {"match": {"title": tag}}
    line = fault(text_of(with_template(json.dumps(template) if as_text else template, "q", "a")))
    assert "feature 'f'" in line


def test_to_json_is_for_templates_written_as_text() -> None:
    tag = "{{#toJson}}tags{{/toJson}}"
    assert "write the whole template as text" in fault(
        text_of(with_template({"terms": {"tag": tag}}, "tags"))
    )
    featureset = load_featureset(text_of(with_template(f'{{"terms": {{"tag": {tag}}}}}', "tags")))
    (query,) = compile_featureset(featureset).queries
    assert query.query({"tags": ["a", 'b"']}) == {"terms": {"tag": ["a", 'b"']}}
    for unsafe in ('"]}}', 3, True):
        with pytest.raises(BadInput, match="'tags'"):
            check_params(featureset, {"tags": unsafe})
        with pytest.raises(BadInput, match="'tags'"):
            query.query({"tags": unsafe})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xe9"}')
    for path, message in (
        (tmp_path / "none.json", "none.json"),
        (tmp_path, str(tmp_path)),
        (tmp_path / "latin.json", "UTF-8"),
    ):
        with pytest.raises(BadInput, match=message):
            load_featureset(path)


# --- rendering

QUERY = {"bool": {"must": [{"match": {"title": {"query": "<{{q}}> {{q}}", "boost": 2.0}}}]}}


@given(st.text())
def test_no_text_of_a_user_changes_the_structure_of_a_query(text: str) -> None:
    built = render(QUERY, {"q": text})
    (clause,) = built["bool"]["must"]
    assert clause == {"match": {"title": {"query": f"<{text}> {text}", "boost": 2.0}}}


@given(st.text() | st.integers() | st.floats(allow_nan=False) | st.none() | st.booleans())
def test_a_template_as_text_gives_the_same_query_as_one_written_as_an_object(value: Any) -> None:
    as_text = json.dumps(QUERY).replace("{{q}}", "{{#z}}{{q}}{{/z}}")
    assert render(as_text, {"q": value, "z": True}) == render(QUERY, {"q": value})


def test_sections_follow_the_values() -> None:
    template = {"match": {"t": "{{#on}}yes{{/on}}{{^on}}no{{/on}} {{#list}}[{{.}}]{{/list}}"}}
    shown = render(template, {"on": True, "list": ["a", 2]})
    assert shown == {"match": {"t": "yes [a][2]"}}
    assert render(template, {"on": False, "list": []}) == {"match": {"t": "no "}}
    # Java takes every number for true, also 0.
    assert render({"match": {"t": "{{#n}}yes{{/n}}"}}, {"n": 0}) == {"match": {"t": "yes"}}


def test_parts_of_an_object_are_named_with_dots_and_keys_and_lists_are_rendered_too() -> None:
    assert variables("{{place.lat}}") == {"place"}
    assert render({"t": "{{place.lat}}"}, {"place": {"lat": 1.5}}) == {"t": "1.5"}
    template = {"terms": {"{{field}}": ["{{a}}", "b"]}}
    assert render(template, {"field": "tag", "a": "x"}) == {"terms": {"tag": ["x", "b"]}}


@pytest.mark.parametrize(
    ("template", "params", "message"),
    [
        ({"t": "{{place}}"}, {"place": {"lat": 1.5}}, "object"),
        (QUERY, {"keywords": "a"}, r"\{\{q\}\}"),
        *((text, {"q": "x"}, ".") for text in ('{"a": {{q}}}', "[1]", "3")),
    ],
)
def test_what_gives_no_query_is_told(template: Any, params: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        render(template, params)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (12345678.9, "1.23456789E7"),
        (-1e300, "-1.0E300"),
        (0.0, "0.0"),
        (10**30, str(10**30)),
        (["alpha", "beta"], "{0=alpha, 1=beta}"),
    ],
)
def test_numbers_and_lists_are_written_as_java_writes_them(value: Any, text: str) -> None:
    assert java_text(value) == text


# --- what runs without the plugin


def test_what_needs_the_plugin_is_refused_by_name() -> None:
    script = Feature("s", (), {"source": "1"}, "script_feature")
    with pytest.raises(Refused, match="'s'"):
        compile_featureset(FeatureSet("fs", (script,)))
    inner = Feature("f", (), {"match": {"t": {"query": "a", "_name": "title"}}})
    (query,) = compile_featureset(FeatureSet("fs", (inner,))).queries
    with pytest.raises(BadInput, match="_name"):
        query.query({})
    for template in ({"match": {"{{field}}": "a"}}, '{"match": {"{{field}}": "a"}}'):
        (query,) = compile_featureset(FeatureSet("fs", (Feature("f", (), template),))).queries
        assert query.query({"field": "title"}) == {"match": {"title": "a"}}
        with pytest.raises(BadInput, match="_name"):
            query.query({"field": "_name"})


def test_derived_features_are_computed_in_order_with_zero_for_what_did_not_match() -> None:
    features = (
        Feature("a", (), {"match_all": {}}),
        Feature("b", (), {"match_all": {}}),
        Feature("c", (), "a * 2 + ln(1 + b)", "derived_expression"),
        Feature("d", (), "-c / (a - 1)", "derived_expression"),
    )
    values = compile_featureset(FeatureSet("fs", features)).with_derived({"a": 0.5})
    assert values == {"a": 0.5, "c": 1.0, "d": 2.0}


@pytest.mark.parametrize(
    "text",
    [
        *("a > 1", "a ? 1 : 2", "a ** 2", "__import__('os')", "a.b(1)", "max(a)", "'a'", "a[0]"),
        *("(", "lambda: 1", "a if a else b", "not a", "a // 2", "True", "x" * 3000),
        "(" * 900 + "a" + ")" * 900,
    ],
)
def test_more_than_arithmetic_is_left_to_the_plugin(text: str) -> None:
    with pytest.raises(BadInput):
        compile_expression(text)({"a": 1.0, "b": 2.0})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 / 0", math.inf),
        ("ln(0)", -math.inf),
        ("sqrt(0 - 1)", math.nan),
        ("pow(2, 10) - max(1, 2) * min(3, 4)", 1018.0),
        ("logn(2, 8) + log10(100) + abs(-1) + floor(1.5) + ceil(1.5) + exp(0)", 10.0),
        ("2 - 1 - 1", 0.0),
    ],
)
def test_arithmetic_is_javas(text: str, value: float) -> None:
    assert compile_expression(text)({}) == pytest.approx(value, nan_ok=True)


def test_variables_of_any_expression_are_found() -> None:
    assert expression_variables("a_1 > 2 ? max(b, 1e5) : c.d") == {"a_1", "b", "c.d"}


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
    fields = named_fields(Feature("f", tuple(params), template, language), params)
    return list(dict.fromkeys(field.name for field in fields))


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


def test_names_in_templates_as_text_are_read_as_they_come_out() -> None:
    template = (
        '{"bool": {"must": [{"multi_match": {"query": "{{q}}", "fields": '
        '{{#toJson}}fields{{/toJson}}}}, {"range": {"year": {"gte": {{year}} }}}]}}'
    )
    # Names that are parameters are left out.
    assert names(template, q="x", fields=["titel"], year=1979) == ["year"]
    template = (
        '{"bool": {"should": [{{#tags}}{"term": {"tag": "{{.}}"}},{{/tags}} {"match_all": {}}]}}'
    )
    assert names(template, tags=["a", "b"]) == ["tag"]
    assert names(template, tags=[]) == []
    # What gives no JSON is not known.
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
    fields = named_fields(Feature("f", (), query))
    assert fields == [NamedField("cast", "path"), NamedField("cast.name")]
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
