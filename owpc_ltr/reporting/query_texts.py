"""Query texts: what users typed, as far as the data know it."""

from __future__ import annotations

import json
from typing import Any

_NAMES = ("query", "keywords", "text", "q")
"""Parameters of features that are what a user typed, the likeliest first."""


def texts_of(data: Any) -> tuple[str, ...]:
    """The text of each query of a dataset; nothing where it does not keep parameters."""
    params = getattr(data, "query_params", None)
    if params is None:
        return ()
    return tuple(text_of(json.loads(one)) if one else "" for one in params.to_pylist())


def text_of(content: Any) -> str:
    """What a user typed, among the parameters of a query; nothing where they are no object."""
    if not isinstance(content, dict):
        return ""
    named = [content[name] for name in _NAMES if isinstance(content.get(name), str)]
    texts = [value for value in content.values() if isinstance(value, str)]
    return next(iter([*named, *texts]), "")
