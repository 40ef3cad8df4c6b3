"""Tables in files: Parquet and Arrow (Feather) of unknown origin, and sheets for people.

Parquet and Arrow are bounded, and checked before use. A sheet is CSV whose cells no spreadsheet
takes for formulas, read back as they were: a cell that would be one gets a leading `'`, and so does
the name of its column. Cells of all other columns are what they are: a `'` in a table that somebody
else wrote is part of the text.
"""

from __future__ import annotations

import csv
import io
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import (
    FREE_BYTES,
    LARGEST_RATIO,
    open_bytes,
    open_for_arrow,
    open_regular,
    read_bytes,
    shown,
)

if TYPE_CHECKING:
    import pyarrow as pa


_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SPLITS = re.compile(r"[;\t\r]")
"""Delimiters of cells in spreadsheets, beside the comma."""


def inert_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula. Numbers stay.

    >>> [inert_cell(text) for text in ("=1+1", "-2.5", "-two", "'=1", "a")]
    ["'=1+1", '-2.5', "'-two", "''=1", 'a']
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def inert_column(name: str, cells: Iterable[object]) -> list[object]:
    """A column's name and cells, of which no spreadsheet takes a text for a formula.

    >>> inert_column("doc_id", ["=x", "'=x"]), inert_column("doc_id", ["'a", 2])
    (["'doc_id", "'=x", "''=x"], ['doc_id', "'a", 2])
    """
    values = list(cells)
    inert = [inert_cell(cell) if isinstance(cell, str) else cell for cell in values]
    escaped = inert != values or name.startswith("'") or inert_cell(name) != name
    return [f"'{name}" if escaped else name, *inert]


def read_column(
    name: str, cells: Sequence[str], path: Path | str = "the sheet"
) -> tuple[str, Sequence[str]]:
    """The name and the cells before `inert_column`; other columns stay as they are.

    Raises BadInput if a cell without its `'` equals another cell of the column.

    >>> read_column("'doc_id", ["'=x", "''=x"]), read_column("doc_id", ["'=x"])
    (('doc_id', ['=x', "'=x"]), ('doc_id', ["'=x"]))
    """
    if not name.startswith("'"):
        return name, cells
    texts = set(cells)
    escaped = {cell for cell in texts if cell[:1] == "'" and inert_cell(cell[1:]) == cell}
    ambiguous = next((text for text in sorted(escaped) if text[1:] in texts - escaped), None)
    if ambiguous is not None:
        raise BadInput(
            f"cannot read {path}: its column {shown(name)} has both {shown(ambiguous)} and "
            f"{shown(ambiguous[1:])}, which mean the same: write the same cell in all lines"
        )
    return name[1:], [cell[1:] if cell in escaped else cell for cell in cells]


def sheet_bytes(rows: Iterable[Sequence[object]]) -> bytes:
    """Rows below a header as CSV for a spreadsheet; texts are inert."""
    out = io.StringIO(newline="")
    plain = csv.writer(out, lineterminator="\n")
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    columns = [inert_column(str(name), cells) for name, *cells in zip(*rows, strict=True)]
    for row in zip(*columns, strict=True):
        split = any(isinstance(cell, str) and _SPLITS.search(cell) for cell in row)
        (quoted if split else plain).writerow(row)
    return out.getvalue().encode()


PARQUET, ARROW = b"PAR1", b"ARROW1"
MOST_COLUMNS = 10_000
_LARGEST = 1 << 30
_ROWS = 1 << 16
"""Rows that are decoded together."""
_DECODED_BYTES = 256 << 20


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet does."""
    with open_regular(path) as file:
        return file.read(len(PARQUET)) == PARQUET


@dataclass(frozen=True)
class ColumnFile:
    """An open Parquet or Arrow file: its columns, and how many rows it says it has (Parquet)."""

    path: Path | str
    schema: Any
    rows: int | None
    _file: Any
    _size: int
    _metadata: Any
    """Parquet's; None for Arrow files."""

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The rows in batches, whose buffers, offsets and texts are checked.

        `columns` are those that are read, all without it; a dot leads into an object. Columns of
        categories are written out. Raises BadInput for rows that inflate out of proportion, Arrow's
        errors for damage.
        """
        read = self._arrow_batches if self._metadata is None else self._row_groups
        for batch in read(columns):
            # Before anything else: the size of a text or a list is read from its offsets.
            batch.validate(full=True)
            if any(_plain_type(kind) != kind for kind in batch.schema.types):
                for start in range(0, len(batch), _ROWS):
                    yield self._written_out(batch.slice(start, _ROWS))
            else:
                yield batch

    def _arrow_batches(self, columns: Sequence[str] | None) -> Iterator[Any]:
        import pyarrow as pa

        names = self.schema.names
        fields = None
        if columns is not None:
            outer = {name if name in names else name.split(".")[0] for name in columns}
            fields = sorted(names.index(name) for name in outer)
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields)
        self._file.seek(0)
        reader = pa.ipc.open_file(self._file, options=options)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)

    def _row_groups(self, columns: Sequence[str] | None) -> Iterator[Any]:
        """Batches of Parquet's, in which texts are categories: one may stand for many rows."""
        import pyarrow.parquet as pq

        about = self._metadata
        # The metadata of single columns are not asked for: a damaged one aborts the process.
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        most = max(FREE_BYTES, LARGEST_RATIO * self._size)
        values = sum(group.num_rows for group in groups) * len(self.schema)
        if max(values, sum(group.total_byte_size for group in groups)) > most:
            raise self._bomb()
        leaves = [about.schema.column(number) for number in range(about.num_columns)]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        parquet = pq.ParquetFile(
            self._file,
            metadata=self._metadata,
            page_checksum_verification=True,
            read_dictionary=texts,
            # Unbuffered, a page's size that is too large is known before memory is taken for it; a
            # large file is read as it is decoded, not held beside that.
            buffer_size=0 if self._size < FREE_BYTES else 1 << 20,
            # A thread that reads ahead would outlive an error.
            pre_buffer=False,
        )
        names = None if columns is None else list(columns)
        yield from parquet.iter_batches(_ROWS, columns=names, use_threads=False)

    def _written_out(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its categories replaced by their values."""
        import pyarrow as pa

        columns, size = [], 0
        for column in batch.columns:
            size += _size_of(column)
            if size > _DECODED_BYTES:
                raise self._bomb()
            columns.append(column.cast(_plain_type(column.type)))
        return pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def _bomb(self) -> BadInput:
        return BadInput(
            f"cannot read {self.path}: its {self._size} bytes inflate more than "
            f"{LARGEST_RATIO}-fold, as a decompression bomb does: write it again with shorter "
            "texts, or as CSV"
        )


@contextmanager
def open_columns(path: Path) -> Iterator[ColumnFile]:
    """A Parquet or Arrow file, also one that is compressed as a whole.

    Errors in the block become those of `open_for_arrow`.
    """
    import pyarrow as pa

    with open_bytes(path, any_content=True) as source:
        packed = source.compressed
    with open_for_arrow(path) as file:
        size = os.fstat(file.fileno()).st_size
        if packed:
            content: Any = read_bytes(path, _LARGEST, any_content=True)
        elif file.read(len(ARROW)) == ARROW:
            # Its columns are not copied.
            content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        else:
            yield columns_in(file, path, size)
            return
        yield columns_in(pa.BufferReader(pa.py_buffer(content)), path, len(content))


def columns_in(file: IO[bytes] | Any, path: Path | str, size: int) -> ColumnFile:
    """The columns of an open file. Raises BadInput for more than `MOST_COLUMNS`."""
    import pyarrow.ipc
    import pyarrow.parquet as pq

    file.seek(0)
    arrow = file.read(len(ARROW)) == ARROW
    file.seek(0)
    if arrow:
        schema, metadata = pyarrow.ipc.open_file(file).schema, None
    else:
        parquet = pq.ParquetFile(file)
        schema, metadata = parquet.schema_arrow, parquet.metadata
    if len(schema) > MOST_COLUMNS:
        raise BadInput(
            f"cannot read {path}: it has {len(schema)} columns, more than {MOST_COLUMNS}: leave "
            "out those that say nothing"
        )
    return ColumnFile(
        path, schema, metadata and metadata.num_rows, file, _size=size, _metadata=metadata
    )


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without categories, also not in lists and objects."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        inner = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([field.with_type(_plain_type(field.type)) for field in inner])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return make(kind.value_field.with_type(_plain_type(kind.value_type)))
    return kind


def _size_of(column: pa.Array) -> int:
    """The bytes of a column, with the texts of its categories."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if _plain_type(kind) == kind:
        return int(column.nbytes)
    if pa.types.is_struct(kind):
        return sum(map(_size_of, column.flatten()))
    if not pa.types.is_dictionary(kind):
        return _size_of(column.flatten())
    kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64()).take(column.indices)
    return pc.sum(lengths).as_py() or 0
