"""Costs of features, as `profile --json` prints them, or as {"feature": milliseconds}."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.training.feature_worth import Costs


def read_costs(
    path: Path, price: float, keep_gain: float | None = None, over: str | float | None = None
) -> Costs:
    """The costs of the file, and what they are weighed against (see `Costs`).

    BadInput names the file and the feature.
    """
    content, derived = read_json_object(path), {}
    if isinstance(content.get("features"), list):
        derived = _derived(content.get("derived", {}), path)
        content = _profiled(content["features"], path)
    for name, cost in content.items():
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not abs(cost) < 1e9:
            raise BadInput(f"{path}: the cost of '{name}' is {cost!r}, not milliseconds")
    return Costs(content, price, derived, keep_gain, over)


def _profiled(features: list[Any], path: Path) -> dict[str, Any]:
    try:
        return {str(feature["feature"]): feature["milliseconds"] for feature in features}
    except (KeyError, TypeError) as error:
        raise BadInput(f"{path} is not what profile --json prints: {error}") from error


def _derived(content: Any, path: Path) -> dict[str, list[str]]:
    """The features that each derived one comes from."""
    lists = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(each, list) and all(isinstance(n, str) for n in each) for each in lists):
        raise BadInput(f"{path} is not what profile --json prints: 'derived' names no features")
    return dict(content)
