"""What the demo tells while it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

Progress = Callable[[str, float | None], None]


class Narrator(Protocol):
    """Where the demo's news go: a terminal, or nowhere."""

    def step(self, number: int, total: int, title: str) -> None:
        """Begin a numbered step."""

    def line(self, text: str = "") -> None:
        """Tell one thing."""

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Show figures."""

    def working(self) -> AbstractContextManager[Progress]:
        """What shows the progress of a long task; lines are told outside of it."""


class Silent:
    """Tells nothing."""

    def step(self, _number: int, _total: int, _title: str) -> None:
        """Drop a step."""

    def line(self, _text: str = "") -> None:
        """Drop a line."""

    def table(self, _headers: Sequence[str], _rows: Sequence[Sequence[object]]) -> None:
        """Drop a table."""

    def working(self) -> AbstractContextManager[Progress]:
        """Drop all progress."""
        return nullcontext(lambda _message, _share: None)
