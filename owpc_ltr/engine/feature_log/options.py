"""The options of a feature log; none of them changes the bytes of its result."""

from __future__ import annotations

from dataclasses import dataclass

from owpc_ltr.engine.feature_log.schedule import Schedule
from owpc_ltr.errors import UsageError

MOST_IN_FLIGHT = 64
LEAST_RATE = 0.01
MOST_DOCUMENTS = 500
"""The most documents of one search: answers stay small enough to be checked and repeated."""
WHOLE = {"allow_partial_search_results": "false"}
"""What every search of a log says: no answer rather than one of some shards."""
SAME_COPIES = "owpc-ltr"
"""Searches of one `preference` go to the same copies of the shards: replicas are refreshed and
merged each at its own time, and their scores differ."""
RELEASE_SECONDS = 2.0
"""Seconds for releasing what the engine holds for us; after a while it does so by itself."""


@dataclass(frozen=True)
class LogOptions:
    """How a feature log is run. UsageError where a value cannot be."""

    in_flight: int | None = None
    """The most searches under way at the same time; None: as many as the engine bears."""
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
    rate: float | None = None
    """The most documents a second; None: as many as there can be."""
    schedule: str | None = None
    """The hours in which the engine is asked, as 22:00-06:00 in local time; None: at any time."""

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("in-flight", self.most_in_flight, 1, MOST_IN_FLIGHT),
            ("batch", self.batch, 1, MOST_DOCUMENTS),
            ("max-absent", self.max_absent, 0, 1),
            ("attempts", self.attempts, 1, 100),
            ("pause", self.pause, 0, 60),
            ("chunk", self.chunk, 1, 1_000_000),
            ("rate", LEAST_RATE if self.rate is None else self.rate, LEAST_RATE, 1e9),
        ):
            if not least <= value <= most:
                raise UsageError(f"{name} must be from {least} to {most}, not {value}")
        if self.schedule is not None:
            Schedule.parse(self.schedule)

    @property
    def most_in_flight(self) -> int:
        """How many searches are under way at the most."""
        return MOST_IN_FLIGHT if self.in_flight is None else self.in_flight

    @property
    def hours(self) -> Schedule | None:
        """The hours in which the engine is asked, parsed."""
        return None if self.schedule is None else Schedule.parse(self.schedule)
