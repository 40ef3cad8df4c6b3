"""Judgment lists as TSV: CSV with tabs for commas, which no text needs quotes for."""

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
class Tsv:
    """A header that names query_id, query, doc_id and grade, as csv, between tabs."""

    name: ClassVar[str] = "tsv"
    precedence: ClassVar[int] = 90

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the first line has a tab."""
        return header_delimiter(head.decode("utf-8", "replace")) == "\t"

    def read(
        self,
        path: Path,
        topics: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> JudgmentLines:
        """The judgments, between tabs whatever the header has."""
        return parse_table(read_text(path), path, "\t", topics, columns=columns)

    def to_bytes(self, judgments: Judgments) -> bytes:
        """A table that reads back equal."""
        return table_bytes(judgments)

    def example(self) -> bytes:
        """Two judgments of one query."""
        return b"query_id\tquery\tdoc_id\tgrade\nq1\trambo\t7555\t4\nq1\trambo\t1370\t0.5\n"


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `tsv`."""
    return [Tsv]
