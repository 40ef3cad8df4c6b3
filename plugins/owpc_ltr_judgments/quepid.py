"""Judgment lists as Quepid exports and imports them: CSV whose header is `query,docid,rating`.

Queries have no ids there: the text is the id. A query that nobody rated has a line of its own,
without commas, and a document that nobody rated an empty rating. Quepid puts a blank before a text
that begins with one of - = + @, so that no spreadsheet takes it for a formula.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pyarrow.compute as pc

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import JudgmentLines, Judgments
from owpc_ltr.data.judgments.grouping import decimal
from owpc_ltr.data.judgments.pools import refuse_alike
from owpc_ltr.data.judgments.tables import parse_table
from owpc_ltr.files.input import first_lines, read_text
from owpc_ltr.protocols import JudgmentReader

_HEADER = ("query", "docid", "rating")
_FORMULA = re.compile(r"[-=+@]")
_GUARDED = r"^ ([-=+@])"


@dataclass(frozen=True)
class Quepid:
    """Quepid's `query,docid,rating`."""

    name: ClassVar[str] = "quepid"
    precedence: ClassVar[int] = 80
    ids_are_texts: ClassVar[bool] = True

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the header has these three names, in this order, and no other."""
        names = next(iter(first_lines(head)), "").replace('"', "").split(",")
        return tuple(name.strip().lower() for name in names) == _HEADER

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:  # noqa: ARG002
        """The judgments, and a note of how many queries have none."""
        lines = parse_table(read_text(path), path, ",", None, unjudged_queries=True)
        text = lines.params["query"]
        if not pc.any(pc.match_substring_regex(text, _GUARDED)).as_py():
            return lines
        text = pc.replace_substring_regex(text, _GUARDED, r"\1")
        return replace(lines, query_ids=text, params={"keywords": text, "query": text})

    def to_bytes(self, judgments: Judgments) -> bytes:
        """The same CSV. Raises BadInput where two queries have the same text."""
        refuse_alike(judgments)
        out = io.StringIO(newline="")
        rows = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
        out.write(f"{','.join(_HEADER)}\n")
        for query in judgments.queries:
            text = query.params["query"]
            text = f" {text}" if _FORMULA.match(text) else text
            for document, grade in zip(query.doc_ids, query.grades, strict=True):
                rows.writerow([text, document, decimal(grade)])
        return out.getvalue().encode()

    def example(self) -> bytes:
        """Two judgments of one query, and a query that has none."""
        return b"query,docid,rating\nrambo,7555,4\nrambo,1370,0.5\nrocky\n"


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `quepid`."""
    return [Quepid]
