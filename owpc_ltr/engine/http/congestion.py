"""How many requests an engine bears at the same time, learnt from its own answers; no clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

WINDOW = 10
"""The fewest answers that are looked at together."""
FEW, MANY = 4.0, 8.0
"""Requests that wait in the engine: below the one more are sent, above the other fewer."""
CUT = 0.75
FRESH = 64
"""Windows after which the time of an answer without a queue is measured anew."""
PATIENCE, MOST_PATIENCE = 200, 3200
"""Answers after which more than what was once rejected is tried again."""


@dataclass
class Congestion:
    """A limit of requests under way that rises while that pays and falls when the engine says so.

    A rejection cuts it to three quarters of what was too much (additive increase, multiplicative
    decrease: Chiu and Jain 1989); what was rejected is not tried again for a while, twice as long
    each time. Without rejections it follows how many requests wait in the engine, told by how much
    longer answers take than without a queue (TCP Vegas: Brakmo and Peterson 1995).
    """

    most: int
    limit: int = 4
    cuts: int = 0
    _ceiling: int = field(init=False)
    _doubling: bool = field(default=True, init=False)
    _patience: int = field(default=PATIENCE, init=False)
    _calm: int = field(default=0, init=False)
    _count: int = field(default=0, init=False)
    _seconds: float = field(default=0.0, init=False)
    _unloaded: float = field(default=math.inf, init=False)
    _windows: int = field(default=0, init=False)
    _measuring: int = field(default=0, init=False)
    _usual: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        self.limit = min(self.limit, self.most)
        self._ceiling = self.most

    def answered(self, seconds: float) -> None:
        """Take in a whole answer that took so long."""
        self._calm += 1
        self._count += 1
        self._seconds += max(seconds, 1e-9)
        if self._count >= max(WINDOW, self.limit):
            mean = self._seconds / self._count
            self._begin_window()
            self._follow(mean)

    def rejected(self, in_flight: int, cuts: int) -> None:
        """Take in that one of so many requests was too much.

        `cuts` is how many there had been when it was sent: what was sent before the last cut says
        nothing of the limit since.
        """
        if cuts != self.cuts:
            return
        if self.limit > self._ceiling:
            self._patience = min(2 * self._patience, MOST_PATIENCE)
        self._ceiling = max(1, min(in_flight, self.limit) - 1)
        self.limit = max(1, int(CUT * self._ceiling))
        self.cuts += 1
        self._calm = self._measuring = 0
        self._doubling = False
        self._begin_window()

    def _begin_window(self) -> None:
        self._count, self._seconds = 0, 0.0

    def _follow(self, mean: float) -> None:
        """Set the limit by a window of answers without a rejection."""
        if self.limit > self._ceiling:
            self._ceiling = self.most  # what was once too much is not any more
        self._windows += 1
        if self._measuring:
            self._measure(mean)
            return
        if self._windows % FRESH == 0:
            # The first window at half the limit still has answers of before.
            self._measuring, self._usual = 2, self.limit
            self.limit = max(1, self.limit // 2)
            return
        self._unloaded = min(self._unloaded, mean)
        waiting = self.limit * (1 - self._unloaded / mean)
        if waiting < FEW:
            self._grow()
            return
        self._doubling = False
        if waiting > MANY:
            self.limit -= 1

    def _measure(self, mean: float) -> None:
        self._measuring -= 1
        if not self._measuring:
            self._unloaded = mean
            self.limit = self._usual

    def _grow(self) -> None:
        if self.limit >= self._ceiling and self._calm < self._patience:
            return
        above = self.limit + (self.limit if self._doubling else 1)
        allowed = self._ceiling if self.limit < self._ceiling else self.limit + 1
        self.limit = min(above, allowed, self.most)
