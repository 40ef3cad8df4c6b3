"""Long lines of output wrap: they are sentences, as errors are; tables have at most 100 columns."""

from __future__ import annotations

import html
import re
from typing import Any

_OUTPUT = re.compile(r'<span class="go">([^<\n]+)</span>')
_WIDEST_TABLE = 100


def on_page_content(content: str, **_: Any) -> str:
    """Mark the lines that are longer."""
    return _OUTPUT.sub(_marked, content)


def _marked(found: re.Match[str]) -> str:
    long = len(html.unescape(found[1])) > _WIDEST_TABLE
    return f'<span class="go long">{found[1]}</span>' if long else found[0]
