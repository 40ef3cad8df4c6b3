"""Judgment lists as columns: Parquet, and Arrow's IPC files (Feather).

Columns have the roles that a CSV header gives them. Ids are text or whole numbers, grades and
weights numbers of any kind; further columns are parameters of the query. Numbers, true and false,
lists (a query's vector) and objects keep their types; dates and times (both ISO 8601) and decimals
are text. A null is no parameter. Errors name the row, from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import JudgmentLines, Judgments
from owpc_ltr.data.judgments.grouping import IMPORTANCE, JUDGED_BY, WEIGHT
from owpc_ltr.data.judgments.lines import (
    Column,
    TypedColumn,
    decode,
    distinct_values,
    table_column,
    whole_numbers,
)
from owpc_ltr.data.judgments.tables import (
    find_roles,
    further_params,
    lines_by_role,
    optional_columns,
)
from owpc_ltr.data.parquet.writing import DATASET_KEY
from owpc_ltr.errors import BadInput
from owpc_ltr.files.columnar import ARROW, PARQUET, open_columns
from owpc_ltr.files.input import shown
from owpc_ltr.protocols import JudgmentReader

_LARGEST = 1 << 30
_OF_NUMBERS = ("grade", WEIGHT, IMPORTANCE)
_OPTIONAL_TYPES = {WEIGHT: pa.float32(), IMPORTANCE: pa.float64(), JUDGED_BY: pa.string()}


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
        """The judgments; columns of text are the file's own. `topics` as for csv."""
        table, names = _table(path)
        if DATASET_KEY in (table.schema.metadata or {}):
            raise BadInput(
                f"cannot read {path}: it is a dataset of owpc-ltr, whose queries have features "
                "already: train on it, or name the judgments that it was logged from"
            )
        roles = find_roles(names, path, topics is not None, "its columns", columns=columns)
        if not len(table):
            raise BadInput(f"cannot read {path}: it has columns, and no row")
        role_of = {column: role for role, column in roles.items()}
        values = [
            _converted(path, name, role_of.get(index), table.column(index))
            for index, name in enumerate(names)
        ]
        numbers = range(1, len(table) + 1)
        return lines_by_role(
            path, numbers, names=names, values=values, roles=roles, topics=topics, place="row"
        )

    def to_bytes(self, judgments: Judgments) -> bytes:
        """The same columns; parameters that are not text are JSON, in columns named `…:json`."""
        return _written(_columns(judgments))

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
    """Offer the format `parquet`."""
    return [Parquet]


def _written(columns: dict[str, Any]) -> bytes:
    import pyarrow.parquet as pq

    file = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), file)
    return bytes(file.getvalue())


def _columns(judgments: Judgments) -> dict[str, Any]:
    """The columns of judgments, those of weights and judges only where any are said."""
    queries = judgments.queries
    rows = np.repeat(np.arange(len(queries)), [len(query.doc_ids) for query in queries])
    grades = np.concatenate([query.grades for query in queries])
    columns = {
        "query_id": decode(rows, [query.query_id for query in queries]),
        "query": decode(rows, [query.params.get("query", "") for query in queries]),
        "doc_id": pa.array(chain.from_iterable(query.doc_ids for query in queries), pa.string()),
        "grade": pa.array(grades, pa.float32()),
    }
    for name, values in optional_columns(queries).items():
        columns[name] = pa.array(values, _OPTIONAL_TYPES[name])
    for param in further_params(judgments):
        name, cells = table_column(param, [query.params.get(param) for query in queries])
        columns[name] = decode(rows, cells)
    return columns


def _table(path: Path) -> tuple[Any, list[str]]:
    """All columns, their buffers and texts checked, and their names."""
    batches, size = [], 0
    with open_columns(path) as file:
        for batch in file.batches():
            size += batch.nbytes
            if size > _LARGEST:
                raise BadInput(
                    f"cannot read {path}: it is larger than {_LARGEST >> 20} MiB; cut it"
                )
            batches.append(batch)
        # Columns of categories were written out.
        schema = batches[0].schema if batches else file.schema
        schema = schema.with_metadata(file.schema.metadata)
        return pa.Table.from_batches(batches, schema), schema.names


def _converted(path: Path, name: str, role: str | None, column: Any) -> Any:
    """The column as its role needs it: text, numbers where it holds grades, typed parameters."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    fits, expected = _fitting(role, kind)
    if not fits:
        raise BadInput(
            f"cannot read {path}: the column {shown(name)} is {kind}, and must be {expected}: cast "
            "it"
        )
    if role in _OF_NUMBERS:
        exotic = pa.types.is_decimal(kind) or pa.types.is_float16(kind) or pa.types.is_null(kind)
        return column.cast(pa.float64()) if exotic else column
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if role is None and not text and not pa.types.is_null(kind) and is_json_type(kind):
        return typed_values(column)
    if pa.types.is_timestamp(kind):
        return _moments(column)
    return column if text else column.cast(pa.string())


def _moments(column: Any) -> Any:
    """Times in the form of ISO 8601 that engines read as dates, without empty fractions."""
    joined = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    return pc.replace_substring_regex(joined, r"\.0+(Z|[+-][0-9:]+)?$", r"\1")


def _fitting(role: str | None, kind: Any) -> tuple[bool, str]:
    """Whether a type can have the role, and which types can."""
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    whole = types.is_integer(kind)
    number = whole or types.is_floating(kind) or types.is_decimal(kind)
    if types.is_null(kind):
        return True, "anything"
    if role in _OF_NUMBERS:
        return number, "a number"
    if role is not None:
        return text or whole, "text or whole numbers"
    dated = types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind)
    typed = is_json_type(kind)
    return text or number or dated or typed, (
        "text, numbers, dates or true/false, or lists and objects of text, numbers and true/false"
    )


def is_json_type(kind: Any) -> bool:
    """Whether values of an Arrow type have a place in JSON: numbers, text, lists, objects."""
    if _is_list(kind):
        return is_json_type(kind.value_type)
    if pa.types.is_struct(kind):
        return all(is_json_type(kind.field(number).type) for number in range(kind.num_fields))
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return text or _is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)


def typed_values(column: Column) -> TypedColumn:
    """The values of a column of such a type, a null being none.

    Each different one is made a Python value once. Floats of 32 bits have their shortest decimals,
    and whole ones alone in their cell are integers.
    """
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = values.type
    if _is_number(kind) or pa.types.is_boolean(kind):
        return _scalars(values)
    if _is_list(kind) and _is_number(kind.value_type) and not values.flatten().null_count:
        return _vectors(values)
    return distinct_values(values.to_pylist())


def _scalars(values: Any) -> TypedColumn:
    encoded = values.dictionary_encode()
    numbers = whole_numbers(_decimals(encoded.dictionary))
    return TypedColumn(_codes(encoded.indices, len(numbers)), [*numbers, None])


def _vectors(values: Any) -> TypedColumn:
    """Lists of numbers, told apart by their bytes."""
    flat = np.ascontiguousarray(values.flatten().to_numpy(zero_copy_only=False))
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = np.append(0, np.cumsum(lengths, dtype=np.int64)) * flat.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(flat)]
    as_bytes = pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
    encoded = as_bytes.dictionary_encode()
    vectors = [
        _decimals(pa.array(np.frombuffer(content, flat.dtype)))
        for content in encoded.dictionary.to_pylist()
    ]
    codes = _codes(encoded.indices, len(vectors))
    codes[values.is_null().to_numpy(zero_copy_only=False)] = len(vectors)
    return TypedColumn(codes, [*vectors, None])


def _codes(indices: Any, of_nulls: int) -> Any:
    return pc.fill_null(indices.cast(pa.int64()), of_nulls).to_numpy(zero_copy_only=False).copy()


def _decimals(values: Any) -> list[Any]:
    """The numbers, each float by the shortest decimal that is it in its own precision."""
    kind = values.type
    if pa.types.is_float16(kind):
        values, kind = values.cast(pa.float32()), pa.float32()
    if pa.types.is_float32(kind):
        values = values.cast(pa.string()).cast(pa.float64())
    numbers: list[Any] = values.to_pylist()
    return numbers


def _is_list(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
