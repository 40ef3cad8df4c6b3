"""Sheets for people: CSV whose cells no spreadsheet takes for formulas, read back as they were.

A cell that would be one gets a leading `'`, and so does the name of its column. Cells of all other
columns are what they are: a `'` in a table that somebody else wrote is part of the text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown

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
