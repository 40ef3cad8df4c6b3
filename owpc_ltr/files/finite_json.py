"""Values as JSON can hold them: what is not a number becomes null."""

from __future__ import annotations

import math
from typing import Any


def finite_json(value: Any) -> Any:
    """The value with None in place of NaN and of infinite numbers, at any depth.

    >>> finite_json({"gap": float("inf"), "rows": [(1, float("nan"))]})
    {'gap': None, 'rows': [[1, None]]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(part) for part in value]
    return value
