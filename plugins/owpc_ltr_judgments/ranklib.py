"""RankLib's judgment lists: `# qid:1: keywords` lines, then `4 qid:1 # 7555 title` lines.

The document id is the comment's first word. Feature values on the lines are passed over. A query's
text is its header line's, or that of a topics file; a `*2` after it is the query's importance. In
Quepid's export for learning to rank the query's text stands behind the document id of each line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import JudgmentLines
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import first_lines, read_text, shown
from owpc_ltr.protocols import JudgmentReader

_HEADER = re.compile(r"#\s*qid:(\S+):\s+(\S.*)")
_ROW = re.compile(r"(\S+)\s+qid:(\S+)((?:\s+\d+:\S+)*)\s*#\s*(?:docid\s*=\s*)?(\S+)(\s.*)?")
_QUOTED = re.compile(r'"(.*)"')
_LIKE_A_ROW = re.compile(r"\S+\s+qid:\S+(\s|$)")
_WEIGHT = re.compile(r"(.*\S)\*(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Ranklib:
    """RankLib's `# qid:1: keywords`, then `4 qid:1 # document …`."""

    name: ClassVar[str] = "ranklib"
    precedence: ClassVar[int] = 40

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether one of the first lines names a query as RankLib does."""
        return any(_HEADER.fullmatch(line) or _LIKE_A_ROW.match(line) for line in first_lines(head))

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:
        """The judgments. Raises BadInput for a query that has no text, or two."""
        lines = _Lines(path, dict(topics or {}))
        for number, line in enumerate(read_text(path).split("\n"), 1):
            lines.add(number, line.strip())
        return lines.judgments()

    def example(self) -> bytes:
        """Two judgments of one query."""
        return b"# qid:1: rambo\n4 qid:1 # 7555 Rambo\n0.5 qid:1 # 1370 Rambo III\n"


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `ranklib`."""
    return [Ranklib]


@dataclass
class _Lines:
    """The columns of the lines so far."""

    path: Path
    texts: dict[str, str]
    named: dict[str, int] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    rows: list[tuple[str, str, str]] = field(default_factory=list)
    importance: dict[str, str] = field(default_factory=dict)
    comments: dict[str, set[str]] = field(default_factory=dict)
    """By query, what stands behind the document ids."""
    valued: int = 0

    def add(self, number: int, line: str) -> None:
        """Take in one line. Raises BadInput where it is neither comment nor judgment."""
        if header := _HEADER.fullmatch(line):
            self._add_header(number, *header.groups())
        elif line and not line.startswith("#"):
            row = _ROW.fullmatch(line)
            if row is None:
                raise BadInput(
                    f"cannot read {self.path}, line {number}: {shown(line)} is not 'grade qid:ID # "
                    "document …'"
                )
            self.numbers.append(number)
            self.rows.append((row[1], row[2], row[4]))
            self.comments.setdefault(row[2], set()).add((row[5] or "").strip())
            self.valued += bool(row[3])

    def judgments(self) -> JudgmentLines:
        """All of it. Raises BadInput where a query has no text."""
        if not self.rows:
            raise BadInput(f"cannot read {self.path}: it has no judgment")
        grades, query_ids, doc_ids = zip(*self.rows, strict=True)
        in_comments = not self.texts and self._texts_in_comments()
        if in_comments and all(document.endswith(";") for document in doc_ids):
            doc_ids = tuple(document[:-1] for document in doc_ids)
        texts = [self.texts.get(query, "") for query in query_ids]
        importance = [self.importance.get(query, "") for query in query_ids]
        counts = {
            "queries have their text from the comments of their lines": (
                in_comments and len(self.texts)
            ),
            "lines have feature values, which were passed over": self.valued,
            "queries have a text and no judgment": len(self.named.keys() - set(query_ids)),
        }
        lines = JudgmentLines(
            path=self.path,
            numbers=self.numbers,
            query_ids=query_ids,
            doc_ids=doc_ids,
            grades=grades,
            params={"keywords": texts, "query": texts},
            notes=tuple(f"{count} {what}" for what, count in counts.items() if count),
            importance=importance if any(importance) else None,
        )
        lines.check_texts(
            lambda query_id: (
                f"query {shown(query_id)} has no text: write '# qid:{query_id}: keywords' above, "
                "or give `judge_convert(topics=FILE)`"
            )
        )
        return lines

    def _texts_in_comments(self) -> bool:
        """Take each query's text from its lines if all have the same; titles would differ."""
        if len(self.comments) == len(self.rows) or any(len(c) > 1 for c in self.comments.values()):
            return False
        for query, (comment,) in self.comments.items():
            quoted = _QUOTED.fullmatch(comment)
            self.texts[query] = quoted[1] if quoted else comment
        return all(self.texts.values())

    def _add_header(self, number: int, query: str, text: str) -> None:
        weight = ""
        if weighted := _WEIGHT.fullmatch(text):
            text, weight = weighted.groups()
        if query in self.named and self.texts[query] != text:
            raise BadInput(
                f"cannot read {self.path}, line {number}: query {shown(query)} has the text "
                f"{shown(text)}, and {shown(self.texts[query])} on line {self.named[query]}: keep "
                "one"
            )
        before = self.importance.get(query) or weight
        if weight and float(before) != float(weight):
            raise BadInput(
                f"cannot read {self.path}, line {number}: query {shown(query)} has the weight "
                f"{weight}, and {before} on line {self.named[query]}: keep one"
            )
        self.named[query], self.texts[query], self.importance[query] = number, text, before
