"""Logs of clicks in files and tables, read in batches: CSV, TSV, JSON lines, Parquet, Arrow."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import bad_line_of, line_blocks, open_bytes, read_head, shown
from owpc_ltr.files.strict_json import Json, json_lines, json_text
from owpc_ltr.files.tables import ARROW, MOST_COLUMNS, PARQUET, open_columns
from owpc_ltr_clicks.cleaning import KNOWN

_ROWS = 1 << 18
_LINES = 1 << 16
_LONGEST_HEADER = 1 << 20
JsonObject = Mapping[str, Any]


def find_columns(names: Sequence[str], columns: Mapping[str, str], place: str) -> dict[str, str]:
    """The column of each role: the given one, else the first known name that exists.

    Raises BadInput where a column that is given or needed does not exist.
    """
    have = set(names)
    roles: dict[str, str] = {}
    for role, known in KNOWN.items():
        candidates = [columns[role]] if role in columns else known
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
                f"`columns={{'{role}': COLUMN}}`; {_of(names)}"
            )
    if not {"session", "client", "search"} & set(roles):
        raise BadInput(
            f"cannot read {place}: no column says whose events these are: name it as "
            f"`columns={{'session': COLUMN}}` (or client, or search); {_of(names)}"
        )
    return roles


def _of(names: Sequence[str]) -> str:
    some = ", ".join(shown(name) for name in names[:20])
    return f"it has {some}{' …' if len(names) > 20 else ''}"


@dataclass(frozen=True)
class EventBatch:
    """Some events as columns: an Arrow array per role, all of one length.

    `lost` counts events that are not in them, as they cannot be used, by reason. The column
    `unlinked` says why an event has no query, where that is known. `early` counts events that are
    stamped before their query.
    """

    columns: Mapping[str, pa.Array]
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


def table_events(table: pa.Table, columns: Mapping[str, str]) -> Iterator[EventBatch]:
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
                table = _parsed_lines(path, line, block, names, delimiter, columns=used)
                yield _roles(table, roles, str(path))


def _json_batches(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    """The objects of a file, one a line. Raises BadInput, with its number, for a line that is none.

    A role has the first of its names that an object has, also where later lines bring it.
    """
    roles: dict[str, str] = {}
    lines = (row for _, row in json_lines(path, appended=True))
    while rows := list(islice(lines, _LINES)):
        known = {name: None for row in rows for name in _json_paths(row)}
        names = [*dict.fromkeys([*roles.values(), *known])]
        roles = find_columns(names, columns, str(path)) | roles
        texts = {
            role: pa.array([_text(_value(row, name)) for row in rows], pa.string())
            for role, name in roles.items()
        }
        yield EventBatch(texts)


def _names(schema: pa.Schema) -> list[str]:
    """The names of all columns; fields of objects with the path to them."""
    return [path for column in schema for path in _paths(column)]


def _paths(column: pa.Field, above: str = "") -> list[str]:
    name = f"{above}{column.name}"
    if not pa.types.is_struct(column.type):
        return [name]
    fields = [column.type.field(i) for i in range(column.type.num_fields)]
    return [path for field in fields for path in _paths(field, f"{name}.")]


def _roles(batch: pa.RecordBatch, roles: Mapping[str, str], place: str) -> EventBatch:
    """The columns by role."""
    return EventBatch(
        {role: _plain(_column(batch, name), role, name, place) for role, name in roles.items()}
    )


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray:
    if name in batch.schema.names:
        return batch.column(name)
    first, *path = name.split(".")
    column = batch.column(first)
    for part in path:
        column = pc.struct_field(column, part)
    return column


def _plain(column: pa.Array | pa.ChunkedArray, role: str, name: str, place: str) -> pa.Array:
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
        raise BadInput(f"{place}: {shown(text)} is not a header that names columns")
    delimiter = "\t" if "\t" in text else ","
    try:
        names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter))]
    except csv.Error as error:
        raise BadInput(f"{place}: the header cannot be read: {error}") from error
    if len(names) > MOST_COLUMNS:
        raise BadInput(f"{place}: {len(names)} columns, more than {MOST_COLUMNS}: cut it")
    return names, delimiter, line + 1, block[end:]


def _parsed_lines(
    path: Path,
    line: int,
    block: bytes,
    names: Sequence[str],
    delimiter: str,
    *,
    columns: Sequence[str],
) -> Any:
    """Some `columns` of a block. Raises BadInput for a line that is no text, or no row."""
    import pyarrow.csv

    bad: list[Any] = []

    def first(row: Any) -> str:
        bad.append(row)
        return "error"

    try:
        block.decode()
        table = pyarrow.csv.read_csv(
            pa.BufferReader(block),
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=names
            ),
            pyarrow.csv.ParseOptions(
                delimiter=delimiter, invalid_row_handler=first, newlines_in_values=True
            ),
            pyarrow.csv.ConvertOptions(
                include_columns=columns,
                column_types=dict.fromkeys(columns, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    except (UnicodeDecodeError, pa.ArrowException) as error:
        if not bad:
            raise bad_line_of(path, line, block) from error
        number = line + block.count(b"\n", 0, block.find(bad[0].text.encode()))
        raise BadInput(
            f"cannot read {path}, line {number}: {bad[0].actual_columns} cells, where the header "
            f"has {len(names)}: correct or delete the line"
        ) from error
    return table.combine_chunks()


def _json_paths(row: JsonObject, above: str = "") -> Iterator[str]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _json_paths(value, f"{above}{name}.")
        elif value is not None:
            yield f"{above}{name}"


def _value(row: JsonObject, name: str) -> Any:
    """What stands under a whole name, or where its dots lead; an object says nothing."""
    value: Any = row.get(name)
    if value is None and "." in name:
        value = row
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    return None if isinstance(value, dict) else value


def _text(value: Json) -> str | None:
    if type(value) is int:
        return str(value)
    return value if value is None or isinstance(value, str) else json_text(value)
