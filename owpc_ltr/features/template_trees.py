"""Templates as trees of JSON, whether they are written as an object or as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from owpc_ltr.features.mustache import TO_JSON

_SECTION = re.compile(r"\{\{\s*[#^/]")
_STRING_OR_TAG = re.compile(r'"(?:[^"\\]|\\.)*"|\{\{.*?\}\}', re.DOTALL)


def strings(tree: Any) -> Iterator[str]:
    """Every string of a query, keys included: wherever a tag can stand."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from strings(value)
    elif isinstance(tree, list):
        for part in tree:
            yield from strings(part)


def query_of(template: Any) -> Any:
    """The query of a template, with a text in the place of each parameter that is inserted bare.

    None for text that is no JSON before its parameters are known, as with sections.

    >>> query_of('{"knn": {"v": {"vector": {{#toJson}}vector{{/toJson}}, "k": {{k}} }}}')
    {'knn': {'v': {'vector': '{{vector}}', 'k': '{{k}}'}}}
    """
    if not isinstance(template, str):
        return template
    text = TO_JSON.sub(lambda match: f"{{{{{match[1]}}}}}", template)
    if _SECTION.search(text):
        return None
    try:
        return json.loads(_STRING_OR_TAG.sub(_quoted, text))
    except (ValueError, RecursionError):
        return None


def _quoted(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else json.dumps(match[0])
