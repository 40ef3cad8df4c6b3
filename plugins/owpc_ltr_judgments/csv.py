"""Judgment lists as CSV: a header, then one judgment a line, between commas or semicolons.

The header names `query_id` (or qid), `query` (keywords, query_text), `doc_id` (document_id, docid)
and `grade` (label, relevance, rating), in any order and any case; and maybe `weight` (how sure the
judgment is) and `query_weight` (how often the query is asked), where an empty cell is 1. Further
columns are parameters of the query; an empty cell is no parameter. Without query ids the text is
the id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import JudgmentLines, Judgments
from owpc_ltr.data.judgments.tables import header_delimiter, parse_table, table_bytes
from owpc_ltr.files.input import read_text
from owpc_ltr.protocols import JudgmentReader


@dataclass(frozen=True)
class Csv:
    """A header that names query_id, query, doc_id and grade, then one judgment a line."""

    name: ClassVar[str] = "csv"
    precedence: ClassVar[int] = 100

    def recognises(self, _path: Path, _head: bytes) -> bool:
        """Always: what nobody else knows is a table, or fails with what a table must have."""
        return True

    def read(
        self,
        path: Path,
        topics: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> JudgmentLines:
        """The judgments; the delimiter is the header's."""
        text = read_text(path)
        return parse_table(text, path, header_delimiter(text), topics, columns=columns)

    def to_bytes(self, judgments: Judgments) -> bytes:
        """A table that reads back equal, between commas."""
        return table_bytes(judgments, ",")

    def example(self) -> bytes:
        """Two judgments of one query."""
        return b"query_id,query,doc_id,grade\nq1,rambo,7555,4\nq1,rambo,1370,0.5\n"


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `csv`."""
    return [Csv]
