"""Logs of clicks in files and tables, read in batches: CSV, TSV, JSON lines, Parquet, Arrow."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.errors import BadInput
from owpc_ltr.files.columnar import ARROW, MOST_COLUMNS, PARQUET, open_columns
from owpc_ltr.files.input import bad_line_of, line_blocks, open_bytes, read_head, shown
from owpc_ltr.files.strict_json import DEEPEST_NESTING, NoJson, json_text, kind_of, read_json_value
from owpc_ltr_clicks.cleaning import KNOWN

_ROWS = 1 << 18
_LONGEST_HEADER = 1 << 20
_SAMPLE = 1 << 17
_WITH_DECIMALS = frozenset({"position", "time"})
"""Roles whose numbers may be rounded, as they are no ids."""
JsonObject = Mapping[str, Any]


def find_columns(names: Sequence[str], columns: Mapping[str, str], place: str) -> dict[str, str]:
    """The column of each role: the given one, else the first known name that exists.

    Raises BadInput where a column that is given or needed does not exist.
    """
    have = set(names)
    roles: dict[str, str] = {}
    for role, candidates in _candidates(columns).items():
        column = next((name for name in candidates if name in have), None)
        if column is not None:
            if names.count(column) > 1:
                raise BadInput(
                    f"cannot read {place}: it has two columns {shown(column)}: rename one"
                )
            roles[role] = column
        elif role in columns:
            raise BadInput(
                f"cannot read {place}: it has no column {shown(columns[role])}: {_of(names)}"
            )
    listed = "shown" in roles
    for role in ("query", *(() if listed else ("document", "position", "action"))):
        if role not in roles:
            raise BadInput(
                f"cannot read {place}: no column says the {role}: name it as "
                f"--columns {role}=COLUMN; {_of(names)}"
            )
    if not {"session", "client", "search"} & set(roles):
        raise BadInput(
            f"cannot read {place}: no column says whose events these are: name it as "
            f"--columns session=COLUMN (or client, or search); {_of(names)}"
        )
    return roles


def _candidates(columns: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """The names that the column of each role may have."""
    return {role: [columns[role]] if role in columns else KNOWN[role] for role in KNOWN}


def _of(names: Sequence[str]) -> str:
    some = ", ".join(shown(name) for name in names[:20])
    return f"it has {some}{' …' if len(names) > 20 else ''}"


@dataclass(frozen=True)
class EventBatch:
    """Some events as columns: an Arrow array per role, all of one length.

    `unreadable` counts the lines that are not in them, `lost` other events that cannot be used, by
    reason. The column `unlinked` says why an event has no query, where that is known. `early`
    counts events that are stamped before their query.
    """

    columns: Mapping[str, pa.Array]
    unreadable: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    early: int = 0

    @property
    def n_events(self) -> int:
        """The number of events that could be read."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def read_events(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    """The events of a file in its order; `columns` maps roles to column names.

    Raises BadInput for a file of another kind, a damaged one, or one without a needed column.
    """
    head = read_head(path)
    if not head.strip():
        raise BadInput(f"cannot read {path}: it is empty")
    if head.startswith((PARQUET, ARROW)):
        yield from _column_batches(path, columns)
    elif head.lstrip()[:1] == b"{":
        yield from _json_batches(path, columns)
    else:
        yield from _text_batches(path, columns)


def table_events(table: Any, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    """The events of an Arrow table."""
    roles = find_columns(_names(table.schema), columns, "the table")
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield _roles(batch, roles, "the table")


def _column_batches(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    with open_columns(path) as file:
        roles = find_columns(_names(file.schema), columns, str(path))
        for batch in file.batches(list(dict.fromkeys(roles.values()))):
            yield _roles(batch, roles, str(path))


def _text_batches(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    with open_bytes(path) as source:
        blocks = line_blocks(source, quoted=True)
        first = next((line, block) for line, block in blocks if block.strip())
        names, delimiter, first_line, first_block = _header(path, *first)
        roles = find_columns(names, columns, str(path))
        used = list(dict.fromkeys(roles.values()))
        for line, block in chain([(first_line, first_block)], blocks):
            if block.strip():
                table, unreadable = _parsed_lines(path, line, block, names, delimiter, columns=used)
                yield _roles(table, roles, str(path), unreadable)


def _json_batches(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    """The lines of a file, none of which need be an object.

    Raises BadInput, naming the line, for what JSON readers disagree on: a repeated key, a number
    that is not finite, a lone surrogate, deep nesting.
    """
    roles: dict[str, str] = {}
    schema: pa.Schema | None = None
    with open_bytes(path) as source:
        for line, block in line_blocks(source):
            if not roles:
                sample = _sample(path, line, block, columns)
                if not sample:  # not one line is an object yet
                    yield EventBatch({}, sum(1 for text in block.split(b"\n") if text.strip()))
                    continue
                roles = find_columns(_keys(path, sample), columns, str(path))
                schema = _schema_of(sample, roles)
            table, unreadable = _parsed_objects(path, line, block, schema), 0
            if table is None:
                # A line that is no object, or a column of two types: scalars are read as text.
                rows, unreadable = _objects(path, line, block)
                schema = _schema_of(rows, roles)
                texts = {
                    name: pa.array([_text(_value(row, name)) for row in rows], pa.string())
                    for name in dict.fromkeys(roles.values())
                }
                table = pa.table(texts)
            yield _roles(table, roles, str(path), unreadable)


def _names(schema: Any) -> list[str]:
    """The names of all columns; fields of objects with the path to them."""
    return [path for column in schema for path in _paths(column)]


def _paths(column: Any, above: str = "") -> list[str]:
    name = f"{above}{column.name}"
    if not pa.types.is_struct(column.type):
        return [name]
    fields = [column.type.field(i) for i in range(column.type.num_fields)]
    return [path for field in fields for path in _paths(field, f"{name}.")]


def _roles(batch: Any, roles: Mapping[str, str], place: str, unreadable: int = 0) -> EventBatch:
    """The columns by role; a column that a batch lacks is all null."""
    columns = {
        role: _plain(_column(batch, name), role, name, place) for role, name in roles.items()
    }
    return EventBatch(columns, unreadable)


def _column(batch: Any, name: str) -> Any:
    if name in batch.schema.names:
        return batch.column(name)
    first, *path = name.split(".")
    if first not in batch.schema.names:
        return pa.nulls(len(batch))
    column = batch.column(first)
    for part in path:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(part) < 0:
            return pa.nulls(len(batch))
        column = pc.struct_field(column, part)
    return column


def _plain(column: Any, role: str, name: str, place: str) -> pa.Array:
    """A column as text; result lists as lists of text, times unchanged."""
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(kind):
        # Arrow takes no string views out of categories, as polars has them.
        words = column.dictionary
        words = words.cast(pa.string()) if pa.types.is_string_view(words.type) else words
        column = words.take(column.indices)
        kind = column.type
    types = pa.types
    if types.is_string(kind) or (role == "time" and types.is_temporal(kind)):
        return column
    if role == "shown" and (types.is_list(kind) or types.is_large_list(kind)):
        return column.cast(pa.list_(pa.string()))
    if types.is_nested(kind) or types.is_binary(kind):
        raise BadInput(
            f"cannot read {place}: the column {shown(name)} is {kind}, and is to say the {role}: "
            "name a column of text or numbers"
        )
    return column.cast(pa.string())


def _header(path: Path, line: int, block: bytes) -> tuple[list[str], str, int, bytes]:
    """The column names and the delimiter of CSV or TSV, and the line and content after the header.

    Raises BadInput.
    """
    blank = len(block) - len(block.lstrip(b"\r\n"))
    line, block = line + block.count(b"\n", 0, blank), block[blank:]
    end = block.find(b"\n") + 1 or len(block)
    header, place = block[:end], f"cannot read {path}, line {line}"
    try:
        text = header.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise bad_line_of(path, line, header) from error
    if "\r" in text:
        raise BadInput(f"{place}: its lines end in CR alone: save the file with line feeds")
    if len(text) > _LONGEST_HEADER or "\0" in text:
        raise BadInput(f"{place}: {shown(text)} is no header that names columns")
    delimiter = "\t" if "\t" in text else ","
    try:
        names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter))]
    except csv.Error as error:
        raise BadInput(f"{place}: the header cannot be read: {error}") from error
    if len(names) > MOST_COLUMNS:
        raise BadInput(f"{place}: {len(names)} columns, more than {MOST_COLUMNS}: cut it")
    return names, delimiter, line + 1, block[end:]


def _parsed_lines(
    path: Path, line: int, block: bytes, names: Sequence[str], delimiter: str,
    *, columns: Sequence[str],
) -> tuple[Any, int]:  # fmt: skip
    """Some `columns` of a block, and the number of lines with too few or many cells.

    Raises BadInput where a line is no UTF-8 text.
    """
    import pyarrow.csv

    bad = 0

    def skip(_row: Any) -> str:
        nonlocal bad
        bad += 1
        return "skip"

    try:
        block.decode()
        table = pyarrow.csv.read_csv(
            pa.BufferReader(block),
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=names
            ),
            pyarrow.csv.ParseOptions(
                delimiter=delimiter, invalid_row_handler=skip, newlines_in_values=True
            ),
            pyarrow.csv.ConvertOptions(
                include_columns=columns,
                column_types=dict.fromkeys(columns, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    except (UnicodeDecodeError, pa.ArrowException) as error:
        raise bad_line_of(path, line, block) from error
    return table.combine_chunks(), bad


def _sample(path: Path, line: int, block: bytes, columns: Mapping[str, str]) -> list[JsonObject]:
    """The objects at the beginning of a block, to infer columns and types from.

    For each role that none of them has, also the first later object that names it.
    """
    begin = block.rfind(b"\n", 0, _SAMPLE) + 1 or len(block)
    rows, _ = _objects(path, line, block[:begin])
    have = {name for row in rows for name in _json_paths(row)}
    roles = _candidates(columns).values()
    for name in (name for names in roles if have.isdisjoint(names) for name in names):
        last = name.rpartition(".")[2]
        place = block.find(f'"{last}"'.encode(), begin)
        if place >= 0:
            start, end = block.rfind(b"\n", 0, place) + 1, block.find(b"\n", place) + 1
            number = line + block.count(b"\n", 0, start)
            rows += _objects(path, number, block[start : end or len(block)])[0]
    return rows


def _keys(path: Path, rows: Sequence[JsonObject]) -> list[str]:
    """The keys of objects, each with its whole path. Raises BadInput for too many of them."""
    keys: dict[str, None] = {}
    for row in rows:
        keys.update(dict.fromkeys(_json_paths(row)))
        if len(keys) > MOST_COLUMNS:
            raise BadInput(
                f"cannot read {path}: its lines have more than {MOST_COLUMNS} different keys: "
                "leave out those that are not needed"
            )
    return list(keys)


def _parsed_objects(
    path: Path, line: int, block: bytes, schema: pa.Schema | None
) -> pa.Table | None:
    """The table as Arrow parses it; None where it cannot, or should not."""
    import pyarrow.json

    if schema is None or not _is_plain(block):
        return None
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    # Columns without a role are not built: there may be as many as there are lines.
    only = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        table = pyarrow.json.read_json(pa.BufferReader(block), options, only)
    except pa.ArrowException:
        return None
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        raise bad_line_of(path, line, block) from error
    return table


def _schema_of(rows: Sequence[JsonObject], roles: Mapping[str, str]) -> pa.Schema | None:
    """The types of the columns that have a role; None where one has two types."""
    fields: dict[str, Any] = {}
    for role, name in roles.items():
        kind = _type_of([_value(row, name) for row in rows], role)
        whole = any(name in row for row in rows)
        apart = not whole or any(_value(row, name, whole=False) is not None for row in rows)
        if kind is None or ("." in name and whole and apart):
            return None
        inner = fields
        *above, last = [name] if whole else name.split(".")
        for part in above:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                return None
        if last in inner and inner[last] != kind:
            return None
        inner[last] = kind
    return pa.schema(_fields(fields))


def _objects(path: Path, line: int, block: bytes) -> tuple[list[JsonObject], int]:
    """The objects of a block, and how many lines are none."""
    rows: list[JsonObject] = []
    bad = 0
    for number, text in enumerate(block.split(b"\n"), line):
        if not text.strip():
            continue
        try:
            content = read_json_value(text.decode())
        except UnicodeDecodeError as error:
            raise bad_line_of(path, number, text) from error
        except NoJson:
            content = None
        except ValueError as error:
            raise BadInput(f"cannot read {path}, line {number}: {error}") from error
        if isinstance(content, dict):
            rows.append(content)
        else:
            bad += 1
    return rows, bad


def _json_paths(row: JsonObject, above: str = "") -> Iterator[str]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _json_paths(value, f"{above}{name}.")
        elif value is not None:
            yield f"{above}{name}"


def _value(row: JsonObject, name: str, whole: bool = True) -> Any:
    """What stands under a whole name, or where its dots lead; an object says nothing."""
    value: Any = row.get(name) if whole else None
    if value is None and "." in name:
        value = row
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    return None if isinstance(value, dict) else value


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json_text(value)


def _type_of(values: Sequence[Any], role: str) -> Any:
    """Arrow's type of all values, None where there is none."""
    kinds = {kind_of(value) for value in values} - {"null"}
    if kinds == {"a list"} and role == "shown":
        inner = _type_of([item for value in values if value is not None for item in value], "shown")
        return None if inner is None or pa.types.is_nested(inner) else pa.list_(inner)
    if kinds <= {"a text"}:
        return pa.string()
    if kinds != {"a number"}:
        return None
    if not any(isinstance(value, float) for value in values):
        return pa.int64()
    return pa.float64() if role in _WITH_DECIMALS else None


def _fields(types: Mapping[str, Any]) -> list[pa.Field]:
    return [
        pa.field(name, pa.struct(_fields(kind)) if isinstance(kind, dict) else kind)
        for name, kind in types.items()
    ]


def _is_plain(block: bytes) -> bool:
    """Whether each line begins and ends as an object does, and none is nested deep.

    Arrow's reader takes a value for one that goes on in the next line, to any depth of its stack.
    """
    content = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(content == ord("\n"))
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(content))
    starts = np.append(0, ends[:-1] + 1)
    starts, ends = starts[starts < ends], ends[starts < ends]
    last = ends - 1
    last = np.where((content[last] == ord("\r")) & (last > starts), last - 1, last)
    if not ((content[starts] == ord("{")) & (content[last] == ord("}"))).all():
        return False
    opened = (content | 0x20) == ord("{")  # [ too
    if np.count_nonzero(opened) < len(starts) + DEEPEST_NESTING:
        return True
    line = np.searchsorted(ends, np.flatnonzero(opened))
    return not (line[DEEPEST_NESTING:] == line[:-DEEPEST_NESTING]).any()
