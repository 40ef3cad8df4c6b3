"""Progress reports of long tasks: what a terminal shows, or nothing."""

from __future__ import annotations

from typing import Protocol


class Report(Protocol):
    """Where news go: a terminal draws them, a library call drops them."""

    def say(self, line: str) -> None:
        """Tell one thing that the user should know."""

    def advance(self, task: str, done: float, total: float) -> None:
        """Tell how far a task has come."""


class Silent:
    """Drops all news."""

    def say(self, line: str) -> None:
        """Drop a line."""

    def advance(self, task: str, done: float, total: float) -> None:
        """Drop a figure."""
