"""Judgment lists with a header: CSV and TSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from owpc_ltr.data.judgments.lines import JudgmentLines
from owpc_ltr.data.judgments.sheet import SHOWN
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown

ROLES = {
    "query_id": ("query_id", "qid"),
    "query": ("query", "keywords", "query_text"),
    "doc_id": ("doc_id", "document_id", "docid"),
    "grade": ("grade", "label", "relevance", "rating"),
}
"""The names that a column may have, in any case of letters."""

_NUMBER = re.compile(r"-?\d+(\.\d*)?")


def parse_table(
    text: str, path: Path, delimiter: str | None, topics: Mapping[str, str] | None
) -> JudgmentLines:
    """The judgments of a CSV or TSV text; fields may be quoted.

    Without a query id, the query's text is its id; without a text, `topics` has it by id.
    """
    delimiter = delimiter or _delimiter(text)
    header, fields, numbers = _rows(text, path, delimiter)
    columns = _columns(header, path, topics is not None)
    if not numbers:
        raise BadInput(f"cannot read {path}: it has a header, and no judgment below it")
    _refuse_swallowed(text, path, numbers, delimiter, len(header), columns["grade"])
    values = [fields[column :: len(header)] for column in range(len(header))]
    query_ids = values[columns.get("query_id", columns.get("query", 0))]
    texts = values[columns["query"]] if "query" in columns else _texts(query_ids, topics or {})
    used = set(columns.values())
    further = {
        name: values[i]
        for i, name in enumerate(header)
        if i not in used and not name.startswith(SHOWN)
    }
    lines = JudgmentLines(
        path,
        numbers,
        query_ids,
        values[columns["doc_id"]],
        values[columns["grade"]],
        {"keywords": texts, "query": texts, **further},
    )
    for row, content in enumerate(texts):
        if not content.strip():
            why = "the query is empty" if "query" in columns else "the topics do not have the query"
            raise lines.bad(row, f"{why} of query id {shown(query_ids[row])}")
    return lines


def _delimiter(text: str) -> str:
    header = text.lstrip("\r\n").partition("\n")[0]
    return next((mark for mark in "\t,;" if mark in header), ",")


def _rows(text: str, path: Path, delimiter: str) -> tuple[list[str], list[str], list[int]]:
    """The header, the fields of all other rows one after the other, and each row's first line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    fields: list[str] = []
    begins: list[int] = []
    begin = 1
    try:
        for row in reader:
            if not header:
                header = row
            elif row:
                if len(row) != len(header):
                    raise BadInput(
                        f"cannot read {path}, line {begin}: {len(row)} fields where the header has "
                        f"{len(header)}: {shown(delimiter.join(row))}; quote a field that has the "
                        "delimiter in it"
                    )
                fields += row
                begins.append(begin)
            begin = reader.line_num + 1
    except csv.Error as error:
        raise BadInput(
            f"cannot read {path}, line {begin}: {error}: double the quotes within a field, and "
            "quote the field"
        ) from error
    return [name.strip() for name in header], fields, begins


def _columns(header: list[str], path: Path, with_topics: bool) -> dict[str, int]:
    """Which column has which role. Raises BadInput, saying what was found, where one lacks."""
    lowered = [name.lower() for name in header]
    found = ", ".join(shown(name) for name in header[:12])
    for name in lowered:
        if not name or lowered.count(name) > 1:
            raise BadInput(
                f"cannot read {path}: its header has {'an empty name' if not name else 'two of'} "
                f"{shown(name)}: name each column, once"
            )
    columns: dict[str, int] = {}
    for role, names in ROLES.items():
        present = [name for name in names if name in lowered]
        if len(present) > 1 and present[:2] != ["query", "keywords"]:
            raise BadInput(
                f"cannot read {path}: the columns {' and '.join(map(shown, present))} both name "
                f"the {role}: take one out"
            )
        if present:
            columns[role] = lowered.index(present[0])
    lacking = [role for role in ("doc_id", "grade") if role not in columns]
    if "query" not in columns and not (with_topics and "query_id" in columns):
        lacking.insert(0, "query")
    if lacking:
        raise BadInput(
            f"cannot read {path}: no column is called {' or '.join(map(shown, lacking))}: found "
            f"{found}; the first line must name query_id, query, doc_id, grade"
        )
    return columns


def _texts(query_ids: Sequence[str], topics: Mapping[str, str]) -> list[str]:
    return [topics.get(query, "") for query in query_ids]


def _refuse_swallowed(
    text: str, path: Path, numbers: list[int], delimiter: str, width: int, grade: int
) -> None:
    """Refuse a field that begins with a stray quote and runs over the rows after it."""
    if '"' not in text:
        return
    lines = io.StringIO(text, newline="").readlines()
    begins = np.array([*numbers, len(lines) + 1])
    for row in np.flatnonzero(np.diff(begins) > 1):
        for line in lines[begins[row] : begins[row + 1] - 1]:
            fields = line.rstrip("\r\n").split(delimiter)
            if len(fields) == width and _NUMBER.fullmatch(fields[grade]):
                raise BadInput(
                    f"cannot read {path}, line {begins[row]}: a quote that opens there runs over "
                    f"the line {shown(line)}: double the quotes within a field, and quote the field"
                )
