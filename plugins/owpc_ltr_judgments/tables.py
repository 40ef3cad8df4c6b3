"""Judgment lists as tables: CSV, TSV, JSON lines, and columns (Parquet, Arrow's IPC files).

Columns, or the keys of JSON lines, are `query_id` (or qid), `query` (keywords, query_text),
`doc_id` (document_id, docid) and `grade` (label, relevance, rating), in any order and any case; and
maybe `weight` (how sure the judgment is), `query_weight` (how often the query is asked), where an
empty cell is 1, and `judged_by`. Without query ids the text is the id. All further columns are
parameters of the query; an empty cell and a null are no parameter:

- in csv and tsv they are texts, or JSON where the name ends in `:json`;
- in jsonl they have JSON's types: numbers, true or false, lists (a query vector), objects, texts.
  The file may also be one list of the objects. A key that a line does not have says nothing: what
  another line of the query says holds, so that a long vector can stand once;
- in parquet numbers, true and false, lists and objects keep their types; dates and times (ISO 8601)
  and decimals are text. Ids are text or whole numbers. Errors name the row, from 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr import hookimpl
from owpc_ltr.data.judgment_tables import (
    TAKEN,
    find_roles,
    further_params,
    header_delimiter,
    lines_by_role,
    optional_columns,
    parse_table,
    read_whole_json,
    table_bytes,
)
from owpc_ltr.data.judgments import (
    IMPORTANCE,
    JUDGED_BY,
    WEIGHT,
    JudgmentLines,
    Judgments,
    TypedColumn,
    decimal,
    decode,
    distinct_values,
    table_column,
    text_column,
    whole_numbers,
)
from owpc_ltr.data.parquet import DATASET_KEY
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import first_lines, read_text, shown
from owpc_ltr.files.strict_json import as_id, kind_of, read_json_value
from owpc_ltr.files.tables import ARROW, PARQUET, open_columns
from owpc_ltr.protocols import JudgmentReader

_LARGEST = 1 << 30
_OF_NUMBERS = ("grade", WEIGHT, IMPORTANCE)
_OPTIONAL_TYPES = {WEIGHT: pa.float32(), IMPORTANCE: pa.float64(), JUDGED_BY: pa.string()}


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
        """The judgments; the delimiter is the header's: commas, semicolons or tabs."""
        text = read_text(path)
        return parse_table(text, path, header_delimiter(text), topics, columns=columns)

    def to_bytes(self, judgments: Judgments) -> bytes:
        """A table that reads back equal, between commas."""
        return table_bytes(judgments, ",")

    def example(self) -> bytes:
        """Two judgments of one query."""
        return b"query_id,query,doc_id,grade\nq1,rambo,7555,4\nq1,rambo,1370,0.5\n"


@dataclass(frozen=True)
class Tsv(Csv):
    """The table of csv between tabs, which no text needs quotes for."""

    name: ClassVar[str] = "tsv"
    precedence: ClassVar[int] = 90

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the first line has a tab."""
        return header_delimiter(head.decode("utf-8", "replace")) == "\t"

    def to_bytes(self, judgments: Judgments) -> bytes:
        """A table that reads back equal."""
        return table_bytes(judgments)

    def example(self) -> bytes:
        """Two judgments of one query."""
        return super().example().replace(b",", b"\t")


@dataclass(frozen=True)
class Jsonl:
    """One JSON object a judgment; keys beside those that csv knows are parameters of any type."""

    name: ClassVar[str] = "jsonl"
    precedence: ClassVar[int] = 30

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the first line that is not blank begins an object, or a list of them."""
        return any(line.startswith(("{", "[")) for line in first_lines(head)[:1])

    def read(
        self,
        path: Path,
        topics: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> JudgmentLines:
        """The judgments. Raises BadInput for a line, or an element of a list, that is no object."""
        place, numbers, cells = _cells_of_records(path)
        if not numbers:
            raise BadInput(f"cannot read {path}: it has no judgment")
        names = list(cells)
        roles = find_roles(
            names, path, topics is not None, f"its {place}s", column="key", columns=columns
        )
        role_of = {column: role.partition(":")[0] for role, column in roles.items()}
        values: list[Any] = [
            _texts(column, role_of[key], f"{path}, {place}", numbers) if key in role_of else column
            for key, column in enumerate(cells.values())
        ]
        queries = values[roles.get("query_id", roles.get("query", 0))]
        for key in set(range(len(names))) - set(role_of):
            values[key] = _params(values[key], queries)
        return lines_by_role(path, numbers, names, values, roles=roles, topics=topics, place=place)

    def to_bytes(self, judgments: Judgments) -> bytes:
        """The same lines; a query's parameters stand on its first one."""
        names = further_params(judgments)
        reserved = [name for name in names if name.lower() in TAKEN]
        if reserved:
            raise BadInput(f"a line's {shown(reserved[0])} is not a parameter: write tsv")
        optional = optional_columns(judgments.queries)
        cells = zip_longest(*optional.values())
        lines = []
        for query in judgments.queries:
            params = {name: query.params[name] for name in names if name in query.params}
            for document, grade in zip(query.doc_ids, query.grades, strict=True):
                line = {"query_id": query.query_id, "query": query.params.get("query", "")}
                line |= {"doc_id": document, "grade": _number(grade)}
                for name, cell in zip(optional, next(cells, ()), strict=True):
                    if cell is not None:
                        line[name] = cell if name == JUDGED_BY else _number(cell)
                lines.append(json.dumps(line | params, ensure_ascii=False))
                params = {}
        return "".join(f"{line}\n" for line in lines).encode()

    def example(self) -> bytes:
        """Two judgments of one query, which has a vector."""
        return (
            b'{"query_id": "q1", "query": "rambo", "doc_id": "7555", "grade": 4, '
            b'"vector": [0.5, -1]}\n{"query_id": "q1", "query": "rambo", "doc_id": "1370", '
            b'"grade": 0.5}\n'
        )


@dataclass(frozen=True)
class Parquet:
    """Parquet and Arrow files (Feather), whose columns are named as a csv header names them."""

    name: ClassVar[str] = "parquet"
    precedence: ClassVar[int] = 0

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the file begins as these formats do."""
        return head.startswith((PARQUET, ARROW))

    def read(
        self,
        path: Path,
        topics: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> JudgmentLines:
        """The judgments; columns of text are the file's own."""
        table = _table(path)
        names = table.schema.names
        roles = find_roles(names, path, topics is not None, "its columns", columns=columns)
        if not len(table):
            raise BadInput(f"cannot read {path}: it has columns, and no row")
        role_of = {column: role.partition(":")[0] for role, column in roles.items()}
        values = [
            _converted(path, name, role_of.get(index), table.column(index))
            for index, name in enumerate(names)
        ]
        numbers = range(1, len(table) + 1)
        return lines_by_role(path, numbers, names, values, roles=roles, topics=topics, place="row")

    def to_bytes(self, judgments: Judgments) -> bytes:
        """The same columns; parameters that are not text are JSON, in columns named `…:json`."""
        queries = judgments.queries
        rows = np.repeat(np.arange(len(queries)), [len(query.doc_ids) for query in queries])
        grades = np.concatenate([query.grades for query in queries])
        columns = {
            "query_id": decode(rows, [query.query_id for query in queries]),
            "query": decode(rows, [query.params.get("query", "") for query in queries]),
            "doc_id": pa.array(chain.from_iterable(q.doc_ids for q in queries), pa.string()),
            "grade": pa.array(grades, pa.float32()),
        }
        for name, values in optional_columns(queries).items():
            columns[name] = pa.array(values, _OPTIONAL_TYPES[name])
        for param in further_params(judgments):
            name, cells = table_column(param, [query.params.get(param) for query in queries])
            columns[name] = decode(rows, cells)
        return _written(columns)

    def example(self) -> bytes:
        """Two judgments of one query, as Parquet."""
        columns = {
            "query_id": ["q1", "q1"],
            "query": ["rambo", "rambo"],
            "doc_id": [7555, 1370],
            "grade": [4, 0.5],
        }
        return _written(columns)


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the formats `csv`, `tsv`, `jsonl` and `parquet`."""
    return [Csv, Tsv, Jsonl, Parquet]


_UNSAID = object()
"""The value of a key that a line does not have."""


def _cells_of_records(path: Path) -> tuple[str, list[int], dict[str, list[Any]]]:
    """What the records are (lines, or elements), their numbers, and by key a value for each."""
    numbers: list[int] = []
    cells: dict[str, list[Any]] = {}
    text = read_text(path)
    listed = text.lstrip().startswith("[")
    place = "record" if listed else "line"
    for number, record in _of_list(text, path) if listed else _of_lines(text, path):
        for name, value in record.items():
            column = cells.setdefault(name, [])
            column.extend([_UNSAID] * (len(numbers) - len(column)))
            # Most lines say what the line before them said: a long vector is held once.
            same = bool(column) and _is_same(column[-1], value)
            column.append(column[-1] if same else value)
        numbers.append(number)
    for column in cells.values():
        column.extend([_UNSAID] * (len(numbers) - len(column)))
    return place, numbers, cells


def _of_lines(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    # Unicode has more line ends than one, which may stand inside a text.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            content = read_json_value(line)
        except ValueError as error:
            with suppress(ValueError):
                whole = read_json_value(text)
                keys = ", ".join(shown(key) for key in list(whole)[:6])
                raise BadInput(
                    f"cannot read {path}: it is one JSON object, with {keys}, and no kind of "
                    "judgments that is read: write one object a line, or a list of them"
                ) from error
            raise BadInput(f"cannot read {place}: {shown(line)} is not JSON ({error})") from error
        yield number, _object(content, place)


def _of_list(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, record in enumerate(read_whole_json(text, path), 1):
        yield number, _object(record, f"{path}, record {number}")


def _object(content: Any, place: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise BadInput(
            f"cannot read {place}: {shown(str(content))} is {kind_of(content)}, not an object: "
            'write {"query": …, "doc_id": …, "grade": …}'
        )
    return content


def _is_same(first: object, other: object) -> bool:
    """Whether two values are one: True is no 1, though Python thinks so."""
    return bool(first == other) and isinstance(first, bool) == isinstance(other, bool)


def _texts(values: list[Any], role: str, place: str, numbers: Sequence[int]) -> list[str]:
    """Ids, queries or grades as they stand in the lines."""
    expected = ("a number",) if role in _OF_NUMBERS else ()
    texts = []
    for number, value in zip(numbers, values, strict=True):
        try:
            if value is None or value is _UNSAID:
                texts.append("")
            elif expected and isinstance(value, float):
                texts.append(repr(value))
            else:
                texts.append(as_id(value, *expected))
        except ValueError as error:
            raise BadInput(f"cannot read {place} {number}: the {role} {error}") from error
    return texts


def _params(values: list[Any], queries: Sequence[str]) -> Any:
    """The parameter of each line: where it says none, what another line of its query does."""
    said: dict[str, Any] = {}
    for query, value in zip(queries, values, strict=True):
        if value is not _UNSAID:
            said.setdefault(query, value)
    pairs = zip(queries, values, strict=True)
    filled = [said.get(query) if value is _UNSAID else value for query, value in pairs]
    if all(value is None or isinstance(value, str) for value in filled):
        return text_column(filled)
    return distinct_values(filled)


def _number(value: float | np.float32) -> Any:
    """The shortest decimal, a whole one as an integer."""
    return whole_numbers([float(decimal(value))])[0]


def _written(columns: dict[str, Any]) -> bytes:
    import pyarrow.parquet as pq

    file = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), file)
    return bytes(file.getvalue())


def _table(path: Path) -> Any:
    """All columns of a file, their buffers and texts checked."""
    batches, size = [], 0
    with open_columns(path) as file:
        if DATASET_KEY in (file.schema.metadata or {}):
            raise BadInput(
                f"cannot read {path}: it is a dataset of owpc-ltr, whose queries have features "
                "already: train on it, or name the judgments that it was logged from"
            )
        for batch in file.batches():
            size += batch.nbytes
            if size > _LARGEST:
                raise BadInput(
                    f"cannot read {path}: it is larger than {_LARGEST >> 20} MiB; cut it"
                )
            batches.append(batch)
        # Columns of categories were written out.
        return pa.Table.from_batches(batches, batches[0].schema if batches else file.schema)


def _converted(path: Path, name: str, role: str | None, column: pa.ChunkedArray) -> Any:
    """The column as its role needs it: text, numbers where it holds grades, typed parameters."""
    types, kind = pa.types, column.type
    text, none = types.is_string(kind) or types.is_large_string(kind), types.is_null(kind)
    view, exact = types.is_string_view(kind), types.is_decimal(kind)
    if role in _OF_NUMBERS:
        worded = role == "grade" and (text or view)
        fits, expected = _is_number(kind) or exact or worded, "a number"
    elif role is not None:
        fits, expected = text or view or types.is_integer(kind), "text or whole numbers"
    else:
        dated = types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind)
        fits, expected = (
            exact or dated or view or _is_json(kind),
            (
                "text, numbers, dates or true/false, or lists and objects of text, numbers and "
                "true/false"
            ),
        )
    if not fits and not none:
        raise BadInput(
            f"cannot read {path}: the column {shown(name)} is {kind}, and must be {expected}: cast "
            "it"
        )
    if role in _OF_NUMBERS:
        if worded:
            return column.cast(pa.string())
        return column.cast(pa.float64()) if exact or none or types.is_float16(kind) else column
    if role is None and not text and not none and _is_json(kind):
        return _typed(column.combine_chunks())
    if types.is_timestamp(kind):
        # The form of ISO 8601 that engines read as dates, without empty fractions.
        joined = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
        return pc.replace_substring_regex(joined, r"\.0+(Z|[+-][0-9:]+)?$", r"\1")
    return column if text else column.cast(pa.string())


def _is_json(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type have a place in JSON: numbers, text, lists, objects."""
    types = pa.types
    if _is_list(kind):
        return _is_json(kind.value_type)
    if types.is_struct(kind):
        return all(_is_json(kind.field(number).type) for number in range(kind.num_fields))
    text = types.is_string(kind) or types.is_large_string(kind)
    return text or _is_number(kind) or types.is_boolean(kind) or types.is_null(kind)


def _typed(values: pa.Array) -> TypedColumn:
    """The values of a column of such a type, each different one made a Python value once.

    Floats of 32 bits have their shortest decimals, and whole ones alone in their cell are integers.
    """
    kind = values.type
    if _is_number(kind) or pa.types.is_boolean(kind):
        encoded = values.dictionary_encode()
        return _by_code(encoded, whole_numbers(_decimals(encoded.dictionary)))
    if not (_is_list(kind) and _is_number(kind.value_type)) or values.flatten().null_count:
        return distinct_values(values.to_pylist())
    # Vectors are told apart by their bytes.
    flat = np.ascontiguousarray(values.flatten().to_numpy(zero_copy_only=False))
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = np.append(0, np.cumsum(lengths, dtype=np.int64)) * flat.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(flat)]
    as_bytes = pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
    encoded = pc.if_else(values.is_null(), None, as_bytes).dictionary_encode()
    vectors = encoded.dictionary.to_pylist()
    return _by_code(encoded, [_decimals(pa.array(np.frombuffer(v, flat.dtype))) for v in vectors])


def _by_code(encoded: pa.DictionaryArray, values: list[Any]) -> TypedColumn:
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), len(values))
    return TypedColumn(codes.to_numpy(zero_copy_only=False), [*values, None])


def _decimals(values: pa.Array) -> list[Any]:
    """The numbers, each float by the shortest decimal that is it in its own precision."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if pa.types.is_float32(values.type):
        values = values.cast(pa.string()).cast(pa.float64())
    numbers: list[Any] = values.to_pylist()
    return numbers


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
