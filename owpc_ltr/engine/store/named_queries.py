"""Features as named queries, and linear models as a few rescorers that are sums of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.scoring import scoring
from owpc_ltr.models.linear import LinearModel

Query = dict[str, Any]

_LEAVES = frozenset(
    (
        *("match", "match_all", "match_phrase", "match_phrase_prefix", "match_bool_prefix"),
        *("multi_match", "combined_fields", "query_string", "simple_query_string", "term"),
        *("terms", "prefix", "wildcard", "regexp", "fuzzy", "range", "exists", "rank_feature"),
        *("knn", "neural", "semantic"),
    )
)
_OF_TOKENS = frozenset(("sparse_vector", "neural_sparse", "text_expansion", "weighted_tokens"))
"""Queries of which every token is a leaf."""
_TOKENS = frozenset(("query_vector", "query_tokens", "tokens"))

_TOGETHER = 32
"""Clauses of one sum: with as many words each, what every engine takes in a search."""


def named(query: Query, name: str) -> Query:
    """A query whose score comes back under a name: that of a bool around it is its own."""
    return {"bool": {"must": [scoring(query)], "_name": name}}


def check_clauses(leaves: int, most: int | None, featureset: str) -> None:
    """Refuse what has more leaves than the engine takes, however short the text is.

    The engine counts the leaves of the whole search; `most` is None where it alone knows.
    """
    if most is not None and leaves > most:
        raise Refused(
            f"the features of '{featureset}' are at least {leaves} clauses, and the engine takes "
            f"{most} in one search (indices.query.bool.max_clause_count): use fewer features or "
            "fields, or raise it"
        )


def count_clauses(queries: list[Query]) -> int:
    """How many leaves these queries have at least; each word of a text can make one more."""
    return sum(_leaves(query) for query in queries)


def linear_rescorers(model: LinearModel, queries: Mapping[str, Query], window: int) -> list[Query]:
    """Rescorers whose sum is the model's score: weight × score of each query that matches.

    The first replaces the score of the search itself (`query_weight` 0). What adds and what takes
    away stand apart, for a sum of clauses has no negative score. Features of weight 0 are left
    out, features that ask the same are asked once, and normalisers folded in: what they leave is
    a constant first step.
    """
    weights, intercept = model.folded()
    asked = _asked_once(model.feature_names, weights.tolist(), queries)
    steps: list[tuple[Query, float]] = []
    if intercept != 0.0 or not asked:
        steps.append(({"match_all": {}}, intercept))
    for sign in (1.0, -1.0):
        part = [(scoring(query), sign * weight) for query, weight in asked if sign * weight > 0]
        steps += [(_sum(group), sign) for group in _groups(part)]
    return [
        {
            "window_size": window,
            "query": {
                "rescore_query": query,
                "query_weight": 0.0 if position == 0 else 1.0,
                "rescore_query_weight": weight,
                "score_mode": "total",
            },
        }
        for position, (query, weight) in enumerate(steps)
    ]


def _groups(part: Sequence[tuple[Query, float]]) -> Iterator[list[tuple[Query, float]]]:
    """Queries that are asked together: an engine counts the clauses of a sum, a word a clause."""
    group: list[tuple[Query, float]] = []
    leaves = 0
    for query, weight in part:
        own = _leaves(query)
        if group and leaves + own > _TOGETHER:
            yield group
            group, leaves = [], 0
        group.append((query, weight))
        leaves += own
    if group:
        yield group


def _sum(group: Sequence[tuple[Query, float]]) -> Query:
    """The sum of scores times their weights, for the documents that any of the queries matches."""
    clauses = [
        # Not by a boost, which a function_score whose boost_mode is replace would lose.
        {"function_score": {"query": query, "weight": weight, "boost_mode": "multiply"}}
        for query, weight in group
    ]
    return {"bool": {"should": clauses}}


def _asked_once(
    names: Sequence[str], weights: Sequence[float], queries: Mapping[str, Query]
) -> list[tuple[Query, float]]:
    """Each query with the sum of the weights of the features that ask it, where that is not 0."""
    sums: dict[str, tuple[Query, float]] = {}
    for name, weight in zip(names, weights, strict=True):
        if weight != 0.0:
            query = queries[name]
            key = json.dumps(query, sort_keys=True)
            sums[key] = query, sums.get(key, (query, 0.0))[1] + weight
    return [(query, weight) for query, weight in sums.values() if weight != 0.0]


def check_names(query: Query) -> Query:
    """The query, unless it names a part of itself: that could pass for a feature."""
    if _has_name(query):
        raise BadInput("it names a query by _name, which is how features come back: remove that")
    return query


# Every search is looked through: plain recursion, for generators take ten times as long.
def _leaves(tree: Any) -> int:
    if isinstance(tree, list):
        return sum(map(_leaves, tree))
    if not isinstance(tree, dict):
        return 0
    count = 0
    for key, value in tree.items():
        if isinstance(value, dict | list):
            if key in _LEAVES and isinstance(value, dict):
                fields = value.get("fields")
                count += len(fields) if isinstance(fields, list) and fields else 1
            elif key in _OF_TOKENS and isinstance(value, dict):
                count += _tokens(value)
            else:
                count += _leaves(value)
    return count


def _tokens(query: Query) -> int:
    """How many tokens a sparse query has at least: those it was given, else one."""
    for holder in (query, *query.values()):
        if isinstance(holder, dict):
            for key in _TOKENS & holder.keys():
                if isinstance(holder[key], dict | list) and holder[key]:
                    return len(holder[key])
    return 1


def _has_name(tree: Any) -> bool:
    if isinstance(tree, dict):
        return "_name" in tree or any(map(_has_name, tree.values()))
    return isinstance(tree, list) and any(map(_has_name, tree))
