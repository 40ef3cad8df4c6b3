"""Logs of behaviour in files, a batch at a time: CSV, TSV, JSON lines, Parquet, Arrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.behaviour.columns import find_columns
from owpc_ltr.behaviour.json_blocks import BLOCK, line_blocks, objects_table
from owpc_ltr.data.judgments.head import first_lines, read_head
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import ByteSource, open_bytes, shown

_ROWS = 1 << 18
_PARQUET, _ARROW = b"PAR1", b"ARROW1"


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
    if head.startswith((_PARQUET, _ARROW)):
        batches = _arrow_batches(path, columns)
    elif head.lstrip()[:1] == b"{":
        batches = _json_batches(path, columns)
    else:
        batches = _text_batches(path, columns, head)
    try:
        yield from batches
    except (pa.ArrowException, UnicodeDecodeError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"cannot read {path}: {shown(why, 160)[1:-1]}: write or fetch it again"
        ) from error


def table_events(table: Any, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    """The events of an Arrow table, as a simulation gives it."""
    found = find_columns(_names(table.schema), columns, "the table")
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield _roles(batch, found, "the table")


class _Inflated(io.RawIOBase):
    """A file's inflated bytes, as Python's own files give them."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._source.readinto(memoryview(buffer).cast("B"))


def _arrow_batches(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    import pyarrow.ipc
    import pyarrow.parquet as pq

    with open_bytes(path, any_content=True) as source:
        packed, magic = source.compressed, memoryview(bytearray(len(_ARROW)))
        source.readinto(magic)
    if packed:
        raise BadInput(f"cannot read {path}: it is packed as a whole; unpack it first")
    file = pa.memory_map(str(path))
    if bytes(magic) == _ARROW:
        arrow = pyarrow.ipc.open_file(file)
        found = find_columns(_names(arrow.schema), columns, str(path))
        for number in range(arrow.num_record_batches):
            yield _roles(arrow.get_batch(number), found, str(path))
        return
    parquet = pq.ParquetFile(file, page_checksum_verification=True)
    found = find_columns(_names(parquet.schema_arrow), columns, str(path))
    for batch in parquet.iter_batches(
        batch_size=_ROWS, columns=list(dict.fromkeys(found.values()))
    ):
        yield _roles(batch, found, str(path))


def _text_batches(path: Path, columns: Mapping[str, str], head: bytes) -> Iterator[EventBatch]:
    import pyarrow.csv

    first = (first_lines(head) or [""])[0]
    delimiter = "\t" if "\t" in first else ","
    names = next(csv.reader([first], delimiter=delimiter))
    found = find_columns(names, columns, str(path))
    wanted = list(dict.fromkeys(found.values()))
    bad = 0

    def skip(_row: Any) -> str:
        nonlocal bad
        bad += 1
        return "skip"

    with open_bytes(path) as source:
        reader = pyarrow.csv.open_csv(
            pa.PythonFile(io.BufferedReader(_Inflated(source), 1 << 20), "r"),
            pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK),
            pyarrow.csv.ParseOptions(
                delimiter=delimiter, invalid_row_handler=skip, newlines_in_values=True
            ),
            pyarrow.csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
        told = 0
        for batch in reader:
            unreadable, told = bad - told, bad
            yield _roles(batch, found, str(path), unreadable)
        if bad > told:
            yield EventBatch({}, bad - told)


def _json_batches(path: Path, columns: Mapping[str, str]) -> Iterator[EventBatch]:
    found: dict[str, str] | None = None
    with open_bytes(path) as source:
        for block in line_blocks(source):
            table, unreadable = objects_table(block)
            if table is None:
                yield EventBatch({}, unreadable)
                continue
            if found is None:
                found = find_columns(_names(table.schema), columns, str(path))
            for batch in table.combine_chunks().to_batches():
                yield _roles(batch, found, str(path), unreadable)
                unreadable = 0


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
