"""CSV and TSV as columns of texts, a block of lines at a time."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from owpc_ltr.errors import BadInput
from owpc_ltr.files.columnar import MOST_COLUMNS
from owpc_ltr.files.text import bad_line_of, shown

_LONGEST_HEADER = 1 << 20


@dataclass(frozen=True)
class DelimitedBlocks:
    """A table whose header was read: the names of its columns, and what stands between them."""

    path: Path
    names: tuple[str, ...]
    delimiter: str

    @classmethod
    def begin(cls, path: Path, line: int, block: bytes) -> tuple[DelimitedBlocks, int, bytes]:
        """The table, and the line and content that follow its header. Raises BadInput."""
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
        """The `wanted` columns of a block, and how many lines have not as many cells as names.

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
