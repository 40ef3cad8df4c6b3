"""Cells of CSV that people open in a spreadsheet, where a text can be a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_MARKED = re.compile(r"'+[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SPLITS = re.compile(r"[;\t\r]")
"""What stands between cells where spreadsheets take another delimiter."""


def inert_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula; `read_cell` gives it back. Numbers stay.

    >>> [inert_cell(text) for text in ("=1+1", "-2.5", "-two", "'=1", "a")]
    ["'=1+1", '-2.5', "'-two", "''=1", 'a']
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def marked_cell(text: str) -> str:
    """A text as it is, in a table that `read_cell` reads: only what it would change is marked."""
    return f"'{text}" if _MARKED.match(text) else text


def read_cell(text: str) -> str:
    """The text of a cell that `inert_cell` or `marked_cell` wrote."""
    return text[1:] if text.startswith("'") and _MARKED.match(text) else text


def sheet_bytes(rows: Iterable[Sequence[object]]) -> bytes:
    """Rows as CSV; texts are inert."""
    out = io.StringIO(newline="")
    plain = csv.writer(out, lineterminator="\n")
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        cells = [inert_cell(cell) if isinstance(cell, str) else cell for cell in row]
        split = any(isinstance(cell, str) and _SPLITS.search(cell) for cell in cells)
        (quoted if split else plain).writerow(cells)
    return out.getvalue().encode()
