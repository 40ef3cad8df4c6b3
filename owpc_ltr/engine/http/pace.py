"""Turns of requests that threads share: as many under way as an engine bears."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from owpc_ltr.engine.http.congestion import Congestion
from owpc_ltr.errors import EngineUnavailable

_TOO_MUCH = {429, 503}


class Pace:
    """Lets requests begin in turn, and tells `Congestion` what became of them.

    Whoever waits when the pace ends (`with Pace(…) as pace:`) gets no turn any more.
    """

    def __init__(self, congestion: Congestion) -> None:
        self._congestion = congestion
        self._turn = threading.Condition()
        self._ended = False
        self.in_flight = 0

    @property
    def limit(self) -> int:
        """How many requests are under way at the most, now."""
        return self._congestion.limit

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Wait for a turn, and have it. EngineUnavailable where there will be none."""
        with self._turn:
            self._turn.wait_for(self._is_free)
            if self._ended:
                raise EngineUnavailable("what this request was for has ended")
            self.in_flight += 1
        try:
            yield Turn(self, self._congestion.cuts)
        finally:
            with self._turn:
                self.in_flight -= 1
                self._turn.notify()

    def answered(self, seconds: float) -> None:
        """Take in a whole answer."""
        with self._turn:
            before = self._congestion.limit
            self._congestion.answered(seconds)
            self._turn.notify(max(0, self._congestion.limit - before))

    def rejected(self, cuts: int | None = None) -> None:
        """Take in that the engine has too much to do."""
        with self._turn:
            known = self._congestion.cuts if cuts is None else cuts
            self._congestion.rejected(self.in_flight or self._congestion.limit, known)

    def _is_free(self) -> bool:
        return self._ended or self.in_flight < self._congestion.limit

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._turn:
            self._ended = True
            self._turn.notify_all()


class Turn:
    """One request's turn, from its first attempt to its last, with the pauses between."""

    def __init__(self, pace: Pace, cuts: int) -> None:
        self._pace = pace
        self._cuts = cuts

    def saw(self, status: int, seconds: float) -> None:
        """Tell of an attempt that was answered."""
        if status in _TOO_MUCH:
            self.missed()
        elif 200 <= status < 300:
            self._pace.answered(seconds)

    def missed(self) -> None:
        """Tell of an attempt that was too much, or got no answer."""
        self._pace.rejected(self._cuts)
