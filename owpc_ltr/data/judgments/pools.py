"""Pools for grading: queries to be judged, ranked lists of runs, and grading sheets.

A judgment list of OpenSearch's Search Relevance Workbench stands in the answer that fetches it, or
in the body that imports it. Ratings are texts, and queries have no ids: the text of a query is its
id, the same in whichever list it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.judgments.grouping import (
    CLICKS,
    IMPORTANCE,
    JudgedQuery,
    Judgments,
    decimal,
    said_weight,
)
from owpc_ltr.data.judgments.lines import JudgmentLines, declared, decode, no_json, table_column
from owpc_ltr.data.judgments.tables import (
    SHOWN,
    header_delimiter,
    header_names,
    role_name,
    table_rows,
)
from owpc_ltr.data.options import ROLES, checked_columns
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import read_text, shown, why_no_id
from owpc_ltr.files.output import write_output
from owpc_ltr.files.sheets import sheet_bytes
from owpc_ltr.files.strict_json import Json, kind_of, read_json_value
from owpc_ltr.text import cut, printable

_TEXTS, _IDS = ROLES["query"], ROLES["query_id"]
_ROLES = ("doc_id", "grade", "weight", "judged_by")
_OF_DOCUMENTS = frozenset(name for role in _ROLES for name in ROLES[role])


def read_queries(path: Path, columns: Mapping[str, str] | None = None) -> list[JudgedQuery]:
    """The queries of a file, in order, each once and without documents.

    A table's header names `query` (keywords) and maybe `query_id` and `query_weight`; further
    columns are parameters (JSON where the name ends in `:json`), but for those of judged documents.
    `columns` names columns by their roles. Without a header each line is a query, or an id, a tab
    and a query. Raises BadInput, naming the line, for an empty query, for an id with two texts, and
    for cells that are no JSON, or no weight.
    """
    text = read_text(path)
    mark, names = header_delimiter(text), header_names(text)
    roles = checked_columns(columns or {})
    # A table without such a column is no list of queries: its lines are of other things, too.
    is_table = path.suffix in {".csv", ".tsv"} and len(names) > (2 if mark == "\t" else 1)
    tabled = roles or is_table or set(names) & set(_TEXTS)
    rows = _table(text, mark, path, roles) if tabled else _lines(text)
    queries: dict[str, JudgedQuery] = {}
    for number, query_id, params, importance in rows:
        if not params["query"].strip() or not query_id.strip():
            raise BadInput(f"cannot read {path}, line {number}: the query or its id is empty")
        if why := why_no_id(query_id, typed=query_id == params["query"]):
            raise BadInput(f"cannot read {path}, line {number}: the query id {why}")
        query = JudgedQuery(
            query_id, params, [], np.zeros(0, np.float32), weights=None, importance=importance
        )
        before = queries.setdefault(query_id, query)
        weight = before.importance if importance is None else importance
        if before.params != params or before.importance not in {None, weight}:
            raise BadInput(
                f"cannot read {path}, line {number}: query {shown(query_id)} has another text "
                "or other parameters than on an earlier line: give it one of them"
            )
        queries[query_id] = replace(before, importance=weight)
    if not queries:
        raise BadInput(f"cannot read {path}: it has no queries")
    return list(queries.values())


_Row = tuple[int, str, dict[str, Any], float | None]
"""Line, query id, parameters, importance."""


def _lines(text: str) -> list[_Row]:
    rows: list[_Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            first, tab, text_after_tab = line.partition("\t")
            words = (text_after_tab if tab else line).strip()
            name = first.strip() if tab else words
            rows.append((number, name, {"keywords": words, "query": words}, None))
    return rows


def _table(text: str, mark: str, path: Path, roles: Mapping[str, str]) -> list[_Row]:
    """The rows below a header."""
    names, fields, lines, _ = table_rows(text, path, mark)
    header = _by_role([role_name(name) for name in names], roles, path)
    double = next((name for name in header if name and header.count(name) > 1), None)
    if double is not None or not set(header) & set(_TEXTS):
        what = f"two columns {shown(double)}" if double else f"no column {' or '.join(_TEXTS)}"
        fix = "name each once" if double else "call one 'query', or say which it is by `columns`"
        raise BadInput(f"cannot read {path}: the header names {what}: {fix}")
    place = {name: column for column, name in enumerate(header)}
    text_column = next(place[name] for name in _TEXTS if name in place)
    id_column = next((place[name] for name in _IDS if name in place), text_column)
    weight_column = place.get(IMPORTANCE)
    used = {text_column, id_column, weight_column} | {
        place[name] for name in _OF_DOCUMENTS if name in place
    }
    rows: list[_Row] = []
    for number, line in enumerate(lines):
        row = fields[number * len(names) : (number + 1) * len(names)]
        words = row[text_column]
        params = {"keywords": words, "query": words}
        for column, name in enumerate(names):
            if column not in used and row[column] and not name.startswith(SHOWN):
                params |= _param(name, row[column], f"{path}, line {line}")
        importance = None if weight_column is None else _importance(row[weight_column], path, line)
        rows.append((line, row[id_column], params, importance))
    return rows


def _by_role(header: list[str], roles: Mapping[str, str], path: Path) -> list[str]:
    """The header with the columns of these roles called by them; those of documents may lack."""
    roles_by_column = {role_name(column): role for role, column in roles.items()}
    for column, role in roles_by_column.items():
        if column not in header and role not in _ROLES:
            raise BadInput(
                f"cannot read {path}: no column is called {shown(column)}, which is given as the "
                f"{role}: its columns are {', '.join(map(shown, header))}"
            )
    return [roles_by_column.get(name, name) for name in header]


def _importance(cell: str, path: Path, line: int) -> float | None:
    try:
        return said_weight(cell)
    except ValueError as error:
        raise BadInput(f"cannot read {path}, line {line}: the {IMPORTANCE} {error}") from error


def _param(name: str, cell: str, place: str) -> dict[str, Any]:
    """A cell as the parameter that it is, if it is any."""
    stem = declared(name)
    if stem is None:
        return {name: cell}
    try:
        value = read_json_value(cell)
    except ValueError as error:
        raise BadInput(f"cannot read {place}: {no_json(name, cell, error)}") from error
    return {} if value in (None, "") else {stem: value}


_LONGEST = 300


def write_sheet(
    queries: Sequence[JudgedQuery],
    fields: Sequence[str],
    shown: Mapping[str, Mapping[str, object]],
    path: Path,
) -> None:
    """Write the documents of queries, with what is `shown` of each by its id, to be graded."""
    about = ("query_id", "query", "keywords")
    names = dict.fromkeys(name for query in queries for name in query.params if name not in about)
    further = [table_column(name, [query.params.get(name) for query in queries]) for name in names]
    param_columns = [name for name, _ in further]
    weighed = any(query.importance is not None for query in queries)
    param_columns += [IMPORTANCE] if weighed else []
    header = ["query_id", "query", *param_columns, "doc_id", *(f"{SHOWN}{name}" for name in fields)]
    rows: list[list[str]] = [[*header, "grade"]]
    for number, query in enumerate(queries):
        query_cells = [query.params.get("query", ""), *(cells[number] for _, cells in further)]
        if any("\r" in part for part in query_cells):
            raise BadInput(f"cannot write {path}: query '{query.query_id}' has a line break in it")
        if weighed:
            query_cells.append("" if query.importance is None else decimal(query.importance))
        for document in query.doc_ids:
            content = shown.get(document, {})
            cells = [_one_line(content.get(name, "")) for name in fields]
            rows.append([query.query_id, *query_cells, document, *cells, ""])
    write_output(path, sheet_bytes(rows))


def _one_line(value: object) -> str:
    """A field's value, short and on one line."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return cut(printable(" ".join(text.split())), _LONGEST)


RATINGS = "judgmentRatings"
_COMPLETE = "COMPLETED"


def lines_of_list(content: Json, path: Path) -> JudgmentLines:
    """The ratings of a list, counted from 1; one without a value is not judged yet.

    Raises BadInput for what is no list, or not a complete one.
    """
    source = _source(content, path)
    texts: list[str] = []
    sizes: list[int] = []
    failed = 0
    documents: list[str] = []
    grades: list[str] = []
    for entry in source[RATINGS]:
        query, ratings = _query(entry, path, len(texts) + 1)
        failures = entry.get("failures")
        failed += len(failures) if isinstance(failures, list) else 0
        texts.append(query)
        sizes.append(len(ratings))
        for rating in ratings:
            document, grade = _rating(rating, path, len(documents) + 1)
            documents.append(document)
            grades.append(grade)
    if not documents:
        raise BadInput(f"cannot read {path}: it has no judgment")
    column = decode(np.repeat(np.arange(len(texts)), sizes), texts)
    left_out = {
        "queries have no rating": sizes.count(0),
        "documents that the model failed to judge were left out": failed,
    }
    judge = _judge(source)
    lines = JudgmentLines(
        path,
        range(1, len(documents) + 1),
        column,
        documents,
        grades=grades,
        params={"keywords": column, "query": column},
        place="rating",
        notes=tuple(f"{n} {what}" for what, n in left_out.items() if n),
        judged_by=None if judge is None else [judge] * len(documents),
    )
    row = lines.row_without_text()
    if row is not None:
        raise lines.bad(row, "its query is empty")
    return lines


def import_body(judgments: Judgments) -> dict[str, Any]:
    """The request body that imports the judgments into the workbench.

    Raises BadInput where a query has no text, or two have the same.
    """
    texts = [query.params.get("query", "") for query in judgments.queries]
    refuse_alike(judgments)
    return {
        "name": "judgments of owpc-ltr",
        "description": "Written by owpc-ltr.",
        "type": "IMPORT_JUDGMENT",
        RATINGS: [
            {
                "query": text,
                "ratings": [
                    {"docId": document, "rating": decimal(grade)}
                    for document, grade in zip(query.doc_ids, query.grades, strict=True)
                ],
            }
            for text, query in zip(texts, judgments.queries, strict=True)
        ],
    }


def refuse_alike(judgments: Judgments) -> None:
    """Refuse queries that a format without ids cannot tell apart, or cannot name at all."""
    texts = Counter(query.params.get("query", "") for query in judgments.queries)
    for query in judgments.queries:
        text = query.params.get("query", "")
        if not text.strip():
            raise BadInput(f"query {shown(query.query_id)} has no text")
        if texts[text] > 1:
            raise BadInput(
                f"{texts[text]} queries have the text {shown(text)}, and the format has no ids to "
                "tell them apart: write tsv"
            )


def _judge(source: dict[str, Any]) -> str | None:
    """The judge of a list that was not imported: clicks, or a language model."""
    if source.get("type") == "UBI_JUDGMENT":
        return CLICKS
    about = source.get("metadata")
    model = about.get("modelId", "unnamed") if isinstance(about, dict) else "unnamed"
    return f"model:{model}" if source.get("type") == "LLM_JUDGMENT" else None


def _source(content: Json, path: Path) -> dict[str, Any]:
    """The list, wherever in the content it is: with the ratings of each query."""
    source = content
    if isinstance(content, dict) and isinstance(content.get("hits"), dict):
        hits = content["hits"].get("hits")
        if not isinstance(hits, list) or len(hits) != 1 or not isinstance(hits[0], dict):
            count = len(hits) if isinstance(hits, list) else 0
            raise BadInput(
                f"cannot read {path}: it is an answer with {count} judgment lists, not one: name "
                "one, as GET _plugins/_search_relevance/judgments/ID"
            )
        source = hits[0].get("_source")
    entries = source.get(RATINGS) if isinstance(source, dict) else None
    if not isinstance(source, dict) or not isinstance(entries, list):
        raise BadInput(
            f"cannot read {path}: no list '{RATINGS}' is in it, as the Search Relevance Workbench "
            "has it"
        )
    status = source.get("status", _COMPLETE)
    if status != _COMPLETE:
        raise BadInput(
            f"cannot read {path}: the list is {shown(str(status))}, not {_COMPLETE}: fetch it when "
            "it is"
        )
    return source


def _query(entry: Json, path: Path, number: int) -> tuple[str, list[Any]]:
    query = entry.get("query") if isinstance(entry, dict) else None
    ratings = entry.get("ratings") if isinstance(entry, dict) else None
    if not isinstance(query, str) or not isinstance(ratings, list):
        raise BadInput(
            f"cannot read {path}, query {number}: it is {kind_of(entry)} without a text 'query' "
            "and a list 'ratings'"
        )
    return query, ratings


def _rating(rating: Json, path: Path, number: int) -> tuple[str, str]:
    document = rating.get("docId") if isinstance(rating, dict) else None
    grade = rating.get("rating") if isinstance(rating, dict) else None
    if isinstance(document, str):
        if isinstance(grade, str):
            return document, grade
        if grade is None:
            return document, ""
        if isinstance(grade, int | float) and not isinstance(grade, bool):
            return document, repr(grade)
    raise BadInput(
        f"cannot read {path}, rating {number}: {shown(str(rating))} is not "
        '{"docId": "…", "rating": "1.0"}'
    )
