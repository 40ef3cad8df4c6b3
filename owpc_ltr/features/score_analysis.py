"""What the structure of a feature's query says of its scores: their kind, and their bounds.

Text scores are BM25's, which engines have changed by a factor; constants, fields' values and
distances stay, those of vectors among them. What is a sum of both moves too, but by no factor.
Of bounds only what holds on any index is said; of all else, that it is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from owpc_ltr.features.feature_set import MUSTACHE, Feature, FeatureSet
from owpc_ltr.features.mustache import query_of


class ScoreKind(StrEnum):
    """What a score is made of."""

    text = "text"
    """BM25 alone, at most times or among itself: it moves by BM25's factor."""
    constant = "constant"
    """Nothing of BM25: it stays."""
    mixed = "mixed"
    """Both: it moves, and not by a factor."""
    unknown = "unknown"
    """The query alone does not say: it depends on the mapping, the text or a script."""


def score_kind(feature: Feature) -> ScoreKind:
    """The kind of a feature's score; what is derived, scripted or has sections is not known."""
    if feature.template_language != MUSTACHE:
        return ScoreKind.unknown
    return _kind(query_of(feature.template))


# A term of a keyword is scored by BM25, one of a number is not; query strings parse to anything.
_TEXT = frozenset(
    (
        *("match", "match_phrase", "match_phrase_prefix", "multi_match", "combined_fields"),
        *("more_like_this", "fuzzy"),
    )
)
_CONSTANT = frozenset(
    (
        *("match_all", "match_none", "constant_score", "exists", "ids", "terms", "terms_set"),
        *("range", "distance_feature", "rank_feature", "knn", "intervals", "geo_distance"),
        *("geo_bounding_box", "geo_polygon", "geo_shape", "type"),
        # Similarities of vectors, dense or of weighted tokens, whatever filters them.
        *("neural", "neural_sparse", "semantic", "sparse_vector", "text_expansion"),
        "weighted_tokens",
    )
)
_OF_TERMS = frozenset(("prefix", "wildcard", "regexp"))


def _kind(query: Any) -> ScoreKind:
    if not isinstance(query, dict) or len(query) != 1:
        return ScoreKind.unknown
    ((name, content),) = query.items()
    if not isinstance(content, dict):
        return ScoreKind.unknown
    if name in _STRUCTURES:
        return _STRUCTURES[name](content)
    if name in _TEXT:
        return _text(name, content)
    if name in _OF_TERMS:
        return ScoreKind.unknown if "rewrite" in _options(content) else ScoreKind.constant
    return ScoreKind.constant if name in _CONSTANT else ScoreKind.unknown


def _together(kinds: Iterable[ScoreKind]) -> ScoreKind:
    """The kind of a sum, or of the best, of scores; of no score, a constant."""
    distinct = set(kinds)
    for kind in (ScoreKind.mixed, ScoreKind.unknown):
        if kind in distinct:
            return kind
    if len(distinct) == 2:
        return ScoreKind.mixed
    return distinct.pop() if distinct else ScoreKind.constant


def _text(name: str, content: dict[str, Any]) -> ScoreKind:
    if content.get("type") == "bool_prefix":
        return ScoreKind.mixed
    options = content if name in {"multi_match", "combined_fields"} else _options(content)
    if "fuzzy_rewrite" in options or "rewrite" in options or "zero_terms_query" in options:
        return ScoreKind.unknown
    return ScoreKind.text


def _bool(content: dict[str, Any]) -> ScoreKind:
    clauses = [*_listed(content.get("must", [])), *_listed(content.get("should", []))]
    return _together(map(_kind, clauses))


def _if_scored(content: dict[str, Any], scored: bool) -> ScoreKind:
    return _kind(content.get("query")) if scored else ScoreKind.constant


def _function_score(content: dict[str, Any]) -> ScoreKind:
    """A product with functions of the document alone moves as its query does, a sum does not."""
    inner = _kind(content["query"]) if "query" in content else ScoreKind.constant
    if inner is ScoreKind.constant:
        return inner
    if "min_score" in content or _uses_score(content):
        return ScoreKind.unknown
    mode = content.get("boost_mode", "multiply")
    if mode == "replace":
        return ScoreKind.constant
    if mode == "multiply":
        return inner
    return ScoreKind.mixed if inner is ScoreKind.text else inner


def _script_score(content: dict[str, Any]) -> ScoreKind:
    if "min_score" in content or _uses_score(content):
        inner = _kind(content.get("query"))
        return inner if inner is ScoreKind.constant else ScoreKind.unknown
    return ScoreKind.constant


_STRUCTURES: dict[str, Callable[[dict[str, Any]], ScoreKind]] = {
    "bool": _bool,
    "dis_max": lambda content: _together(map(_kind, _listed(content.get("queries", [])))),
    "boosting": lambda content: _kind(content.get("positive")),
    "nested": lambda content: _if_scored(content, content.get("score_mode") != "none"),
    "has_child": lambda content: _if_scored(content, content.get("score_mode", "none") != "none"),
    "has_parent": lambda content: _if_scored(content, content.get("score") is True),
    "function_score": _function_score,
    "script_score": _script_score,
    # The last word of its text is a prefix, whose score is its boost.
    "match_bool_prefix": lambda _: ScoreKind.mixed,
}


def _uses_score(content: dict[str, Any]) -> bool:
    """Whether a script reads the score, or is stored where it cannot be read."""
    functions = [f for f in _listed(content.get("functions", [content])) if isinstance(f, dict)]
    holders = [content, *(function.get("script_score", {}) for function in functions)]
    scripts = [holder["script"] for holder in holders if "script" in holder]
    texts = (script.get("source") if isinstance(script, dict) else script for script in scripts)
    return any(not isinstance(text, str) or "_score" in text for text in texts)


def _options(content: dict[str, Any]) -> dict[str, Any]:
    """What stands beside the text, in the object of the field."""
    inner = next(iter(content.values()), None)
    return inner if isinstance(inner, dict) else {}


def _listed(clauses: Any) -> list[Any]:
    return clauses if isinstance(clauses, list) else [clauses]


_MATCHING = frozenset(
    {
        "combined_fields", "match", "match_bool_prefix", "match_phrase", "match_phrase_prefix",
        "more_like_this", "multi_match", "query_string", "simple_query_string",
    }
)  # fmt: skip
_WITHOUT_SCORE = frozenset({"constant_score", "filter", "must_not"})


def text_scores(featureset: FeatureSet) -> tuple[str, ...]:
    """The names of the features whose template is, or holds, a full-text query that scores."""
    return tuple(
        feature.name
        for feature in featureset.features
        if feature.template_language == MUSTACHE
        and _matches(query_of(feature.template) or feature.template)
    )


def _matches(template: Any) -> bool:
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
_DECAYS = {"exp", "gauss", "linear", "random_score"}
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


def _matches_all(query: Any) -> bool:
    name, content = _only(query)
    if name == "match_all":
        return True
    if name == "constant_score":
        return _matches_all(content.get("filter"))
    if name in {"function_score", "script_score"} and "min_score" not in content:
        return "query" not in content or _matches_all(content["query"])
    return False


def _highest(query: Any) -> float:
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
        isinstance(function, dict) and _DECAYS & function.keys() and "weight" not in function
        for function in functions
    )
    bound = 1.0 if decays and content.get("score_mode", "multiply") != "sum" else math.inf
    return min(bound, _number(content.get("max_boost")))


def _only(query: Any) -> tuple[str, dict[str, Any]]:
    """The one name in an object and what it names, as an object; no name if there are several."""
    if not isinstance(query, dict) or len(query) != 1:
        return "", {}
    ((name, content),) = query.items()
    return name, content if isinstance(content, dict) else {}


def _boost(content: dict[str, Any]) -> float:
    return _number(content.get("boost", 1.0))


def _number(value: Any) -> float:
    """A number that is written out; a mustache tag can become any."""
    return float(value) if type(value) in (int, float) and value >= 0 else math.inf
