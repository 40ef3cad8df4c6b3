"""Formulas of the pages as MathML, made while the site is built: browsers need no script for it."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<block>.*?)\\\])</\1>', re.S
)


def on_page_content(content: str, **_: Any) -> str:
    """Each formula that the Markdown extension has found, as MathML in its place."""
    return _FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    block = found["block"]
    source = html.unescape(block if found["inline"] is None else found["inline"]).strip()
    return convert(source, display="inline" if block is None else "block")
