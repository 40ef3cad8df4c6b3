"""Options of a feature log: the size of a request, how many, how fast, and at which hours.

None of them changes the bytes of the result.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import Help, option_name

MOST_IN_FLIGHT = 64
LEAST_RATE = 0.01
MOST_DOCUMENTS = 500
"""The most documents of one search: answers stay small enough to be checked and repeated."""


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
    rate: Annotated[
        float | None,
        Help("At most so many documents per second, to spare a busy cluster.", panel="Engine"),
    ] = None
    schedule: Annotated[
        str | None,
        Help(
            "When to search, as 22:00-06:00; at other times the command waits.",
            panel="Engine",
            metavar="HH:MM-HH:MM",
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
        for name, value, least, most in (
            ("in_flight", self.most_in_flight, 1, MOST_IN_FLIGHT),
            ("batch", self.batch, 1, MOST_DOCUMENTS),
            ("max_absent", self.max_absent, 0, 1),
            ("attempts", self.attempts, 1, 100),
            ("pause", self.pause, 0, 60),
            ("chunk", self.chunk, 1, 1_000_000),
            ("rate", LEAST_RATE if self.rate is None else self.rate, LEAST_RATE, 1e9),
        ):
            if not least <= value <= most:
                raise UsageError(f"{option_name(name)} must be from {least} to {most}, not {value}")
        if self.schedule is not None:
            Schedule.parse(self.schedule)

    @property
    def most_in_flight(self) -> int:
        """How many searches are under way at the most."""
        return MOST_IN_FLIGHT if self.in_flight is None else self.in_flight

    def tries(self) -> Iterator[int]:
        """The number of each attempt, after the pause before it."""
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            yield attempt


_FORM = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_NAP = 30.0
"""Seconds after which a waiting process looks at the clock again: it may have been put to sleep."""


@dataclass(frozen=True)
class Schedule:
    """The hours of the day in which a cluster is asked, in local time, also across midnight.

    >>> Schedule.parse("22:00-06:00").waiting(datetime(2026, 3, 1, 20, 30))
    5400.0
    >>> Schedule.parse("22:00-06:00").waiting(datetime(2026, 3, 1, 5, 59))
    0.0
    """

    begin: int
    end: int

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """The hours that a text such as 22:00-06:00 names. UsageError for another."""
        times = _FORM.fullmatch(text.strip())
        hours, minutes, end_hours, end_minutes = map(int, times.groups() if times else (0,) * 4)
        begin, end = hours * 60 + minutes, end_hours * 60 + end_minutes
        if begin == end:
            raise UsageError(
                f"schedule {text[:40]!r} is not a time of the day: write it as 22:00-06:00, in "
                "local time, and leave it out for all day"
            )
        return cls(begin, end)

    def waiting(self, now: datetime) -> float:
        """The seconds until the hours begin; 0 within them."""
        minute = now.hour * 60 + now.minute
        if (minute - self.begin) % 1440 < (self.end - self.begin) % 1440:
            return 0.0
        opening = now.replace(
            hour=self.begin // 60, minute=self.begin % 60, second=0, microsecond=0
        )
        if opening <= now:
            opening += timedelta(days=1)
        # Through universal time: on two days a year the clock jumps meanwhile.
        return opening.astimezone().timestamp() - now.astimezone().timestamp()

    def __str__(self) -> str:
        return f"{_shown(self.begin)}-{_shown(self.end)}"


def wait_for(
    schedule: Schedule,
    tell: Callable[[str], None],
    now: Callable[[], datetime] = datetime.now,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return within the hours; outside them, wait, and tell so once."""
    announced = False
    while left := schedule.waiting(now()):
        if not announced:
            tell(
                f"outside the schedule {schedule}: waiting until {_shown(schedule.begin)}; a stop "
                "loses nothing, the same command continues"
            )
            announced = True
        sleep(min(left, _NAP))


class RateLimit:
    """So many documents a second at most: each search waits until those before it are paid for."""

    def __init__(
        self,
        documents_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds = 1 / documents_per_second
        self._clock = clock
        self._sleep = sleep
        self._paid = -math.inf
        self._lock = threading.Lock()

    def wait(self, documents: int) -> None:
        """Return when so many more documents may be asked for."""
        with self._lock:
            now = self._clock()
            begin = max(now, self._paid)
            self._paid = begin + documents * self._seconds
        if begin > now:
            self._sleep(begin - now)


def _shown(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
