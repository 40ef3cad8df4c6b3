"""Judgments → TSV with a header, or TREC qrels."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from owpc_ltr.data.judgments.columns import table_column
from owpc_ltr.data.judgments.types import JUDGED_BY, JudgedQuery, Judgments
from owpc_ltr.data.judgments.weights import (
    IMPORTANCE,
    WEIGHT,
    decimal,
    importance_cell,
    weights_of,
)
from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import write_output
from owpc_ltr.files.spreadsheets import marked_cell
from owpc_ltr.files.text import shown

_FIRST = ("query_id", "query", "doc_id", "grade")


def write_judgments(judgments: Judgments, path: Path | str) -> None:
    """Write a TSV that reads back equal: query_id, query, doc_id, grade, further parameters.

    Weights, and who judged, stand behind the grade, where any are said. Parameters that are not all
    text stand in columns of JSON, whose names end in `:json`. Raises BadInput for a query without a
    text.
    """
    write_output(path, _written(table_bytes, judgments, path))


def write_qrels(judgments: Judgments, path: Path | str) -> None:
    """Write TREC's `query 0 document grade`.

    Raises BadInput for ids with blanks, and for grades that are no whole numbers.
    """
    write_output(path, _written(qrels_bytes, judgments, path))


def table_bytes(judgments: Judgments, delimiter: str = "\t") -> bytes:
    """The judgments as a table; see `write_judgments`."""
    further = [
        table_column(name, [query.params.get(name) for query in judgments.queries])
        for name in further_params(judgments)
    ]
    out = io.StringIO(newline="")
    plain = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    quoted = csv.writer(out, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    weights = _weights(judgments.queries)
    plain.writerow([*_FIRST, *weights, *(marked_cell(name) for name, _ in further)])
    for number, query in enumerate(judgments.queries):
        text, values = query.params.get("query", ""), [cells[number] for _, cells in further]
        if not text.strip():
            raise BadInput(f"query {shown(query.query_id)} has no text")
        # The plain writer does not quote a lone carriage return, which would end the line.
        writer = quoted if "\r" in "".join((text, *values)) else plain
        cells = [column(query) for column in weights.values()]
        judged = zip(query.document_ids, query.grades, *cells, strict=True)
        for document, grade, *sure in judged:
            said = map(marked_cell, (query.query_id, text, document))
            writer.writerow([*said, decimal(grade), *sure, *map(marked_cell, values)])
    return out.getvalue().encode()


def qrels_bytes(judgments: Judgments) -> bytes:
    """The judgments as TREC's qrels; see `write_qrels`."""
    lines = []
    for query in judgments.queries:
        for document, grade in zip(query.document_ids, query.grades.tolist(), strict=True):
            for value in (query.query_id, document):
                if value.split() != [value]:
                    raise BadInput(
                        f"qrels cannot hold the id {shown(value)}, which is empty or has a blank: "
                        "write TSV"
                    )
            if not grade.is_integer():
                raise BadInput(
                    f"query {shown(query.query_id)} grades document {shown(document)} {grade}, and "
                    "qrels hold whole grades: round them, or write TSV"
                )
            lines.append(f"{query.query_id} 0 {document} {int(grade)}\n")
    return "".join(lines).encode()


def further_params(judgments: Judgments) -> list[str]:
    """The parameters beside the text, in the order of their first appearance."""
    names = dict.fromkeys(name for query in judgments.queries for name in query.params)
    names.pop("query", None)
    if all(q.params.get("keywords") == q.params.get("query") for q in judgments.queries):
        names.pop("keywords", None)
    return list(names)


def _weights(queries: Sequence[JudgedQuery]) -> dict[str, Callable[[JudgedQuery], list[str]]]:
    """The columns of weights and judges that are said, and how a query's cells are made."""
    columns: dict[str, Callable[[JudgedQuery], list[str]]] = {}
    if any(query.weights is not None for query in queries):
        columns[WEIGHT] = lambda query: list(map(decimal, weights_of(query)))
    if any(query.importance is not None for query in queries):
        columns[IMPORTANCE] = lambda query: [importance_cell(query)] * len(query.document_ids)
    if any(query.judged_by is not None for query in queries):
        columns[JUDGED_BY] = lambda query: query.judged_by or [""] * len(query.document_ids)
    return columns


def _written(write: Callable[[Judgments], bytes], judgments: Judgments, path: Path | str) -> bytes:
    try:
        return write(judgments)
    except BadInput as error:
        raise BadInput(f"cannot write {path}: {error}") from error
