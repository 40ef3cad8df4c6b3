"""What users typed, as far as the parameters of a query tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def query_text(params: Mapping[str, Any]) -> str:
    """The words of a query; all its parameters where none is called so.

    >>> query_text({"keywords": "alien 3", "year": 1992})
    'alien 3'
    """
    return str(params.get("keywords", params.get("query", ", ".join(map(str, params.values())))))
