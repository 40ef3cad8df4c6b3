"""Feature templates with their parameters put in, as the LTR plugin does it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.engine.store.named_queries import check_names
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.expressions import compile_expression, expression_variables
from owpc_ltr.features.feature_set import DERIVED, MUSTACHE, Feature, FeatureSet
from owpc_ltr.features.inserted import refuse_unfit, what_it_inserts
from owpc_ltr.features.lint import check_depth
from owpc_ltr.features.mustache import TO_JSON, compiled, json_escape, text_variables, variables
from owpc_ltr.features.template_trees import strings
from owpc_ltr.files.strict_json import is_structure

Params = Mapping[str, Any]
Build = Callable[[Params], Any]


def render(template: Any, params: Params) -> dict[str, Any]:
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


def compile_template(template: Any, *, whole: bool = False) -> Callable[[Params], dict[str, Any]]:
    """A function that renders the template. Raises BadInput for a template that is refused.

    With `whole`, a string that is nothing but a toJson becomes the value; to the LTR plugin, which
    renders features as text, it is a string still.
    """
    check_depth(template, "the template")
    text = isinstance(template, str)
    needed = set().union(*(variables(part) for part in strings(template)))
    build = _from_text(template) if text else _from_object(template, whole)

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

    def query(self, params: Params) -> dict[str, Any]:
        """The query with these params. Raises BadInput naming the feature."""
        try:
            return check_names(self.build(params))
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

    def with_derived(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Scores and what derives from them; a feature that did not match counts 0."""
        # An engine computes with 32 bits, of which JSON shows the shortest decimal.
        values = {name: float(np.float32(score)) for name, score in scores.items()}
        for part in self.derived:
            value = part.value({name: values.get(name, 0.0) for name in part.variables})
            if math.isnan(value):
                raise Refused(f"feature '{part.name}' is no number for some document: mend it")
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
    """The params that the set declares. BadInput where one is missing or unsafe, or no text."""
    lacking = [name for name in featureset.params if name not in params]
    if lacking:
        raise BadInput(
            f"the feature set '{featureset.name}' needs '{lacking[0]}', which was not given: give "
            f"{', '.join(featureset.params)}"
        )
    refuse_unfit(featureset, params)
    return {name: params[name] for name in featureset.params}


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
        return FeatureQuery(feature.name, compile_template(feature.template))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


def _compile_derived(feature: Feature, featureset: FeatureSet, where: str) -> DerivedFeature:
    text = str(feature.template)
    names = expression_variables(text)
    before = featureset.feature_names[: featureset.feature_names.index(feature.name)]
    if not names <= set(before):
        other = min(names - set(before))
        raise Refused(
            f"{where} uses '{other}', which is no feature before it: only the LTR plugin can "
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
            raise BadInput(f"the template does not give JSON ({error}): mend it") from error

    return build


def _from_object(tree: Any, whole: bool) -> Build:
    """Build the tree anew only where a string in it has a tag."""
    if not any("{{" in text for text in strings(tree)):
        return lambda _: tree
    if isinstance(tree, str):
        alone = TO_JSON.fullmatch(tree.strip()) if whole else None
        if alone is not None:
            return lambda params: params[alone[1]]
        return compiled(tree, str)
    if isinstance(tree, list):
        parts = [_from_object(part, whole) for part in tree]
        return lambda params: [part(params) for part in parts]
    items = [(_from_object(key, False), _from_object(value, whole)) for key, value in tree.items()]
    return lambda params: {key(params): value(params) for key, value in items}
