"""Judgments of Quepid: ratings and judges of a case as CSV, and books as JSON.

- `query,docid,rating`: what Quepid exports and imports. A query that nobody rated has a line of its
  own, without commas, and a document that nobody rated an empty rating. Quepid puts a blank before
  a text that begins with one of - = + @, so that no spreadsheet takes it for a formula, and so do
  we before an id.
- `query,docid`, then a column for each judge.
- A book: `query_doc_pairs`, each with `judgements` by `user_email`; what is unrateable is left out
  and counted.

Queries have no ids there: the text is the id. A document that several judged is there as often:
`judge merge` settles it, and `--duplicates` does elsewhere.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.compute as pc

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import JudgmentLines, Judgments
from owpc_ltr.data.judgments.grouping import decimal
from owpc_ltr.data.judgments.pools import refuse_alike
from owpc_ltr.data.judgments.tables import parse_table
from owpc_ltr.data.options import ROLES
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import first_lines, read_text
from owpc_ltr.files.strict_json import read_json_value
from owpc_ltr.protocols import JudgmentReader

_FIRST = ["query", "docid"]
_BOOK = re.compile(rb'"query_doc_pairs"\s*:')
_FORMULA = re.compile(r"[-=+@]")
_GUARDED = r"^ ([-=+@])"


@dataclass(frozen=True)
class Quepid:
    """Quepid's `query,docid,rating`, its `query,docid` with a column for each judge, its books."""

    name: ClassVar[str] = "quepid"
    precedence: ClassVar[int] = 21
    ids_are_texts: ClassVar[bool] = True

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether it begins a book, or its header is one of Quepid's."""
        if head.lstrip().startswith(b"{"):
            return bool(_BOOK.search(head))
        names = _header(next(iter(first_lines(head)), ""))
        lowered = [name.lower() for name in names]
        return lowered == [*_FIRST, "rating"] or bool(_judges(names))

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:  # noqa: ARG002
        """The judgments, one entry for each judge of a pair, and a note of what has none."""
        text = read_text(path)
        if text.lstrip().startswith("{"):
            return _book(text, path)
        header, _, rows = text.partition("\n")
        judges = _judges(_header(header))
        if judges:
            return _by_judge(judges, rows, path)
        lines = parse_table(text, path, ",", None, unjudged_queries=True)
        query, documents = _unguarded(lines)
        params = {"keywords": query, "query": query}
        return replace(lines, query_ids=query, doc_ids=documents, params=params)

    def to_bytes(self, judgments: Judgments) -> bytes:
        """Ratings as CSV. Raises BadInput where two queries have the same text."""
        refuse_alike(judgments)
        out = io.StringIO(newline="")
        rows = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
        out.write("query,docid,rating\n")
        for query in judgments.queries:
            text = _guarded(query.params["query"])
            for document, grade in zip(query.doc_ids, query.grades, strict=True):
                rows.writerow([text, _guarded(document), decimal(grade)])
        return out.getvalue().encode()

    def example(self) -> bytes:
        """Two judgments of one query, and a query that has none."""
        return b"query,docid,rating\nrambo,7555,4\nrambo,1370,0.5\nrocky\n"


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `quepid`."""
    return [Quepid]


def _guarded(text: str) -> str:
    return f" {text}" if _FORMULA.match(text) else text


def _unguarded(lines: JudgmentLines) -> list[Any]:
    """The texts of queries and the ids of documents, as they were before."""
    columns = (lines.query_ids, lines.doc_ids)
    return [pc.replace_substring_regex(column, _GUARDED, r"\1") for column in columns]


def _header(line: str) -> list[str]:
    return [name.strip() for name in line.replace('"', "").split(",")]


def _judges(names: list[str]) -> list[str]:
    """The judges that a header names: all columns behind the first two, unless one has grades."""
    lowered = [name.lower() for name in names]
    return [] if lowered[:2] != _FIRST or {*ROLES["grade"]} & {*lowered} else names[2:]


def _by_judge(judges: list[str], rows: str, path: Path) -> JudgmentLines:
    """One entry for each judge of a pair; one with an empty cell has no grade."""
    columns = [f"judge {number}" for number in range(1, len(judges))]
    header = ",".join([*_FIRST, "grade", *columns])
    table = parse_table(f"{header}\n{rows}", path, ",", None)
    texts, documents = (column.to_pylist() for column in _unguarded(table))
    cells = [table.grades, *(table.params[name] for name in columns)]
    entries = [
        (number, text, document, cell, judge)
        for judge, column in zip(judges, cells, strict=True)
        for number, text, document, cell in zip(
            table.numbers, texts, documents, column.to_pylist(), strict=True
        )
    ]
    return _lines(path, entries)


def _book(text: str, path: Path) -> JudgmentLines:
    """One entry for each judge of a pair. Raises BadInput for what is no book."""
    try:
        content = read_json_value(text)
    except ValueError as error:
        raise BadInput(f"cannot read {path}: it is not complete JSON ({error})") from error
    pairs = content.get("query_doc_pairs") if isinstance(content, dict) else None
    if not isinstance(pairs, list):
        raise BadInput(f"cannot read {path}: it has no list 'query_doc_pairs', as a book has")
    entries: list[tuple[int, str, str, str, str]] = []
    unrateable = 0
    for number, pair in enumerate(pairs, 1):
        for judgement in _judgements(pair, path, number):
            rating = judgement.get("rating")
            if rating is None or judgement.get("unrateable") is True:
                unrateable += 1
                continue
            judge = str(judgement.get("user_email") or "")
            entries.append((number, pair["query_text"], pair["doc_id"], str(rating), judge))
    if not entries:
        raise BadInput(f"cannot read {path}: the book has no rating")
    notes = (f"{unrateable} judgements without a rating were left out",) * bool(unrateable)
    return _lines(path, entries, "pair", notes)


def _lines(
    path: Path,
    entries: list[tuple[int, str, str, str, str]],
    place: str = "line",
    notes: tuple[str, ...] = (),
) -> JudgmentLines:
    """Judgments of entries: number, query, document, grade and judge."""
    numbers, queries, documents, grades, judges = map(list, zip(*entries, strict=True))
    return JudgmentLines(
        path,
        numbers,
        queries,
        documents,
        grades=grades,
        params={"keywords": queries, "query": queries},
        place=place,
        judged_by=judges if any(judges) else None,
        notes=notes,
    )


def _judgements(pair: Any, path: Path, number: int) -> list[dict[str, Any]]:
    of = pair.get("judgements") if isinstance(pair, dict) else None
    texts = [pair.get(name) for name in ("query_text", "doc_id")] if isinstance(pair, dict) else []
    if not isinstance(of, list) or not all(isinstance(text, str) for text in [*texts, ""]):
        raise BadInput(
            f"cannot read {path}, pair {number}: it needs texts 'query_text' and 'doc_id', and a "
            "list 'judgements'"
        )
    if not all(isinstance(judgement, dict) for judgement in of):
        raise BadInput(f"cannot read {path}, pair {number}: a judgement is not an object")
    return of
