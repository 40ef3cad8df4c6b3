"""Options of a feature log. None of them changes the bytes of the result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from owpc_ltr.errors import UsageError

MOST_IN_FLIGHT = 64
MOST_DOCUMENTS = 500
"""The most documents of one search: answers stay small enough to be checked and repeated."""
MAX_ABSENT = 0.01
"""The largest share of judged documents that may be missing from the index."""
_LIMITS = {
    "in_flight": (1, MOST_IN_FLIGHT),
    "batch": (1, MOST_DOCUMENTS),
    "max_absent": (0, 1),
    "attempts": (1, 100),
    "pause": (0, 60),
    "chunk": (1, 1_000_000),
}


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """How a feature log is run. UsageError where a value cannot be."""

    in_flight: int | None = None
    batch: int = MOST_DOCUMENTS
    max_absent: float = MAX_ABSENT
    allow_rejected: bool = False
    restart: bool = False
    attempts: int = 3
    """How often a request is made before the log fails."""
    pause: float = 0.2
    """Seconds before the second attempt; each further one waits twice as long."""
    chunk: int = 6000
    """Documents logged, checked and kept together."""

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise UsageError(f"`{name}` must be from {least} to {most}, not {value}")

    def tries(self) -> Iterator[int]:
        """The number of each attempt, after the pause before it."""
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            yield attempt
