"""The judgments of all judges of a Quepid book as CSV: `query,docid`, and a column for each judge.

A document that several judged is there as often: `judge merge` settles it, and `--duplicates` does
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import JudgmentLines
from owpc_ltr.data.judgments.tables import parse_table
from owpc_ltr.files.input import first_lines, read_text
from owpc_ltr.protocols import JudgmentReader

_FIRST = ("query", "docid")


@dataclass(frozen=True)
class QuepidJudges:
    """Quepid's `query,docid`, and a column for each judge."""

    name: ClassVar[str] = "quepid-judges"
    precedence: ClassVar[int] = 81
    ids_are_texts: ClassVar[bool] = True

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the header begins with both names, and then has no other known one."""
        names = next(iter(first_lines(head)), "").replace('"', "").lower().split(",")
        grade_names = {"rating", "grade", "label", "relevance"}
        return tuple(names[:2]) == _FIRST and len(names) > 2 and not grade_names & set(names)

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:  # noqa: ARG002
        """One entry for each judge of a pair; one with an empty cell has no grade."""
        header, _, rows = read_text(path).partition("\n")
        judges = header.strip().replace('"', "").split(",")[2:]
        columns = [f"judge {number}" for number in range(1, len(judges))]
        table = parse_table(
            "\n".join([",".join(["query", "docid", "grade", *columns]), rows]), path, ",", None
        )
        texts, documents = table.query_ids.to_pylist(), table.doc_ids.to_pylist()
        cells = [table.grades, *(table.params[name] for name in columns)]
        entries = [
            (number, text, document, cell, judge)
            for judge, column in zip(judges, cells, strict=True)
            for number, text, document, cell in zip(
                table.numbers, texts, documents, column.to_pylist(), strict=True
            )
        ]
        numbers, queries, ids, grades, judged_by = map(list, zip(*entries, strict=True))
        return JudgmentLines(
            path,
            numbers,
            queries,
            ids,
            grades=grades,
            params={"keywords": queries, "query": queries},
            judged_by=judged_by,
        )

    def example(self) -> bytes:
        """Two judgments of one query."""
        return b"query,docid,ann@a.org\nrambo,7555,4\nrambo,1370,0.5\n"


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `quepid-judges`."""
    return [QuepidJudges]
