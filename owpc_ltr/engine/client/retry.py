"""The one policy of retries: which statuses, the pauses between attempts, deadline and budget.

Reading Retry-After is here too: an engine's own wait is a lower bound of a pause.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import tenacity

T = TypeVar("T")
BUSY = frozenset((429, 502, 503, 504))
"""HTTP statuses that are retried."""
FIRST_PAUSE = 0.2
"""Seconds: the longest pause before the first retry, as after a 429; twice as long each time."""
LONGEST_PAUSE = 30.0
"""Seconds: the longest pause of all."""
RETRY_BURST = 10.0
"""Retries that all requests of an engine may make at once."""
RETRY_SHARE = 0.1
"""Retries that each further request earns."""
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?")
_FOR_EVER = 1e9


class TransientError(Exception):
    """A fault that may pass. `wait`: seconds that the engine asks for.

    `not_executed`: the request was certainly not carried out, so that even one that must not be
    carried out twice can be sent again. `unreachable`: there was not even a connection.
    """

    def __init__(
        self, why: str, *, not_executed: bool = False, unreachable: bool = False, wait: float = 0.0
    ) -> None:
        super().__init__(why)
        self.not_executed = not_executed or unreachable
        self.unreachable = unreachable
        self.wait = wait


@dataclass
class RetryBudget:
    """How many retries all requests of an engine share: a small burst, then a tenth more.

    A cluster in trouble must not be met with a multiple of its load. A token comes back with
    every ten requests, or every ten seconds, so that one slow retry is always allowed.
    """

    burst: float = RETRY_BURST
    share: float = RETRY_SHARE
    tokens_per_second: float = 0.1
    clock: Callable[[], float] = time.monotonic
    _tokens: float = field(default=math.inf, init=False)
    _filled: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def count_request(self) -> None:
        """Every new request earns its share of a retry."""
        with self._lock:
            self._fill()
            self._tokens = min(self.burst, self._tokens + self.share)

    def take(self) -> float:
        """Reserve one retry; the seconds after which it is within the budget."""
        with self._lock:
            self._fill()
            self._tokens -= 1
            return max(0.0, -self._tokens / self.tokens_per_second)

    def _fill(self) -> None:
        now = self.clock()
        earned = (now - self._filled) * self.tokens_per_second
        self._tokens = min(self.burst, self._tokens + earned)
        self._filled = now


@dataclass(frozen=True)
class Retrying:
    """Carries out one request at a time until it succeeds or nothing is left to try.

    Pauses are drawn evenly from nothing up to 0.2 s, doubled each time, at most 30 s ("full
    jitter", Brooker 2015); an engine's Retry-After is a lower bound. Time is monotonic.
    """

    budget: RetryBudget = field(default_factory=RetryBudget)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def run(self, attempt: Callable[[float], T], seconds: float, *, idempotent: bool) -> T:
        """What `attempt`, called with the seconds that are left, returns.

        The last TransientError is raised when the deadline is near, or at once where the request
        may have been carried out and is not idempotent.
        """
        end = self.clock() + seconds
        # The last attempt keeps some time for its answer.
        margin = min(1.0, seconds / 10)
        self.budget.count_request()

        def attempted() -> T:
            return attempt(max(end - self.clock(), 0.001))

        try:
            return attempted()
        except TransientError as fault:
            # What succeeds at once, as nearly all does, needs no library of retries.
            return self._again(attempted, fault, end, margin, idempotent=idempotent)

    def _again(
        self,
        attempted: Callable[[], T],
        first: TransientError,
        end: float,
        margin: float,
        *,
        idempotent: bool,
    ) -> T:
        """What further attempts return, the `first` of which has failed."""
        import tenacity

        failed = [first]

        def pause(state: tenacity.RetryCallState) -> float:
            fault = state.outcome.exception() if state.outcome else None
            asked = fault.wait if isinstance(fault, TransientError) else 0.0
            least = max(asked, self.budget.take())
            left = end - self.clock() - margin
            drawn = tenacity.wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE)
            return max(least, min(drawn(state), left))

        def is_over(state: tenacity.RetryCallState) -> bool:
            left = end - self.clock()
            return left - margin < 1e-3 or state.upcoming_sleep >= left

        def is_worth_it(fault: BaseException) -> bool:
            return isinstance(fault, TransientError) and (idempotent or fault.not_executed)

        def next_attempt() -> T:
            if failed:
                raise failed.pop()
            return attempted()

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_worth_it),
            wait=pause,
            stop=is_over,
            sleep=self.sleep,
            reraise=True,
        )(next_attempt)


def seconds_asked(retry_after: str | None) -> float:
    """Retry-After in seconds, given as a number or a date; 0 where there is none to be read.

    >>> seconds_asked("5"), seconds_asked("soon"), seconds_asked(None)
    (5.0, 0.0, 0.0)
    """
    text = (retry_after or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), _FOR_EVER)
    try:
        date = parsedate_to_datetime(text)
        # A date without a zone is in universal time, as HTTP has it.
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = (date - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, IndexError, ArithmeticError):
        return 0.0
    return min(max(0.0, seconds), _FOR_EVER)
