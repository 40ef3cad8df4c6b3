"""Finding: one thing that is wrong with data, or worth knowing: what, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["warning", "note"]
WARNING: Severity = "warning"
NOTE: Severity = "note"

CHECKS = (
    "split-leak",
    "leak",
    "shuffled-labels",
    "inverted-labels",
    "partly-shuffled-labels",
    "canary",
    "never-retrieved",
    "worse-than-random",
    "sampled-negatives",
    "contradicting-grades",
    "grade-typo",
    "swapped-columns",
    "unit-change",
    "missing-spike",
    "constant-column",
    "outlier",
    "duplicate-column",
    "one-document-queries",
    "no-contrast",
    "missing-rate",
    "not-looked-at",
)
"""The names of all checks, the worst first: what makes figures lie, then what harms a model."""


@dataclass(frozen=True)
class Finding:
    """One thing that a check found.

    `subject` is what it is about in few words: a column, a grade, some queries. `message` says
    what and where, `advice` what to do. `columns` and `queries` name those concerned: the first
    few, where they are many. `row` is the first document concerned: the name of its source, and its
    number there, counted from 0; `place` its file and line, where a text can be fixed there.
    """

    check: str
    severity: Severity
    subject: str
    message: str
    advice: str
    columns: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    row: tuple[str, int] | None = None
    place: str = ""

    @property
    def line(self) -> str:
        """The message, its place and the advice as one line."""
        told = f"{self.message} ({self.place})" if self.place else self.message
        return f"{told}: {self.advice}" if self.advice else told

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON."""
        return asdict(self)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Warnings before notes, each by what its check may cost; else in the order given."""
    return tuple(sorted(findings, key=lambda f: (f.severity != WARNING, CHECKS.index(f.check))))
