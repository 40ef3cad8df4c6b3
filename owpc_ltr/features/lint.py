"""Checks of feature sets and of the parameters given to them; engines accept many faults."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.features.expressions import check_expression, expression_variables
from owpc_ltr.features.feature_set import (
    DERIVED,
    LANGUAGES,
    MUSTACHE,
    RESERVED_NAMES,
    Feature,
    FeatureSet,
)
from owpc_ltr.features.mustache import compiled, json_variables, query_of, strings, variables
from owpc_ltr.files.strict_json import is_structure, kind_of

DEEPEST = 100
"""Levels of objects and lists in a template; engines take 20 to 30 queries within each other."""
MOST_FEATURES = 1000
"""Fewer than the 1024 clauses that an engine takes in one search."""


def lint(featureset: FeatureSet, place: str) -> None:
    """Raise BadInput for the first fault, naming the feature and what to do."""
    if not featureset.features:
        raise BadInput(f"{place}: the feature set is empty: add features to it")
    if len(featureset.features) > MOST_FEATURES:
        raise BadInput(
            f"{place}: {len(featureset.features)} features are more than an engine computes in "
            f"one search: {MOST_FEATURES} at most"
        )
    seen: set[str] = set()
    for feature in featureset.features:
        where = f"{place}: feature '{feature.name}'"
        if feature.name in seen:
            raise BadInput(f"{where} stands twice: give one of them another name")
        seen.add(feature.name)
        _lint_name(feature.name, where)
        if feature.template_language not in LANGUAGES:
            raise BadInput(
                f"{where}: its template_language is '{feature.template_language}', which no engine "
                f"knows: {', '.join(LANGUAGES)}"
            )
        if feature.template_language == MUSTACHE:
            _lint_template(feature, where)
        elif feature.template_language == DERIVED:
            _lint_expression(feature, seen - {feature.name}, featureset, where)
    _lint_validation(featureset, place)


def check_depth(template: Any, where: str) -> None:
    """Raise BadInput for a template that is nested deeper than any query is, text or object."""
    if isinstance(template, str):
        steps = ((char in "{[") - (char in "}]") for char in template)
        deepest = max(itertools.accumulate(steps, initial=0))
    else:
        deepest, level = 0, [template]
        while level and deepest <= DEEPEST:
            deepest += 1
            level = [part for tree in level for part in _parts(tree)]
    if deepest > DEEPEST:
        raise BadInput(f"{where} is nested deeper than {DEEPEST} levels: simplify its query")


def _parts(tree: Any) -> list[Any]:
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return [part for part in parts if isinstance(part, dict | list)]


def _lint_name(name: str, where: str) -> None:
    if not name or name != name.strip() or not name.isprintable() or len(name) > 200:
        raise BadInput(f"{where}: a name is 1 to 200 printable characters without outer spaces")
    if "," in name:
        raise BadInput(f"{where}: a comma in a name breaks lists of features: use '_'")
    if name in RESERVED_NAMES:
        raise BadInput(f"{where}: a dataset has a column of that name itself: use another one")


def _lint_template(feature: Feature, where: str) -> None:
    check_depth(feature.template, where)
    used: set[str] = set()
    in_text = isinstance(feature.template, str)
    if feature.template in ("", {}):
        raise BadInput(f"{where}: its template is empty: write a query")
    for text in strings(feature.template):
        try:
            compiled(text, str)
            used |= variables(text)
        except BadInput as error:
            hint = "" if in_text else " (a section must open and close within one string)"
            raise BadInput(f"{where}: {error}{hint if 'section' in str(error) else ''}") from error
        if json_variables(text) and not in_text:
            raise BadInput(
                f"{where}: toJson inside a string gives no JSON: write the whole template as text"
            )
    refuse_search_parts(query_of(feature.template), where)
    undeclared = sorted(used - set(feature.params))
    if undeclared:
        raise BadInput(
            f"{where}: its template uses '{undeclared[0]}', which its params do not declare, so "
            f'that it would be empty: add "{undeclared[0]}" to params'
        )


def _lint_expression(
    feature: Feature, before: set[str], featureset: FeatureSet, where: str
) -> None:
    if not isinstance(feature.template, str) or not feature.template.strip():
        raise BadInput(f'{where}: a derived_expression is text, such as "ln(1 + votes)"')
    try:
        check_expression(feature.template)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error
    for name in sorted(expression_variables(feature.template) - set(feature.params) - before):
        if name in featureset.feature_names:
            raise BadInput(f"{where} uses '{name}', which comes after it: move it before")
        raise BadInput(f"{where} uses '{name}', which is neither a feature nor one of its params")


def _lint_validation(featureset: FeatureSet, place: str) -> None:
    if featureset.validation is None:
        return
    lacking = sorted(set(featureset.params) - set(featureset.validation["params"]))
    if lacking:
        raise BadInput(
            f"{place}: validation has no value for '{lacking[0]}', which a template needs: add it "
            "to validation.params"
        )
    try:
        refuse_structures(featureset, featureset.validation["params"])
    except BadInput as error:
        raise BadInput(f"{place}: validation: {error}") from error


def refuse_search_parts(query: Any, where: str) -> None:
    """Raise BadInput for a template that is a search or holds what stands at its top only."""
    if not isinstance(query, dict):
        return
    if _has_hybrid(query):
        raise BadInput(
            f"{where}: a hybrid query stands at the top of a search only, and is no feature: make "
            "each of its queries a feature of its own"
        )
    for name in ("retriever", "query"):
        if name in query:
            raise BadInput(
                f"{where}: it is a search with a '{name}', and a feature is one query: make each "
                "query in it a feature of its own"
            )
    if "knn" in query and (len(query) > 1 or not isinstance(query["knn"], dict)):
        raise BadInput(
            f"{where}: it has a knn section, which ranks beside a search's query, and a feature is "
            'one query: make each a feature of its own, as {"knn": {…}}'
        )


def _has_hybrid(tree: Any) -> bool:
    """Whether there is a hybrid query: an object so called with queries in it."""
    if isinstance(tree, list):
        return any(map(_has_hybrid, tree))
    if not isinstance(tree, dict):
        return False
    hybrid = tree.get("hybrid")
    return (isinstance(hybrid, dict) and "queries" in hybrid) or any(
        map(_has_hybrid, tree.values())
    )


def refuse_unfit(featureset: FeatureSet, params: Mapping[str, Any]) -> None:
    """Raise BadInput for a parameter that a feature cannot insert, naming both.

    The plugin inserts a toJson parameter that is text as it is, quotes and all: text could then
    become a query, so that only lists and objects may be given.
    """
    for name, feature in featureset.json_params.items():
        if name in params and not is_structure(params[name]):
            raise BadInput(
                f"feature '{feature}' inserts '{name}' as JSON: it must be a list or an object, "
                f"not {params[name]!r}"
            )
    refuse_structures(featureset, params)


def refuse_structures(featureset: FeatureSet, params: Mapping[str, Any]) -> None:
    """Raise BadInput for a list or an object that a feature would insert as text.

    An engine would take a list for the text `{0=a, 1=b}`, and say nothing.
    """
    for name, feature in featureset.text_params.items():
        if is_structure(params.get(name)):
            raise BadInput(f"feature '{feature}' {what_it_inserts(name, params[name])}")


def what_it_inserts(name: str, value: Any) -> str:
    """What is wrong with inserting a list or an object as text, and what to write."""
    return (
        f"inserts '{name}' as text, and it is {kind_of(value)}: give a text or a number, or write "
        f"{{{{#toJson}}}}{name}{{{{/toJson}}}} where a list belongs"
    )
