"""Parameters as templates can insert them: lists and objects by toJson, all else as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import is_structure, kind_of


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
