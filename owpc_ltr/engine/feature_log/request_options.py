"""Options of a feature log. None of them changes the bytes of the result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import Help

MOST_IN_FLIGHT = 64
MOST_DOCUMENTS = 500
"""The most documents of one search: answers stay small enough to be checked and repeated."""
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

    in_flight: Annotated[
        int | None,
        Help(
            "How many searches at the same time at most; default: as many as the engine takes.",
            panel="Engine",
        ),
    ] = None
    batch: Annotated[int, Help("At most so many documents per search.", panel="Engine")] = (
        MOST_DOCUMENTS
    )
    max_absent: Annotated[
        float,
        Help("Fail if a larger share of judged documents is not in the index.", panel="Advanced"),
    ] = 0.01
    allow_rejected: Annotated[
        bool,
        Help(
            "Leave out documents that the engine cannot score or whose values are not finite.",
            panel="Advanced",
        ),
    ] = False
    restart: Annotated[bool, Help("Discard the unfinished work of an earlier run.")] = False
    attempts: Annotated[int, "How often a request is made before the log fails."] = 3
    pause: Annotated[
        float, "Seconds before the second attempt; each further one waits twice as long."
    ] = 0.2
    chunk: Annotated[int, "Documents logged, checked and kept together."] = 6000

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
