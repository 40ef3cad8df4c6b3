"""Judgments as delimited text with a header, or as TREC qrels, read and written.

Pools for grading: queries to be judged, ranked lists of runs, and grading sheets. A judgment list
of OpenSearch's Search Relevance Workbench stands in the answer that fetches it, or in the body that
imports it. Ratings are texts, and queries have no ids: the text of a query is its id, the same in
whichever list it stands.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.judgments import (
    CLICKS,
    IMPORTANCE,
    JUDGED_BY,
    WEIGHT,
    Column,
    JudgedQuery,
    JudgmentLines,
    Judgments,
    TypedColumn,
    bad_line,
    by_judge,
    decimal,
    declared,
    decode,
    encode,
    json_column,
    judges_by_document,
    no_json,
    said_weight,
    table_column,
    text_column,
    weights_of,
)
from owpc_ltr.data.options import ROLES, checked_columns
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import first_lines, read_text, shown, why_no_id
from owpc_ltr.files.output import write_output
from owpc_ltr.files.strict_json import Json, read_json_value, take_list, take_text
from owpc_ltr.files.tables import inert_column, read_column, sheet_bytes
from owpc_ltr.text import cut, printable

_OF_DOCUMENTS = ("doc_id", "grade", "weight", "judged_by")


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
    tabled = roles or is_table or set(names) & set(ROLES["query"])
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


def _table(text: str, mark: str, path: Path, columns: Mapping[str, str]) -> list[_Row]:
    """The rows below a header; columns of documents may lack."""
    names, fields, lines, _ = table_rows(text, path, mark)
    header = [role_name(name) for name in names]
    columns = {
        role: name
        for role, name in columns.items()
        if role_name(name) in header or role not in _OF_DOCUMENTS
    }
    roles = find_roles(names, path, with_topics=False, columns=columns, needed=())
    further = _further(names, roles)
    rows: list[_Row] = []
    for number, line in enumerate(lines):
        row = fields[number * len(names) : (number + 1) * len(names)]
        words = row[roles["query"]]
        params = {"keywords": words, "query": words}
        for column, name in further:
            if row[column]:
                params |= _param(name, row[column], f"{path}, line {line}")
        cell = row[roles[IMPORTANCE]] if IMPORTANCE in roles else ""
        query_id = row[roles.get("query_id", roles["query"])]
        rows.append((line, query_id, params, _importance(cell, path, line)))
    return rows


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
    judge = _judge(source)
    ratings: list[Rating] = []
    unrated = failed = 0
    for number, entry in enumerate(source[RATINGS], 1):
        where = f"query {number} of {path}"
        query, rated = take_text(entry, "query", where), take_list(entry, "ratings", where)
        unrated += not rated
        failures = entry.get("failures")
        failed += len(failures) if isinstance(failures, list) else 0
        for rating in rated:
            place = len(ratings) + 1
            ratings.append((place, query, *_rating(rating, path, place), judge))
    left_out = {
        "queries have no rating": unrated,
        "documents that the model failed to judge were left out": failed,
    }
    return lines_of_ratings(ratings, path, "rating", left_out)


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


def _judge(source: dict[str, Any]) -> str:
    """The judge of a list: clicks, or a language model; '' for one that was imported."""
    if source.get("type") == "UBI_JUDGMENT":
        return CLICKS
    about = source.get("metadata")
    model = about.get("modelId", "unnamed") if isinstance(about, dict) else "unnamed"
    return f"model:{model}" if source.get("type") == "LLM_JUDGMENT" else ""


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


TAKEN = frozenset(name for names in ROLES.values() for name in names) - {"keywords"}
"""Names of columns that are never parameters of a query, even if their role has another column."""

SHOWN = "document:"
"""Prefix of the columns that show a document and are not parameters of the query."""

JUDGE = "grade:"
"""Prefix of the roles of columns that hold the grades of one judge each."""
_JUDGES = re.compile(
    r"(judge|rater|annotator|assessor)[ _-]?(?!.*(?<![a-z])(id|name|count)$)(\d+|[ _-]\w.*)"
    r"|\S+@\S+\.\S+",
    re.IGNORECASE,
)
"""The names of columns that say of themselves that a judge's grades are in them."""


def role_name(column: str) -> str:
    """The name of a column as those of roles are written.

    >>> role_name("Query Text")
    'query_text'
    """
    return column.strip().lower().replace(" ", "_")


def are_judges(columns: Sequence[str]) -> bool:
    """Whether each of these columns says that it holds the grades of one judge.

    >>> are_judges(["ann@shop.example", "judge 2"]), are_judges(["position"]), are_judges([])
    (True, False, False)
    """
    return bool(columns) and all(_JUDGES.fullmatch(column.strip()) for column in columns)


def begins_object(head: bytes, key: re.Pattern[bytes]) -> bool:
    r"""Whether a file begins with an object that has a key, and that is no judgment of JSON lines.

    >>> begins_object(b'{"pairs": [{"doc_id": "a"}]}', re.compile(b'"pairs"'))
    True
    >>> begins_object(b'{"doc_id": "a", "pairs": 1}\n{}', re.compile(b'"pairs"'))
    False
    """
    line = next(iter(first_lines(head)), "")
    if not line.startswith("{") or not key.search(head):
        return False
    try:
        return not any(name in json.loads(line) for name in ROLES["doc_id"])
    except (ValueError, RecursionError):
        return True  # it goes on in the next line


def read_whole_json(text: str, path: Path) -> Any:
    """The one JSON value of a file. Raises BadInput."""
    try:
        return read_json_value(text)
    except ValueError as error:
        raise BadInput(f"cannot read {path}: it is not complete JSON ({error})") from error


Rating = tuple[int, str, str, str, str]
"""Number, text of the query, document, grade and judge."""


def lines_of_ratings(
    ratings: Sequence[Rating], path: Path, place: str, left_out: Mapping[str, int]
) -> JudgmentLines:
    """Ratings of queries that have no id but their text; notes tell how many of what are left out.

    Raises BadInput for an empty text, and for no rating.
    """
    notes = tuple(f"{count} {what}" for what, count in left_out.items() if count)
    if not ratings:
        raise BadInput("; ".join([f"cannot read {path}: it has no judgment", *notes]))
    numbers, queries, documents, grades, judges = zip(*ratings, strict=True)
    query_ids = text_column(queries)
    lines = JudgmentLines(
        path,
        numbers,
        query_ids,
        documents,
        grades=grades,
        params={"keywords": query_ids, "query": query_ids},
        place=place,
        notes=notes,
        judged_by=judges if any(judges) else None,
    )
    lines.check_texts(lambda _: "its query is empty")
    return lines


def find_roles(
    names: Sequence[str],
    path: Path,
    with_topics: bool,
    where: str = "the first line",
    column: str = "column",
    columns: Mapping[str, str] | None = None,
    needed: Sequence[str] = ("doc_id", "grade"),
) -> dict[str, int]:
    """The column of each role. Raises BadInput with the columns that exist if a role has none.

    The query is `needed` always. `where` and `column` are what messages call header and column.
    `columns` names the columns of some roles. If it names several of the grade, these are the
    roles `grade:NAME`.
    """
    lowered = [role_name(name) for name in names]
    listed = ", ".join(shown(name) for name in names[:12])
    for name in lowered:
        if not name or lowered.count(name) > 1:
            what = "an empty name" if not name else "two of"
            raise BadInput(
                f"cannot read {path}: {'its header' if column == 'column' else 'it'} has {what} "
                f"{shown(name)}: name each {column}, once"
            )
    positions: dict[str, int] = {}
    columns = columns or {}
    for role, given in columns.items():
        whole = role != "grade" or role_name(given) in lowered
        parts = [given] if whole else next(csv.reader([given], skipinitialspace=True), [given])
        for name in parts:
            if role_name(name) not in lowered:
                raise BadInput(
                    f"cannot read {path}: no {column} is called {shown(name)}, which is given as "
                    f"the {role}: its {column}s are {listed}"
                )
            place = lowered.index(role_name(name))
            positions[f"{JUDGE}{names[place]}" if len(parts) > 1 else role] = place
    for role, aliases in ROLES.items():
        if role in columns:
            continue
        present = [name for name in aliases if name in lowered]
        if len(present) > 1 and present[:2] != ["query", "keywords"]:
            raise BadInput(
                f"cannot read {path}: the {column}s {' and '.join(map(shown, present))} both name "
                f"the {role}: take one out"
            )
        if present:
            positions[role] = lowered.index(present[0])
    known = {role.partition(":")[0] for role in positions}
    lacking = [role for role in needed if role not in known]
    if "query" not in positions and not (with_topics and "query_id" in positions):
        lacking.insert(0, "query")
    lacking = [columns.get(role, role) for role in lacking]
    if lacking:
        if " ".join(names).upper().split()[1:2] == ["Q0"]:
            raise BadInput(
                f"cannot read {path}: it is a TREC run, which has ranks and no grades: measure it "
                "with `evaluate(model, data)`"
            )
        advice = '`columns={"query": "q"}`'
        if needed:
            advice = (
                '`columns={"query": "q", "doc_id": "sku"}`, and for a column of each judge '
                '`columns={"grade": "ann,bob"}`'
            )
        raise BadInput(
            f"cannot read {path}: no {column} is called {' or '.join(map(shown, lacking))}: found "
            f"{listed}; {where} must name {', '.join(('query_id', 'query', *needed))}, or others "
            f"do: {advice}"
        )
    return positions


def lines_by_role(
    path: Path,
    numbers: Sequence[int],
    names: Sequence[str],
    values: Sequence[Sequence[str] | Column | TypedColumn],
    roles: Mapping[str, int],
    topics: Mapping[str, str] | None,
    place: str = "line",
) -> JudgmentLines:
    """The judgments of columns whose roles are known.

    Without a query id, the query's text is its id; without a text, `topics` has it by id. All
    further columns are parameters of the query: text, or JSON where the name ends in `:json`.
    Raises BadInput for a query without a text, and for cells that are no JSON.
    """
    query_ids = text_column(values[roles.get("query_id", roles.get("query", 0))])
    texts = (
        text_column(values[roles["query"]])
        if "query" in roles
        else look_up_texts(query_ids, topics or {})
    )
    weights = {roles[role] for role in ("weight", "query_weight", "judged_by") if role in roles}
    others = [name for i, name in enumerate(names) if i not in weights]
    params: dict[str, Any] = {"keywords": texts, "query": texts}
    for i, name in _further(names, roles):
        param, column = name, values[i]
        stem = declared(name)
        if stem is not None:
            param = _free(path, name, stem, params, others)
            if not isinstance(column, TypedColumn):
                column = json_column(
                    column, name, lambda row, what: bad_line(path, place, numbers[row], what)
                )
            column = replace(column, declared=True)
        params[param] = column
    judges = {
        role.removeprefix(JUDGE): values[place]
        for role, place in roles.items()
        if role.startswith(JUDGE)
    }
    lines = JudgmentLines(
        path,
        numbers,
        query_ids,
        values[roles["doc_id"]],
        grades=next(iter(judges.values())) if judges else values[roles["grade"]],
        params=params,
        place=place,
        weights=values[roles["weight"]] if "weight" in roles else None,
        importance=values[roles["query_weight"]] if "query_weight" in roles else None,
        judged_by=values[roles["judged_by"]] if "judged_by" in roles else None,
    )
    fault = "the query is empty" if "query" in roles else "the topics do not have the query"
    lines.check_texts(lambda query_id: f"{fault} of query id {shown(query_id)}")
    return by_judge(lines, judges) if judges else lines


def _further(names: Sequence[str], roles: Mapping[str, int]) -> list[tuple[int, str]]:
    """The columns that are parameters of the query: of no role, and not shown of documents."""
    return [
        (column, name)
        for column, name in enumerate(names)
        if column not in roles.values()
        and not name.startswith(SHOWN)
        and role_name(name) not in TAKEN
    ]


def _free(path: Path, name: str, stem: str, params: Mapping[str, Any], names: Sequence[str]) -> str:
    """The parameter of a column declared as JSON. Raises BadInput if another one has that name."""
    if not stem or stem in params or stem in names:
        what = f"the parameter {shown(stem)} has another column too" if stem else "it has no name"
        raise BadInput(
            f"cannot read {path}: the column {shown(name)} declares JSON, and {what}: name each "
            "parameter once, as vector:json"
        )
    return stem


def look_up_texts(query_ids: Sequence[str] | Column, topics: Mapping[str, str]) -> Column:
    """The text of each judgment's query, '' where the topics do not have it."""
    codes, queries = encode(text_column(query_ids))
    return decode(codes, [topics.get(query, "") for query in queries])


_NUMBER = re.compile(r"-?\d+(\.\d*)?")


def parse_table(
    text: str,
    path: Path,
    delimiter: str,
    topics: Mapping[str, str] | None,
    *,
    unjudged_queries: bool = False,
    columns: Mapping[str, str] | None = None,
) -> JudgmentLines:
    """The judgments of a delimited text; fields may be quoted. `columns` names some by role.

    With `unjudged_queries` a row of one field is a query that nobody judged: a note counts them.
    Raises BadInput, naming the line, where rows and header do not fit together.
    """
    header, fields, numbers, alone = table_rows(text, path, delimiter, alone=unjudged_queries)
    roles = find_roles(header, path, topics is not None, columns=columns)
    if not numbers:
        raise BadInput(f"cannot read {path}: it has a header, and no judgment below it")
    grade = next(place for role, place in roles.items() if role.startswith("grade"))
    _refuse_swallowed(text, path, numbers, delimiter, width=len(header), grade=grade)
    values = [fields[column :: len(header)] for column in range(len(header))]
    lines = lines_by_role(path, numbers, header, values, roles=roles, topics=topics)
    return replace(lines, notes=(f"{alone} queries have no rating",)) if alone else lines


def header_delimiter(text: str) -> str:
    """The delimiter of the first line: a tab, a comma or a semicolon, or what Excel's `sep=` says.

    >>> header_delimiter("query;grade"), header_delimiter("sep=|")
    (';', '|')
    """
    header = text.lstrip("\r\n").partition("\n")[0]
    if said := _SEPARATOR.fullmatch(header.rstrip("\r")):
        return said[1]
    return next((mark for mark in "\t,;" if mark in header), ",")


_SEPARATOR = re.compile("sep=(.)", re.IGNORECASE)


def header_names(text: str) -> list[str]:
    """The names in the header of a delimited text, without quotes, as those of roles are written.

    >>> header_names('Query Text,"City"')
    ['query_text', 'city']
    """
    first, _, rest = text.lstrip("\r\n").partition("\n")
    if _SEPARATOR.fullmatch(first.rstrip("\r")):
        first = rest.partition("\n")[0]
    names = first.replace('"', "").split(header_delimiter(text))
    return [role_name(name.strip().removeprefix("'")) for name in names]


def table_formats(head: bytes) -> set[str] | None:
    r"""The shipped formats that a file may have whose header names the columns of a table.

    None where the line is no such header: then it may have any format.

    >>> table_formats(b"query\tdoc_id\tgrade\n"), table_formats(b"q1 0 d1 1\n")
    ({'tsv'}, None)
    """
    text = head.decode("utf-8", "replace")
    delimiter, names = header_delimiter(text), set(header_names(text))
    if not all(names.intersection(ROLES[role]) for role in ("doc_id", "grade")):
        return None
    return {"tsv"} if delimiter == "\t" else {"csv", "quepid"}


def table_rows(
    text: str, path: Path, delimiter: str, *, alone: bool = False
) -> tuple[list[str], list[str], list[int], int]:
    """The header, the fields of all other rows one after the other, and each row's first line.

    Rows of one field are counted, where there may be any.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    fields: list[str] = []
    begins: list[int] = []
    begin = 1
    lone = 0
    try:
        for row in reader:
            if not header:
                header = [] if _SEPARATOR.fullmatch(delimiter.join(row)) else row
            elif alone and len(row) == 1:
                lone += 1
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
    width = len(header)
    if header and not header[0] and fields[::width] == [str(row) for row in range(len(begins))]:
        header[0] = f"{SHOWN}index"  # pandas writes the number of each row first
    for column, name in enumerate(header):
        if name.startswith("'"):
            header[column], fields[column::width] = read_column(name, fields[column::width], path)
    return [name.strip() for name in header], fields, begins, lone


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


_FIRST = ("query_id", "query", "doc_id", "grade")


def write_judgments(judgments: Judgments, path: Path | str) -> None:
    """Write a TSV that reads back equal: query_id, query, doc_id, grade, further parameters.

    Weights, and who judged, stand behind the grade, where any are said. Parameters that are not all
    text stand in columns of JSON, whose names end in `:json`. Raises BadInput for a query without a
    text.
    """
    try:
        content = table_bytes(judgments)
    except BadInput as error:
        raise BadInput(f"cannot write {path}: {error}") from error
    write_output(path, content)


def table_bytes(judgments: Judgments, delimiter: str = "\t") -> bytes:
    """The judgments as a table; see `write_judgments`."""
    further = [
        _unlike_sheets(*table_column(name, [query.params.get(name) for query in judgments.queries]))
        for name in further_params(judgments)
    ]
    out = io.StringIO(newline="")
    plain = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    quoted = csv.writer(out, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    optional = optional_columns(judgments.queries)
    plain.writerow([*_FIRST, *optional, *(name for name, _ in further)])
    optional_cells = zip(*(map(_cell, values) for values in optional.values()), strict=True)
    for number, query in enumerate(judgments.queries):
        text, values = query.params.get("query", ""), [cells[number] for _, cells in further]
        if not text.strip():
            raise BadInput(f"query {shown(query.query_id)} has no text")
        # The plain writer does not quote a lone carriage return, which would end the line.
        writer = quoted if "\r" in "".join((text, *values)) else plain
        for document, grade in zip(query.doc_ids, query.grades, strict=True):
            cells = next(optional_cells, ())
            writer.writerow([query.query_id, text, document, decimal(grade), *cells, *values])
    return out.getvalue().encode()


def _cell(value: str | float | np.float32 | None) -> str:
    return value or "" if isinstance(value, str | None) else decimal(value)


def _unlike_sheets(name: str, cells: Sequence[str]) -> tuple[str, Sequence[str]]:
    """A column that `read_column` reads as it is: a name with a `'` before it means a sheet."""
    if not name.startswith("'"):
        return name, cells
    name, *cells = map(str, inert_column(name, cells))
    return name, cells


def further_params(judgments: Judgments) -> list[str]:
    """The parameters beside the text, in the order of their first appearance."""
    names = dict.fromkeys(name for query in judgments.queries for name in query.params)
    names.pop("query", None)
    if all(q.params.get("keywords") == q.params.get("query") for q in judgments.queries):
        names.pop("keywords", None)
    return list(names)


def optional_columns(queries: Sequence[JudgedQuery]) -> dict[str, list[Any]]:
    """The weights, importances and judges of all judgments, as far as any query has them."""
    columns: dict[str, list[Any]] = {}
    if any(query.weights is not None for query in queries):
        columns[WEIGHT] = [weight for query in queries for weight in weights_of(query)]
    if any(query.importance is not None for query in queries):
        columns[IMPORTANCE] = [query.importance for query in queries for _ in query.doc_ids]
    if any(query.judged_by is not None for query in queries):
        columns[JUDGED_BY] = [judge for query in queries for judge in judges_by_document(query)]
    return columns
