"""What commands print: tables for people, one JSON object for machines, progress on a terminal."""

from __future__ import annotations

import json
import math
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import typer

from owpc_ltr.api.files import finite_json
from owpc_ltr.cli.streams import results
from owpc_ltr.shown import message_line, printable, printable_lines

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

Progress = Callable[[str, float | None], None]
_NARROWEST = 12


def print_json(content: dict[str, Any]) -> None:
    """One object on standard output; what is not a number becomes null."""
    typer.echo(json.dumps(finite_json(content), indent=2, allow_nan=False), file=results())


def print_body(content: Any) -> None:
    """A request's body, its words as they are where the terminal can show them."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    encoding = results().encoding or "utf-8"
    if printable_lines(text).encode(encoding, "replace").decode(encoding) != text:
        text = json.dumps(content, indent=2)
    typer.echo(text, file=results())


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table whose columns fit their content, also in a pipe; numbers stand to the right.

    One that is wider than the terminal, or 80 columns, wraps the text of its widest columns.
    """
    cells = [[_cell(value) for value in row] for row in (headers, *rows)]
    right = [
        bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        for index in range(len(headers))
    ]
    widths = _fitting([max(map(len, column)) for column in zip(*cells, strict=True)], right)
    for row in cells:
        wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for line in zip_longest(*wrapped, fillvalue=""):
            padded = (
                part.rjust(width) if number else part.ljust(width)
                for part, width, number in zip(line, widths, right, strict=True)
            )
            typer.echo("  ".join(padded).rstrip())


def print_wrapped(text: str, first: str = "", others: str = "  ") -> None:
    """Text on as many lines as it takes, none wider than the terminal, or 80 columns.

    `first` stands before the first line, `others` before the rest.
    """
    for line in textwrap.wrap(
        printable(text),
        columns(),
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
    ):
        typer.echo(line)


def _wrapped(cell: str, width: int) -> list[str]:
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width)


def columns() -> int:
    """How wide output may be: the terminal, at least 80; in a pipe COLUMNS, or 80."""
    return max(80, shutil.get_terminal_size((80, 24)).columns)


def _fitting(widths: list[int], fixed: Sequence[bool]) -> list[int]:
    """Widths of columns that fit a line: the widest column of text gives way first."""
    widths = list(widths)
    room = columns() - 2 * (len(widths) - 1)
    while sum(widths) > room:
        texts = [i for i, number in enumerate(fixed) if not number and widths[i] > _NARROWEST]
        if not texts:
            break
        widths[max(texts, key=widths.__getitem__)] -= 1
    return widths


def warn(message: str) -> None:
    """A warning on standard error."""
    typer.echo(f"warning: {message_line(message)}", err=True)


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar on a terminal, silence in a pipe."""
    with bars() as drawn:
        task = drawn.add_task("", total=None)

        def show(message: str, done: float | None = None) -> None:
            drawn.update(
                task,
                description=printable(message),
                completed=done,
                total=None if done is None else 1,
            )

        yield show


def bars(*, spinning: bool = False) -> Bars:
    """Bars on standard error, which go when all is done; none are drawn in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    # Names in brackets are no markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    return Progress(
        *([SpinnerColumn()] if spinning else []),
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4f}"
    return printable(str(value))
