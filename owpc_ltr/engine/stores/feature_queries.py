"""Feature queries: templates with their parameters filled in, as named queries and rescorers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.engine.stores import NoWindowScores, rescorer
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.expressions import compile_expression, expression_variables
from owpc_ltr.features.feature_set import (
    DERIVED,
    DOC_IDS,
    MUSTACHE,
    Feature,
    FeatureSet,
    refuse_unfit,
    what_it_inserts,
)
from owpc_ltr.features.mustache import (
    TO_JSON,
    check_depth,
    compiled,
    is_structure,
    json_escape,
    scoring,
    strings,
    text_variables,
    variables,
)
from owpc_ltr.models.linear import LinearModel

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json

Params = Mapping[str, Any]
Build = Callable[[Params], Any]


def render(template: Json, params: Params) -> dict[str, Any]:
    """A part of an application's search: an object with tags in its strings, or mustache text.

    Values reach it as text inside its strings only (or, by toJson, as lists and objects), so that
    no value can change its structure. A string that is nothing but a toJson becomes the value.
    Raises BadInput naming a variable without a value, and a list that would be inserted as text.

    >>> render({"match": {"title": "{{keywords}}"}}, {"keywords": 'the "thing"'})
    {'match': {'title': 'the "thing"'}}
    """
    for name in sorted(set().union(*map(text_variables, strings(template))) & params.keys()):
        if is_structure(params[name]):
            raise BadInput(f"the query {what_it_inserts(name, params[name])}")
    return compile_template(template, whole=True)(params)


def compile_template(template: Json, *, whole: bool = False) -> Callable[[Params], dict[str, Any]]:
    """A function that renders the template. Raises BadInput for a template that is refused.

    With `whole`, a string that is nothing but a toJson becomes the value; to the LTR plugin, which
    renders features as text, it is a string still.
    """
    check_depth(template, "the template")
    needed = set().union(*(variables(part) for part in strings(template)))
    build = _from_text(template) if isinstance(template, str) else _from_object(template, whole)

    def query(params: Params) -> dict[str, Any]:
        lacking = sorted(needed - params.keys())
        if lacking:
            raise BadInput(f"there is no value for '{{{{{lacking[0]}}}}}': give it as a parameter")
        built = build(params)
        if not isinstance(built, dict):
            raise BadInput("the template gives no query object: write it as {…}")
        return built

    return query


@dataclass(frozen=True)
class FeatureQuery:
    """A feature that is a query."""

    name: str
    build: Callable[[Params], dict[str, Any]]
    leaves: int | None = None
    """Its leaves, where params change only texts in it; None where each query must be looked at."""

    def query(self, params: Params) -> dict[str, Any]:
        """The query with these params. Raises BadInput naming the feature."""
        try:
            query = self.build(params)
            return check_names(query) if self.leaves is None else query
        except BadInput as error:
            raise BadInput(f"feature '{self.name}': {error}") from error


@dataclass(frozen=True)
class DerivedFeature:
    """A feature that is computed from those before it."""

    name: str
    variables: frozenset[str]
    value: Callable[[Mapping[str, float]], float]


@dataclass(frozen=True)
class CompiledSet:
    """A feature set made ready for an engine without the plugin."""

    featureset: FeatureSet
    queries: tuple[FeatureQuery, ...]
    """The features that the engine computes, in order."""
    derived: tuple[DerivedFeature, ...]
    """The features that are computed here, in order."""

    @cached_property
    def names(self) -> frozenset[str]:
        """All features of the set."""
        return frozenset(self.featureset.feature_names)

    @cached_property
    def leaves(self) -> int | None:
        """The leaves of all queries, where no params change their number."""
        leaves = [part.leaves for part in self.queries]
        return None if None in leaves else sum(filter(None, leaves))

    def with_derived(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Scores and what derives from them; a feature that did not match counts 0."""
        # An engine computes with 32 bits, of which JSON shows the shortest decimal.
        values = {name: float(np.float32(score)) for name, score in scores.items()}
        for part in self.derived:
            value = part.value({name: values.get(name, 0.0) for name in part.variables})
            if math.isnan(value):
                raise Refused(f"feature '{part.name}' is not a number for some document: fix it")
            values[part.name] = value
        return values


def compile_featureset(featureset: FeatureSet, only: Collection[str] | None = None) -> CompiledSet:
    """Everything that can be done once for a set, or for some features of it.

    Raises Refused, naming it, for a feature that an engine without the plugin cannot compute.
    """
    parts = [
        _compile(part, featureset)
        for part in featureset.features
        if only is None or part.name in only
    ]
    return CompiledSet(
        featureset,
        tuple(part for part in parts if isinstance(part, FeatureQuery)),
        tuple(part for part in parts if isinstance(part, DerivedFeature)),
    )


def check_params(featureset: FeatureSet, params: Params) -> dict[str, Any]:
    """The params that the set declares, and the documents' ids where it needs them.

    Raises BadInput where one is missing or unsafe, or no text; NoWindowScores where the ids are
    not known.
    """
    lacking = [name for name in featureset.params if name not in params]
    if lacking:
        raise BadInput(
            f"the feature set '{featureset.name}' needs '{lacking[0]}', which was not given: give "
            f"{', '.join(featureset.params)}"
        )
    refuse_unfit(featureset, params)
    declared = {name: params[name] for name in featureset.params}
    if featureset.why_by_client:
        if DOC_IDS not in params:
            raise NoWindowScores(featureset.why_by_client)
        declared[DOC_IDS] = params[DOC_IDS]
    return declared


def _compile(feature: Feature, featureset: FeatureSet) -> FeatureQuery | DerivedFeature:
    where = f"feature '{feature.name}' of '{featureset.name}'"
    if feature.template_language == DERIVED:
        return _compile_derived(feature, featureset, where)
    if feature.template_language != MUSTACHE:
        raise Refused(
            f"{where} is a {feature.template_language}, which only the LTR plugin can compute: "
            "leave it out, or use a cluster with the plugin"
        )
    try:
        build = compile_template(feature.template)
        return FeatureQuery(feature.name, build, _fixed_leaves(feature.template))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


def _compile_derived(feature: Feature, featureset: FeatureSet, where: str) -> DerivedFeature:
    text = str(feature.template)
    names = expression_variables(text)
    before = featureset.feature_names[: featureset.feature_names.index(feature.name)]
    if not names <= set(before):
        other = min(names - set(before))
        raise Refused(
            f"{where} uses '{other}', which is not a feature before it: only the LTR plugin can "
            "compute that"
        )
    try:
        return DerivedFeature(feature.name, frozenset(names), compile_expression(text))
    except BadInput as error:
        raise Refused(
            f"{where} can only be computed by the LTR plugin: {error}; simplify '{text[:60]}'"
        ) from error


def _from_text(template: str) -> Build:
    text = compiled(template, json_escape)

    def build(params: Params) -> Any:
        try:
            return json.loads(text(params))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"the template does not give JSON ({error}): fix it") from error

    return build


def _from_object(tree: Json, whole: bool) -> Build:
    """Build the tree anew only where a string in it has a tag."""
    if not isinstance(tree, dict | list | str) or not _has_tag(tree):
        return lambda _: tree
    if isinstance(tree, str):
        alone = TO_JSON.fullmatch(tree.strip()) if whole else None
        if alone is not None:
            return lambda params: params[alone[1]]
        return compiled(tree, str)
    if isinstance(tree, list):
        parts = [_from_object(part, whole) for part in tree]
        return lambda params: [part(params) for part in parts]
    if _has_tag(list(tree)):
        items = [(_from_object(k, False), _from_object(value, whole)) for k, value in tree.items()]
        return lambda params: {key(params): value(params) for key, value in items}
    tagged = {k: _from_object(v, whole) for k, v in tree.items() if _has_tag(v)}
    return lambda params: {**tree, **{key: build(params) for key, build in tagged.items()}}


def _has_tag(tree: Json) -> bool:
    return any("{{" in text for text in strings(tree))


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
"""Clauses of one sum."""
_CLAUSES = 1024
"""Clauses that every engine takes in one query, in which each word of a text is one."""


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


def linear_rescorers(
    model: LinearModel, queries: Mapping[str, Query], window: int, words: int = 1
) -> list[Query]:
    """Rescorers whose sum is the model's score: weight × score of each query that matches.

    The first replaces the score of the search itself (`query_weight` 0). What adds and what takes
    away stand apart, for a sum of clauses has no negative score. Features of weight 0 are left
    out, features that ask the same are asked once, and normalisers folded in: what they leave is
    a constant first step. A sum has fewer features where the text has many `words`.
    """
    weights, intercept = model.folded()
    weighted = _asked_once(model.feature_names, weights.tolist(), queries)
    steps: list[tuple[Query, float]] = []
    if intercept != 0.0 or not weighted:
        steps.append(({"match_all": {}}, intercept))
    for sign in (1.0, -1.0):
        part = [(scoring(query), sign * weight) for query, weight in weighted if sign * weight > 0]
        steps += [(_sum(group), sign) for group in _groups(part, words)]
    own_weights = [0.0, *[1.0] * (len(steps) - 1)]
    return [
        rescorer(query, window, own_weight=own, weight=weight, score_mode="total")
        for own, (query, weight) in zip(own_weights, steps, strict=True)
    ]


def _groups(part: Sequence[tuple[Query, float]], words: int) -> Iterator[list[tuple[Query, float]]]:
    """Queries that are asked together: an engine counts the clauses of a sum, a word a clause."""
    group: list[tuple[Query, float]] = []
    leaves, most = 0, min(_TOGETHER, _CLAUSES // max(1, words))
    for query, weight in part:
        size = _leaves(query)
        if group and leaves + size > most:
            yield group
            group, leaves = [], 0
        group.append((query, weight))
        leaves += size
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
def _leaves(tree: Json) -> int:
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


def _fixed_leaves(template: Json) -> int | None:
    """The leaves of a template; None where params change its keys, or it names a part of itself."""
    keys = list(keys_in(template))
    if isinstance(template, str) or "_name" in keys or _has_tag(keys):
        return None
    return _leaves(template)


def keys_in(tree: Json) -> Iterator[str]:
    """The keys of all objects in a query."""
    if isinstance(tree, dict):
        yield from tree
        tree = list(tree.values())
    for part in tree if isinstance(tree, list) else ():
        yield from keys_in(part)


def _tokens(query: Query) -> int:
    """How many tokens a sparse query has at least: those it was given, else one."""
    for holder in (query, *query.values()):
        if isinstance(holder, dict):
            for key in _TOKENS & holder.keys():
                if isinstance(holder[key], dict | list) and holder[key]:
                    return len(holder[key])
    return 1


def _has_name(tree: Json) -> bool:
    if isinstance(tree, dict):
        return "_name" in tree or any(map(_has_name, tree.values()))
    return isinstance(tree, list) and any(map(_has_name, tree))
