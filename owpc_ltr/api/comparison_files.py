"""A comparison of rankers as text, as LaTeX, and each query's values as a file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.comparing.shown import (
    at_the_border,
    closing,
    opening,
    opening_of,
    powered_words,
    title,
    verdicts,
    wins_ties_losses,
)
from owpc_ltr.files.output import write_output
from owpc_ltr.files.spreadsheets import sheet_bytes
from owpc_ltr.shown import printable

if TYPE_CHECKING:
    from owpc_ltr.evaluation.comparing.result import RankerComparison
    from owpc_ltr.training.cross_validation import Selection

__all__ = [
    "at_the_border",
    "check_per_query",
    "closing",
    "opening",
    "opening_of",
    "powered_words",
    "title",
    "verdicts",
    "wins_ties_losses",
    "write_latex",
    "write_per_query",
]

_ENDINGS = (".csv", ".parquet")


def check_per_query(path: Path | str) -> None:
    """Refuse a file of neither kind, before the work."""
    if Path(path).suffix.lower() not in _ENDINGS:
        raise UsageError(
            f"cannot write {path}: the values of queries are written as {' or '.join(_ENDINGS)}"
        )


def write_per_query(found: RankerComparison, path: Path | str) -> None:
    """Write a row a query, as CSV or Parquet: its id, text, importance, and each value."""
    check_per_query(path)
    buffer = io.BytesIO()
    if Path(path).suffix.lower() == ".csv":
        columns = found.per_query.to_pydict()
        cells = [map(_cell, [name, *values]) for name, values in columns.items()]
        buffer.write(sheet_bytes(zip(*cells, strict=True)))
    else:
        from pyarrow import parquet

        parquet.write_table(found.per_query, buffer)
    write_output(path, buffer.getvalue())


def write_latex(found: RankerComparison | Selection, path: Path | str) -> None:
    """Write the figures as a LaTeX table."""
    write_output(path, found.to_latex().encode())


def _cell(value: object) -> object:
    if isinstance(value, str):
        return printable(value)
    return "" if value is None else value
