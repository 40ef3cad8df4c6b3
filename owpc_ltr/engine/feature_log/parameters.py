"""The parameters of a query as they are sent to the feature templates, and as which type."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.lint import refuse_unfit
from owpc_ltr.files.strict_json import json_text
from owpc_ltr.files.text import shown

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import Judgments

_WHOLE = re.compile(r"[+-]?[0-9]+")


def typed_params(judgments: Judgments, featureset: FeatureSet) -> list[dict[str, Any]]:
    """Per query, its parameters as they are sent and kept in the dataset.

    They stay what they are in the judgments: a mustache template puts texts into JSON strings,
    and the engine reads "2010" as a number where the field is one. Only what a
    `derived_expression` or a `script_feature` names is sent as a number even if it is text,
    because their variables are none. Raises UsageError naming every variable that the judgments
    lack, BadInput for a list that a feature inserts as text.
    """
    present: set[str] = set().union(*(query.params for query in judgments.queries))
    lacking = sorted(set(featureset.params) - present)
    if lacking:
        raise UsageError(
            f"the feature set '{featureset.name}' needs {_quoted(lacking)}, which the judgments "
            f"do not have: they have {_quoted(sorted(present)) or 'no parameters'}; add a column"
        )
    numbers = _numbers(featureset)
    return [
        _typed(query.query_id, query.params, featureset, numbers) for query in judgments.queries
    ]


def _numbers(featureset: FeatureSet) -> dict[str, bool]:
    """The variables sent as numbers, and whether a number is needed (or text will do as well)."""
    numbers: dict[str, bool] = {}
    for feature in featureset.features:
        if feature.template_language in {"derived_expression", "script_feature"}:
            for name in feature.params:
                needed = feature.template_language == "derived_expression"
                numbers[name] = numbers.get(name, False) or needed
    return numbers


def _typed(
    query_id: str, params: dict[str, Any], featureset: FeatureSet, numbers: dict[str, bool]
) -> dict[str, Any]:
    lacking = [name for name in featureset.params if name not in params]
    if lacking:
        raise BadInput(
            f"query '{query_id}' has no {_quoted(lacking)}, which the feature set "
            f"'{featureset.name}' needs"
        )
    try:
        refuse_unfit(featureset, params)
    except BadInput as error:
        raise BadInput(f"query '{query_id}': {error}") from error
    typed: dict[str, Any] = dict(params)
    for name, needed in numbers.items():
        number = _number(params[name])
        if number is not None:
            typed[name] = number
        elif needed:
            raise BadInput(
                f"query '{query_id}' has {name}={_shown(params[name])}, which a "
                f"derived_expression of '{featureset.name}' needs as a number"
            )
    return typed


def _number(text: Any) -> float | int | None:
    if isinstance(text, bool | list | dict):
        return None
    if isinstance(text, int | float):
        return text
    if _WHOLE.fullmatch(text.strip()):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _shown(value: Any) -> str:
    return shown(value if isinstance(value, str) else json_text(value))


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
