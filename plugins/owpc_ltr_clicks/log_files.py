"""Logs of clicks in files and tables, read in batches: CSV, TSV, JSON lines, Parquet, Arrow."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.errors import BadInput
from owpc_ltr.files.columnar import ARROW, MOST_COLUMNS, PARQUET, open_columns
from owpc_ltr.files.input import bad_line_of, line_blocks, open_bytes, read_head, shown
from owpc_ltr_clicks.cleaning import KNOWN
from owpc_ltr_clicks.json_log import ObjectBlocks, names_of, sample_of

_ROWS = 1 << 18
_LONGEST_HEADER = 1 << 20


def find_columns(names: Sequence[str], given: Mapping[str, str], place: str) -> dict[str, str]:
    """The column of each role: the given one, else the first known name that exists.

    Raises BadInput where a column that is given or needed does not exist.
    """
    have = set(names)
    found: dict[str, str] = {}
    for role, known in KNOWN.items():
        wanted = [given[role]] if role in given else known
        column = next((name for name in wanted if name in have), None)
        if column is not None:
            if names.count(column) > 1:
                raise BadInput(
                    f"cannot read {place}: it has two columns {shown(column)}: rename one"
                )
            found[role] = column
        elif role in given:
            raise BadInput(
                f"cannot read {place}: it has no column {shown(given[role])}: {_of(names)}"
            )
    listed = "shown" in found
    for role in ("query", *(() if listed else ("document", "position", "action"))):
        if role not in found:
            raise BadInput(
                f"cannot read {place}: no column says the {role}: name it as "
                f"--columns {role}=COLUMN; {_of(names)}"
            )
    if not {"session", "client", "search"} & set(found):
        raise BadInput(
            f"cannot read {place}: no column says whose events these are: name it as "
            f"--columns session=COLUMN (or client, or search); {_of(names)}"
        )
    return found


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
    found = find_columns(_names(table.schema), columns, "the table")
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield _roles(batch, found, "the table")


def _column_batches(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    with open_columns(path) as file:
        found = find_columns(_names(file.schema), columns, str(path))
        for batch in file.batches(list(dict.fromkeys(found.values()))):
            yield _roles(batch, found, str(path))


def _text_batches(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    table: DelimitedBlocks | None = None
    found: dict[str, str] = {}
    with open_bytes(path) as source:
        for first, content in line_blocks(source, quoted=True):
            line, block = first, content
            if table is None:
                if not content.strip():
                    continue
                table, line, block = DelimitedBlocks.begin(path, first, content)
                found = find_columns(table.names, columns, str(path))
            if not block.strip():
                continue
            batch, unreadable = table.read(line, block, list(dict.fromkeys(found.values())))
            yield _roles(batch, found, str(path), unreadable)


def _json_batches(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    objects: ObjectBlocks | None = None
    found: dict[str, str] = {}
    names = [[columns[role]] if role in columns else known for role, known in KNOWN.items()]
    with open_bytes(path) as source:
        for line, block in line_blocks(source):
            if objects is None:
                sample = sample_of(path, line, block, names)
                if not sample:  # not one line is an object yet
                    yield EventBatch({}, sum(1 for one in block.split(b"\n") if one.strip()))
                    continue
                found = find_columns(names_of(path, sample), columns, str(path))
                objects = ObjectBlocks(path, found, sample)
            batch, unreadable = objects.read(line, block)
            yield _roles(batch, found, str(path), unreadable)


def _names(schema: Any) -> list[str]:
    """The names of all columns; fields of objects with the path to them."""
    found: list[str] = []
    for column in schema:
        found += _paths(column)
    return found


def _paths(field: Any, above: str = "") -> list[str]:
    name = f"{above}{field.name}"
    if not pa.types.is_struct(field.type):
        return [name]
    inner = [field.type.field(i) for i in range(field.type.num_fields)]
    return [path for one in inner for path in _paths(one, f"{name}.")]


def _roles(batch: Any, found: Mapping[str, str], place: str, unreadable: int = 0) -> EventBatch:
    """The columns by role; a column that a batch lacks is all null."""
    columns = {
        role: _plain(_column(batch, name), role, name, place) for role, name in found.items()
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


@dataclass(frozen=True)
class DelimitedBlocks:
    """CSV or TSV in blocks of lines: the column names of its header, and the delimiter."""

    path: Path
    names: tuple[str, ...]
    delimiter: str

    @classmethod
    def begin(cls, path: Path, line: int, block: bytes) -> tuple[DelimitedBlocks, int, bytes]:
        """The table, and the line number and content after its header. Raises BadInput."""
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
        return cls(path, tuple(names), delimiter), line + 1, block[end:]

    def read(self, line: int, block: bytes, wanted: Sequence[str]) -> tuple[Any, int]:
        """The `wanted` columns of a block, and the number of lines with too few or many cells.

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
                    use_threads=False, block_size=len(block) + 1, column_names=self.names
                ),
                pyarrow.csv.ParseOptions(
                    delimiter=self.delimiter, invalid_row_handler=skip, newlines_in_values=True
                ),
                pyarrow.csv.ConvertOptions(
                    include_columns=wanted,
                    column_types=dict.fromkeys(wanted, pa.string()),
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            )
        except (UnicodeDecodeError, pa.ArrowException) as error:
            raise bad_line_of(self.path, line, block) from error
        return table.combine_chunks(), bad
