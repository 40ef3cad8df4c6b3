"""What a feature's template alone says of its values: on which documents, and how high at most.

Only what holds on any index is said; of all else, that it is not known.
"""

from __future__ import annotations

import math
from typing import Any

from owpc_ltr.features.feature_set import MUSTACHE, Feature

_CONSTANT = {"match_all", "constant_score", "exists", "ids", "terms", "distance_feature"}
"""Queries whose score is their boost, or less."""
_DECAYS = {"exp", "gauss", "linear", "random_score"}
_OF_A_FIELD = {"range", "prefix", "wildcard", "regexp"}
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
    if name in _CONSTANT:
        return _boost(content)
    if name in _OF_A_FIELD:
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
        isinstance(each, dict) and _DECAYS & each.keys() and "weight" not in each
        for each in functions
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
