"""TREC's relevance judgments: lines of `query 0 document grade`.

They do not have the queries' texts, which a file of topics has: TREC's, or `id TAB text` lines.
Negative grades, which mark spam, count as 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.data.judgment_tables import look_up_texts
from owpc_ltr.data.judgments import JudgmentLines, Judgments
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import first_lines, read_text, shown
from owpc_ltr.protocols import JudgmentReader

_ROW = re.compile(r"\S+\s+Q?0\s+\S+\s+[+-]?[\d.]+")


@dataclass(frozen=True)
class Qrels:
    """TREC's `query 0 document grade`; the queries' texts are in a file of topics."""

    name: ClassVar[str] = "qrels"
    precedence: ClassVar[int] = 50

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether each of the first lines is such a judgment."""
        return all(_ROW.fullmatch(line) for line in first_lines(head))

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:
        """The judgments. Raises BadInput where `topics` is not given, or lacks a query."""
        text = read_text(path)
        if topics is None:
            raise BadInput(
                f"cannot read {path}: TREC judgments do not have the queries' texts: add "
                "these with `judge_convert(topics=FILE)`"
            )
        numbers, (query_ids, doc_ids, grades) = _rows(text, path)
        texts = look_up_texts(query_ids, topics)
        params = {"keywords": texts, "query": texts}
        lines = JudgmentLines(
            path=path,
            numbers=numbers,
            query_ids=query_ids,
            doc_ids=doc_ids,
            grades=grades,
            params=params,
            negative="zero",
        )
        lines.check_texts(lambda query_id: f"the topics do not have query {shown(query_id)}")
        return lines

    def to_bytes(self, judgments: Judgments) -> bytes:
        """The judgments, without their texts.

        Raises BadInput for ids with blanks, and for grades that are no whole numbers.
        """
        lines = []
        for query in judgments.queries:
            for document, grade in zip(query.doc_ids, query.grades.tolist(), strict=True):
                for value in (query.query_id, document):
                    if value.split() != [value]:
                        raise BadInput(
                            f"qrels cannot hold the id {shown(value)}, which is empty or has a "
                            "blank: write TSV"
                        )
                if not grade.is_integer():
                    raise BadInput(
                        f"query {shown(query.query_id)} grades document {shown(document)} {grade}, "
                        "and qrels hold whole grades: round them, or write TSV"
                    )
                lines.append(f"{query.query_id} 0 {document} {int(grade)}\n")
        return "".join(lines).encode()

    def example(self) -> bytes:
        """Two judgments of one query."""
        return b"q1 0 FBIS3-10082 1\nq1 0 FBIS3-10169 0\n"


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `qrels`."""
    return [Qrels]


def _rows(text: str, path: Path) -> tuple[list[int], tuple[list[str], list[str], list[str]]]:
    """The line numbers, and what the lines say: query ids, document ids, grades."""
    numbers, rows = [], []
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 4:
            raise BadInput(
                f"cannot read {path}, line {number}: {shown(line)} is not 'query 0 document grade'"
            )
        numbers.append(number)
        rows.append(fields)
    if not rows:
        raise BadInput(f"cannot read {path}: it is empty")
    query_ids, _, doc_ids, grades = (list(column) for column in zip(*rows, strict=True))
    return numbers, (query_ids, doc_ids, grades)
