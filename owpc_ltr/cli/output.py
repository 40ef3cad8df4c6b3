"""What commands print beside text: one JSON object for machines, progress on a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from owpc_ltr.cli.streams import results
from owpc_ltr.files.strict_json import finite_json
from owpc_ltr.sanitization import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

Progress = Callable[[str, float | None], None]


def print_json(content: dict[str, Any]) -> None:
    """One object on standard output; what is not a number becomes null."""
    typer.echo(json.dumps(finite_json(content), indent=2, allow_nan=False), file=results())


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


def bars() -> Bars:
    """Bars on standard error, which go when all is done; none are drawn in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    # Names in brackets are no markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    return Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
