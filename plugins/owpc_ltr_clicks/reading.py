"""Logs of behaviour in files, a batch at a time: CSV, TSV, JSON lines, Parquet, Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.errors import BadInput
from owpc_ltr.files.columnar import ARROW, PARQUET, open_columns
from owpc_ltr.files.text import line_blocks, open_bytes, read_head, shown
from owpc_ltr_clicks.columns import KNOWN, find_columns
from owpc_ltr_clicks.delimited_blocks import DelimitedBlocks
from owpc_ltr_clicks.json_blocks import ObjectBlocks, names_of, sample_of

_ROWS = 1 << 18


@dataclass(frozen=True)
class EventBatch:
    """Some events: an Arrow array a role, all of one length; `unreadable` lines are not in them.

    `lost` are others that cannot be used, by reason. The column `unlinked` says why an event has no
    query, where that is known. `early` events are stamped before their query was asked.
    """

    columns: Mapping[str, pa.Array]
    unreadable: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    early: int = 0

    @property
    def n_events(self) -> int:
        """How many there are, without those that could not be read."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def read_events(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    """The events of a file in its order; `columns` names some or none of them, by role.

    Raises BadInput for a file that is of no such kind, is damaged, or lacks what is needed.
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
    """The events of an Arrow table, as a simulation gives it."""
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
    """Every column, and what is in objects under its whole name."""
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
    """The columns by what they say; one that a batch lacks is all null."""
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
    """A column as text, lists of text where results are listed, times as they are."""
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
