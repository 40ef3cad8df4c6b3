"""What a feature's query names and how it scores: its fields, the bounds of its scores.

Bounds are stated only if they hold on any index; else they are unknown.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import DERIVED, MUSTACHE, SCRIPT, Feature, FeatureSet
from owpc_ltr.features.mustache import compiled, json_escape, query_of

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json

Use = Literal["field", "exists", "path"]
"""Searched by its values, asked whether it is there, or the path of nested documents."""

_MARK = "\0"
"""Stands where a parameter will: no field's name has it."""
_TEXT_OR_TAG = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TAG = re.compile(r"\{\{.*?\}\}", re.DOTALL)

_WORDS = frozenset(
    (
        *("match", "match_phrase", "match_phrase_prefix", "match_bool_prefix", "common"),
        *("term", "terms", "terms_set", "range", "prefix", "wildcard", "regexp", "fuzzy"),
        *("span_term", "intervals", "neural", "neural_sparse", "text_expansion"),
        *("weighted_tokens", "knn"),
    )
)
_PLACES = frozenset(
    (
        *("geo_distance", "geo_bounding_box", "geo_polygon", "geo_shape", "geo_grid"),
        *("xy_shape", "shape"),
    )
)
_BY_FIELD = _WORDS | _PLACES
"""Queries whose object has the field's name as a key."""
_OPTIONS = frozenset(("boost", "_name"))
"""The other keys that such an object has."""
_OPTIONS_OF_PLACES = _OPTIONS | frozenset(
    (
        *("distance", "distance_type", "unit", "validation_method", "type", "optimize_bbox"),
        *("ignore_unmapped", "relation", "multi_value_mode"),
    )
)
"""Those of places, and of decays, which may be of places."""
_DECAYS = frozenset(("gauss", "exp", "linear"))
_QUERIES_IN = (
    *("query", "filter", "must", "should", "must_not", "positive", "negative", "queries"),
    *("match", "include", "exclude", "clauses", "little", "big", "organic", "no_match_query"),
)
"""Where queries stand in queries that hold others."""


@dataclass(frozen=True)
class NamedField:
    """A field as a template names it, perhaps a pattern such as `title*`, and what it is for."""

    name: str
    use: Use = "field"


def named_fields(feature: Feature, params: Mapping[str, Any] | None = None) -> list[NamedField]:
    """The fields that a feature names, each once, in order.

    `params` decide what a template in text becomes; nothing of a template that gives no JSON with
    them is known, and an engine will refuse it.

    >>> boosted = Feature("f", ("q",), {"multi_match": {"query": "{{q}}", "fields": ["title^2"]}})
    >>> [field.name for field in named_fields(boosted)]
    ['title']
    """
    if feature.template_language == DERIVED:
        return []
    template = feature.template
    if isinstance(template, str):
        template = _filled(template, params or {})
    fields = _script(template) if feature.template_language == SCRIPT else _query(template)
    return [
        field
        for field in dict.fromkeys(fields)
        if field.name and _MARK not in field.name and "{{" not in field.name
    ]


def _filled(template: str, params: Mapping[str, Any]) -> Any:
    """The query of a template in text, with marks where a string has parameters."""

    def marked(match: re.Match[str]) -> str:
        return _TAG.sub("\\\\u0000", match[0])

    try:
        text = compiled(_TEXT_OR_TAG.sub(marked, template), json_escape)
        return json.loads(text({name: _marked(value) for name, value in params.items()}))
    except (BadInput, ValueError, RecursionError):
        return None


def _marked(value: Json) -> Any:
    """A list or object whose texts have marks; numbers and texts on their own stay as they are."""
    if isinstance(value, list | tuple):
        return [_MARK + part if isinstance(part, str) else _marked(part) for part in value]
    if isinstance(value, Mapping):
        return {_MARK + key: _marked(part) for key, part in value.items()}
    return value


def _query(tree: Json) -> Iterator[NamedField]:
    """The fields of a query, or of each in a list of them."""
    if isinstance(tree, list):
        for part in tree:
            yield from _query(part)
    elif isinstance(tree, dict):
        for name, content in tree.items():
            if isinstance(content, dict):
                yield from _of_type(str(name), content)


def _of_type(name: str, content: dict[str, Any]) -> Iterator[NamedField]:
    # Elasticsearch's knn query names its field as a value, OpenSearch's as a key.
    if name in _BY_FIELD and not isinstance(content.get("field"), str):
        yield from _keyed(content, _OPTIONS_OF_PLACES if name in _PLACES else _OPTIONS)
        return
    if name == "nested":
        yield from _names(content.get("path"), "path")
    if name == "query_string":
        for field in fields_of_query_text(str(content.get("query", ""))):
            yield NamedField(field)
    yield from _names(content.get("field"), "exists" if name == "exists" else "field")
    yield from _names(content.get("default_field"))
    yield from _names(content.get("fields"))
    yield from _functions(content)
    for part in _QUERIES_IN:
        yield from _query(content.get(part))
    yield from _script(content.get("script"))


def _keyed(content: dict[str, Any], options: frozenset[str]) -> Iterator[NamedField]:
    for name, inner in content.items():
        if name in options:
            continue
        yield NamedField(name)
        if isinstance(inner, dict):
            yield from _names(inner.get("minimum_should_match_field"))
            yield from _script(inner.get("minimum_should_match_script"))
            yield from _query(inner.get("filter"))
            yield from _other_fields(inner)


def _other_fields(rule: Json) -> Iterator[NamedField]:
    """The fields that rules of an `intervals` query search in place of its own."""
    if isinstance(rule, list):
        for part in rule:
            yield from _other_fields(part)
    elif isinstance(rule, dict):
        yield from _names(rule.get("use_field"))
        for key, part in rule.items():
            if key != "script":
                yield from _other_fields(part)


def _functions(content: dict[str, Any]) -> Iterator[NamedField]:
    """The fields of a function_score's functions, which stand in a list or by themselves."""
    listed = content.get("functions")
    for part in (content, *(listed if isinstance(listed, list) else ())):
        if not isinstance(part, dict):
            continue
        for name, inner in part.items():
            if not isinstance(inner, dict):
                continue
            if name in _DECAYS:
                yield from _keyed(inner, _OPTIONS_OF_PLACES)
            elif name in {"field_value_factor", "random_score"}:
                yield from _names(inner.get("field"))
            elif name == "script_score":
                yield from _script(inner.get("script"))
        if part is not content:
            yield from _query(part.get("filter"))


def _script(script: Json) -> Iterator[NamedField]:
    """The fields of a script: its source, or an object with that and its parameters."""
    if isinstance(script, str):
        script = {"source": script}
    if isinstance(script, dict):
        source, params = script.get("source", ""), script.get("params")
        if isinstance(source, str):
            for name in fields_of_script(source, params if isinstance(params, dict) else {}):
                yield NamedField(name)


def _names(content: Json, use: Use = "field") -> Iterator[NamedField]:
    """One name or several, without their boosts."""
    for name in content if isinstance(content, list) else [content]:
        if isinstance(name, str):
            yield NamedField(name.partition("^")[0], use)


_QUOTED = r"""(?:'([^'\\]*)'|"([^"\\]*)")"""
_OF_DOC = re.compile(rf"\bdoc\s*(?:\[\s*|\.(?:containsKey|get)\s*\(\s*){_QUOTED}\s*[\])]")
_OF_FIELD = re.compile(rf"(?<![\w.])(?:field|\$)\s*\(\s*{_QUOTED}\s*[,)]")
_OF_PARAMETER = re.compile(rf"\bdoc\s*\[\s*params\s*(?:\.\s*(\w+)|\[\s*{_QUOTED}\s*\])\s*\]")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/|\[[^\]]*\]|(?<!\{)\{(?!\{)[^{}]*\}')
_BEFORE_COLON = re.compile(r"(?:^|(?<=[\s(+!-]))((?!-)(?:[\w@.{}\0]|-(?=\w)|\\\*|\*)+):(?!\s*$)")
_ASKED_FOR = re.compile(r"_exists_:\s*([\w.@{}\0]+)")


def fields_of_script(source: str, params: Mapping[str, Any]) -> Iterator[str]:
    """The fields that a painless script or an expression reads, where they are written out.

    >>> list(fields_of_script("doc['votes'].value + doc[params.by].value", {"by": "year"}))
    ['votes', 'year']
    """
    # A comment can hold what once was read; in a text "//" is rare, and then too little is found.
    text = _COMMENT.sub(" ", source)
    for pattern in (_OF_DOC, _OF_FIELD):
        for match in pattern.finditer(text):
            yield match[1] or match[2] or ""
    for match in _OF_PARAMETER.finditer(text):
        name = params.get(match[1] or match[2] or match[3])
        if isinstance(name, str):
            yield name


def fields_of_query_text(text: str) -> Iterator[str]:
    r"""The fields that the text of a query_string names, `title:alien`, outside of quotes.

    >>> list(fields_of_query_text('title:alien AND (_exists_:year OR tags.\\*:"x: y")'))
    ['title', 'tags.*', 'year']
    """
    text = _LITERAL.sub('""', text)
    for match in _BEFORE_COLON.finditer(text):
        if match[1] != "_exists_":
            yield match[1].replace("\\", "")
    for match in _ASKED_FOR.finditer(text):
        yield match[1]


_MATCHING = frozenset(
    {
        "combined_fields",
        "match",
        "match_bool_prefix",
        "match_phrase",
        "match_phrase_prefix",
        "more_like_this",
        "multi_match",
        "query_string",
        "simple_query_string",
    }
)
_WITHOUT_SCORE = frozenset({"constant_score", "filter", "must_not"})


def text_scores(featureset: FeatureSet) -> tuple[str, ...]:
    """The names of the features whose template is, or holds, a full-text query that scores."""
    return tuple(
        feature.name
        for feature in featureset.features
        if feature.template_language == MUSTACHE
        and _matches(query_of(feature.template) or feature.template)
    )


def _matches(template: Json) -> bool:
    if isinstance(template, str):
        # Text that is no JSON before its parameters are known.
        return any(f'"{name}"' in template for name in _MATCHING)
    if isinstance(template, dict):
        if template.get("boost_mode") == "replace":
            return False
        return any(
            name not in _WITHOUT_SCORE and (name in _MATCHING or _matches(part))
            for name, part in template.items()
        )
    return isinstance(template, list) and any(_matches(part) for part in template)


_UP_TO_BOOST = {"match_all", "constant_score", "exists", "ids", "terms", "distance_feature"}
"""Queries whose score is their boost, or less."""
_UP_TO_ONE = {"exp", "gauss", "linear", "random_score"}
_UP_TO_FIELD_BOOST = {"range", "prefix", "wildcard", "regexp"}
"""The same, with the boost inside the field's own object."""


def always_matches(feature: Feature) -> bool:
    """Whether the feature has a value on every document, so that it is never missing.

    A derived or scripted feature may come from one that is missing.
    """
    return feature.template_language == MUSTACHE and _matches_all(feature.template)


def highest_value(feature: Feature) -> float:
    """A number that no value of the feature exceeds; infinity where none is known."""
    return _highest(feature.template) if feature.template_language == MUSTACHE else math.inf


def never_negative(feature: Feature) -> bool:
    """Whether no value is below 0: so it is with what queries score, but not with scripts.

    Similarities of vectors too: engines shift or bend cosines and inner products to 0 and up.
    """
    return feature.template_language == MUSTACHE


def _matches_all(query: Json) -> bool:
    name, content = _only(query)
    if name == "match_all":
        return True
    if name == "constant_score":
        return _matches_all(content.get("filter"))
    if name in {"function_score", "script_score"} and "min_score" not in content:
        return "query" not in content or _matches_all(content["query"])
    return False


def _highest(query: Json) -> float:
    name, content = _only(query)
    if name in _UP_TO_BOOST:
        return _boost(content)
    if name in _UP_TO_FIELD_BOOST:
        field, inner = _only(content)
        return math.inf if not field or "rewrite" in inner else _boost(inner)
    if name == "rank_feature":
        # Saturation, which is usual, and sigmoid stay below 1.
        return math.inf if {"log", "linear"} & content.keys() else _boost(content)
    if name == "function_score" and content.get("boost_mode") == "replace":
        return math.inf if "boost" in content else _highest_function(content)
    return math.inf


def _highest_function(content: dict[str, Any]) -> float:
    """What functions give that replace the score of their query: decays 1 at most."""
    functions = content.get("functions", [content])
    decays = isinstance(functions, list) and all(
        isinstance(function, dict) and _UP_TO_ONE & function.keys() and "weight" not in function
        for function in functions
    )
    bound = 1.0 if decays and content.get("score_mode", "multiply") != "sum" else math.inf
    return min(bound, _number(content.get("max_boost")))


def _only(query: Json) -> tuple[str, dict[str, Any]]:
    """The one name in an object and what it names, as an object; no name if there are several."""
    if not isinstance(query, dict) or len(query) != 1:
        return "", {}
    ((name, content),) = query.items()
    return name, content if isinstance(content, dict) else {}


def _boost(content: dict[str, Any]) -> float:
    return _number(content.get("boost", 1.0))


def _number(value: Json) -> float:
    """A number that is written out; a mustache tag can become any."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.inf
    return float(value) if value >= 0 else math.inf
