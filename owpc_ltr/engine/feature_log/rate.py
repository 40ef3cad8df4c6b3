"""A rate that is not exceeded, however many threads ask."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from owpc_ltr.engine.feature_log.moment import Moment


class Rate:
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


class Slowed:
    """A moment of the index that is searched at a rate."""

    def __init__(self, moment: Moment, rate: Rate) -> None:
        self.contents = moment.contents
        self.unpinned = moment.unpinned
        self._moment = moment
        self._rate = rate

    def search(self, body: dict[str, Any], params: Mapping[str, str]) -> Any:
        """The answer of a search, when its turn has come."""
        self._rate.wait(max(1, int(body.get("size", 1))))
        return self._moment.search(body, params)

    def refuse_change(self) -> None:
        """Refused where searches since the moment began may have seen other documents."""
        self._moment.refuse_change()
