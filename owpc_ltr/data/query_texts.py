"""What users typed, as far as the parameters of a query tell."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any


def query_text(params: Mapping[str, Any]) -> str:
    """The words of a query; all its parameters where none is called so.

    >>> query_text({"keywords": "alien 3", "year": 1992})
    'alien 3'
    """
    return str(params.get("keywords", params.get("query", ", ".join(map(str, params.values())))))


def normalised_text(text: str) -> str:
    r"""The text without case, superfluous white space and compatibility forms (NFKC).

    >>> normalised_text("  ALIEN\u00a0３ ")
    'alien 3'
    """
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text)
        # Of letters that have one capital, case folding alone keeps two apart (dotless i).
        text = unicodedata.normalize("NFKC", plain.upper().casefold())
    return " ".join(text.lower().split())
