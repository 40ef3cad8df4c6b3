"""Progress reports of long tasks: what a terminal shows, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from owpc_ltr.signatures import Progress, silent


@dataclass(frozen=True)
class Report:
    """Where news go: `say` takes what the user should know, `progress` how far a task has come.

    By default both are dropped.
    """

    say: Callable[[str], None] = lambda _: None
    progress: Progress = silent

    def advance(self, task: str, done: float, total: float) -> None:
        """Tell how far a task has come."""
        self.progress(task, done / total if total else None)
