"""Tables and paragraphs, as wide as the terminal."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import zip_longest

from owpc_ltr.text import printable

SPELLING: ContextVar[Callable[[str], str]] = ContextVar("spelling", default=str)
"""What becomes of a text before it is wrapped: a command names its options."""

_NARROWEST = 12
"""Characters that a column of text keeps where the others need room."""


def text_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table whose columns fit their content; numbers are aligned to the right.

    One that is wider than the terminal, or 80 columns, wraps the text of its widest columns.
    """
    cells = [[cell_text(value) for value in row] for row in (headers, *rows)]
    right = [
        bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        for index in range(len(headers))
    ]
    widths = _fitting([max(map(len, column)) for column in zip(*cells, strict=True)], right)
    lines = []
    for row in cells:
        wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for line in zip_longest(*wrapped, fillvalue=""):
            padded = (
                part.rjust(width) if number else part.ljust(width)
                for part, width, number in zip(line, widths, right, strict=True)
            )
            lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def wrapped_text(text: str, first: str = "", others: str = "  ") -> str:
    """Text on as many lines as it takes, none wider than the terminal, or 80 columns.

    `first` stands before the first line, `others` before the rest.
    """
    return "\n".join(
        textwrap.wrap(
            printable(SPELLING.get()(text)),
            columns(),
            initial_indent=first,
            subsequent_indent=others,
            break_on_hyphens=False,
        )
    )


def columns() -> int:
    """How wide text may be: the terminal, at least 80; in a pipe COLUMNS, or 80."""
    return max(80, shutil.get_terminal_size((80, 24)).columns)


def _wrapped(cell: str, width: int) -> list[str]:
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width)


def _fitting(widths: list[int], fixed: Sequence[bool]) -> list[int]:
    """Widths of columns that fit a line: the widest column of text is narrowed first."""
    widths = list(widths)
    room = columns() - 2 * (len(widths) - 1)
    while sum(widths) > room:
        texts = [i for i, number in enumerate(fixed) if not number and widths[i] > _NARROWEST]
        if not texts:
            break
        widths[max(texts, key=widths.__getitem__)] -= 1
    return widths


def cell_text(value: object) -> str:
    """A cell of a table: numbers with four decimals, a dash for NaN."""
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4f}"
    return printable(SPELLING.get()(str(value)))
