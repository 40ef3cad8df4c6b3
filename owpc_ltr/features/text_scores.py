"""Text scores: the features of a set that tell how well a document matches the query's words."""

from __future__ import annotations

from typing import Any

from owpc_ltr.features.feature_set import MUSTACHE, FeatureSet
from owpc_ltr.features.template_trees import query_of

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
        if feature.template_language == MUSTACHE and _matches(_tree(feature.template))
    )


def _tree(template: Any) -> Any:
    """The query as an object, where it is known without parameters."""
    tree = query_of(template)
    return template if tree is None else tree


def _matches(template: Any) -> bool:
    if isinstance(template, str):
        # Mustache text is not parsed before its sections are known.
        return any(f'"{name}"' in template for name in _MATCHING)
    if isinstance(template, dict):
        if template.get("boost_mode") == "replace":
            return False
        return any(
            name not in _WITHOUT_SCORE and (name in _MATCHING or _matches(part))
            for name, part in template.items()
        )
    return isinstance(template, list) and any(_matches(part) for part in template)
