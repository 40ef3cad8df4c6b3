"""Judged queries: which documents were given which grade, by whom, and the queries' texts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owpc_ltr.arrays import Labels
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import read_text, shown
from owpc_ltr.plain_text import ShortRepr


@dataclass(frozen=True, repr=False)
class JudgedQuery(ShortRepr):
    """A query and its judged documents.

    `params` is what its feature templates may name: `keywords` and `query`, both the query's
    text, and every further column of the list, as text or as a JSON value. `grades` is float32,
    one for each document, 0 for irrelevant. `weights`, float32, say how sure each judgment is, and
    `importance` how often the query is asked; None where nothing was said, which counts as 1.
    `judged_by` names who gave each judgment, as far as the list says: '' is nobody by name.
    """

    query_id: str
    params: dict[str, Any]
    doc_ids: list[str]
    grades: Labels
    weights: Labels | None = None
    importance: float | None = None
    judged_by: list[str] | None = None


@dataclass(frozen=True)
class Judgments:
    """Judged queries in the order of their first appearance, and what reading them changed."""

    queries: list[JudgedQuery]
    notes: tuple[str, ...] = ()

    @property
    def n_judgments(self) -> int:
        """Number of judged documents, over all queries."""
        return sum(len(query.doc_ids) for query in self.queries)

    def __str__(self) -> str:
        return f"{self.n_judgments:,} judgments of {len(self.queries):,} queries"

    def __repr__(self) -> str:
        return "\n  ".join([f"Judgments: {self}", *self.notes])

    def as_dict(self) -> dict[str, int]:
        """The counts as JSON."""
        return {"queries": len(self.queries), "judgments": self.n_judgments}


JUDGED_BY = "judged_by"
"""What the column of a table is called, and the entry of a manifest."""
CLICKS = "clicks"


def judges_of(queries: Iterable[JudgedQuery]) -> dict[str, Any]:
    """The entry of a manifest: judgments by judge, '' for none named; none where no judge is."""
    counts: Counter[str] = Counter()
    for query in queries:
        counts.update(query.judged_by or {"": len(query.doc_ids)})
    named = any(counts[judge] for judge in counts if judge)
    return {JUDGED_BY: dict(sorted(counts.items()))} if named else {}


def joined_judges(manifests: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """The same of several logs together, as what a manifest says of judgments."""
    counts: Counter[str] = Counter()
    for manifest in manifests:
        judged = (manifest or {}).get("judged")
        nobody = {"": judged} if isinstance(judged, int) else {}
        counts.update(counts_by_judge(manifest) or nobody)
    if not any(counts[judge] for judge in counts if judge):
        return {}
    return {"judgments": {JUDGED_BY: dict(sorted(counts.items()))}}


def counts_by_judge(manifest: Mapping[str, Any] | None) -> dict[str, int]:
    """What a manifest says of how many judgments each judge gave; nothing where it does not."""
    about = (manifest or {}).get("judgments")
    said = about.get(JUDGED_BY) if isinstance(about, Mapping) else None
    if not isinstance(said, Mapping):
        return {}
    return {judge: n for judge, n in said.items() if isinstance(n, int) and n > 0}


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
