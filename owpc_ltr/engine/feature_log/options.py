"""The options of a feature log; none of them changes the bytes of its result."""

from __future__ import annotations

from dataclasses import dataclass

from owpc_ltr.errors import UsageError

MOST_DOCUMENTS = 500
"""The most documents of one search: answers stay small enough to be checked and repeated."""


@dataclass(frozen=True)
class LogOptions:
    """How a feature log is run. UsageError where a value cannot be."""

    in_flight: int = 4
    """Searches under way at the same time."""
    batch: int = MOST_DOCUMENTS
    """The most documents of one search."""
    max_absent: float = 0.01
    """The largest share of judged documents that may be missing from the index."""
    allow_rejected: bool = False
    """Whether documents whose features cannot be had are left out and counted."""
    restart: bool = False
    """Whether half-done work of another job is thrown away."""
    attempts: int = 3
    """How often an incomplete answer is asked for before the run fails."""
    pause: float = 0.2
    """Seconds before the first repetition; each further one waits twice as long."""
    chunk: int = 6000
    """Documents that are logged, checked and kept together."""

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("in-flight", self.in_flight, 1, 64),
            ("batch", self.batch, 1, MOST_DOCUMENTS),
            ("max-absent", self.max_absent, 0, 1),
            ("attempts", self.attempts, 1, 100),
            ("pause", self.pause, 0, 60),
            ("chunk", self.chunk, 1, 1_000_000),
        ):
            if not least <= value <= most:
                raise UsageError(f"{name} must be from {least} to {most}, not {value}")
