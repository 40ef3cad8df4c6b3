"""The texts of queries: as topics files give them, and as users typed them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import read_text, shown

_OPENING = re.compile(r"<top(?:ic)?\b", re.IGNORECASE)
_TOPIC = re.compile(r"<top(?:ic)?\b([^>]*)>(.*?)</top(?:ic)?>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"\b(?:number|id)\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_TITLE = re.compile(r"<(?:title|query)>\s*(?:Topic:)?\s*([^<]*)", re.IGNORECASE)


def read_topics(path: Path) -> dict[str, str]:
    """Query texts by id, from TREC `<top>` topics (their titles) or `id TAB text` lines.

    Raises BadInput where an id has two texts, or a topic lacks one.
    """
    text = read_text(path)
    found = _tagged(text, path) if _OPENING.search(text) else None
    topics: dict[str, str] = {}
    for line, query, content in found or _tabbed(text, path):
        if topics.setdefault(query, content) != content:
            raise BadInput(
                f"cannot read {path}, line {line}: query {shown(query)} has a second text, "
                f"{shown(content)}: keep one"
            )
    if not topics:
        raise BadInput(f"cannot read {path}: it has no topics")
    return topics


def begins_topics(line: str) -> bool:
    """Whether a file that begins with this line has TREC topics in it."""
    return _OPENING.match(line) is not None


def _tagged(text: str, path: Path) -> list[tuple[int, str, str]]:
    topics = []
    for match in _TOPIC.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        number = _NUMBER.search(match.group(2)) or _ATTRIBUTE.search(match.group(1))
        title = _TITLE.search(match.group(2))
        if number is None or title is None or not title.group(1).strip():
            raise BadInput(
                f"cannot read {path}, line {line}: the topic has no "
                f"{'number' if number is None else 'title'}"
            )
        topics.append((line, number.group(1), " ".join(title.group(1).split())))
    if len(topics) != len(_OPENING.findall(text)):
        raise BadInput(f"cannot read {path}: a topic is not closed by </top>: is the file cut?")
    return topics


def _tabbed(text: str, path: Path) -> list[tuple[int, str, str]]:
    topics = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        query, tab, content = line.partition("\t")
        if not tab or not query.strip() or not content.strip():
            raise BadInput(
                f"cannot read {path}, line {number}: {shown(line)} is not an id, a tab and a text"
            )
        topics.append((number, query.strip(), content.strip()))
    return topics


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
