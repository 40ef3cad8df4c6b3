"""Grading sheets: documents to be judged, as a CSV whose `grade` column is empty.

Rank and ranker of a document do not stand there: who grades is not to be told what was expected.
What is shown of a document stands in columns called `document:FIELD`, which readers pass over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from owpc_ltr.data.judgments.roles import SHOWN
from owpc_ltr.data.judgments.typed import table_column
from owpc_ltr.data.judgments.types import JudgedQuery
from owpc_ltr.data.judgments.weights import IMPORTANCE, importance_cell
from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import write_output
from owpc_ltr.files.spreadsheets import sheet_bytes
from owpc_ltr.shown import printable

_LONGEST = 300


def write_sheet(
    queries: Sequence[JudgedQuery],
    fields: Sequence[str],
    shown: Mapping[str, Mapping[str, object]],
    path: Path,
) -> None:
    """Write the documents of queries, with what is `shown` of each by its id, to be graded."""
    own = ("query_id", "query", "keywords")
    names = dict.fromkeys(name for query in queries for name in query.params if name not in own)
    further = [table_column(name, [query.params.get(name) for query in queries]) for name in names]
    called = [name for name, _ in further]
    weighed = any(query.importance is not None for query in queries)
    called += [IMPORTANCE] if weighed else []
    header = ["query_id", "query", *called, "doc_id", *(f"{SHOWN}{name}" for name in fields)]
    rows: list[list[str]] = [[*header, "grade"]]
    for number, query in enumerate(queries):
        said = [query.params.get("query", ""), *(cells[number] for _, cells in further)]
        if any("\r" in part for part in said):
            raise BadInput(f"cannot write {path}: query '{query.query_id}' has a line break in it")
        said += [importance_cell(query)] if weighed else []
        for document in query.document_ids:
            content = shown.get(document, {})
            cells = [_one_line(content.get(name, "")) for name in fields]
            rows.append([query.query_id, *said, document, *cells, ""])
    write_output(path, sheet_bytes(rows))


def _one_line(value: object) -> str:
    """A field's value, short and on one line."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
