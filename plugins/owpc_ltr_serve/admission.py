"""Which requests are taken: so many at a time, of so much memory, and not all of one client."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

MEMORY = 256_000_000
"""Bytes that the bodies of all requests may take, by the estimate of `BodyMemory`."""
MOST_VALUES = 400_000
"""Objects, lists and commas of one body."""
_VALUE_BYTES = 128
"""Bytes that Python takes for a value, an empty object with its place in a list."""
_SHARED_SECONDS = 60.0
"""Seconds for which a second client keeps half of the places free of the first."""


class Busy(Exception):
    """A request that is not taken now, and may come again."""


class TooManyValues(Exception):
    """A body of more values than are parsed."""


@dataclass
class Memory:
    """What the bodies of all requests take, by estimate."""

    taken: int = 0


@dataclass
class BodyMemory:
    """What one body takes, from its first byte until the work with it has ended."""

    memory: Memory
    values: int = 0
    taken: int = 0

    def add(self, part: bytes) -> None:
        """Take what a part of the body needs. Raises Busy, and TooManyValues."""
        # numpy counts several times as fast as bytes do.
        marks = np.frombuffer(part or b" ", np.uint8)
        values = sum(int(np.count_nonzero(marks == mark)) for mark in b"{[,")
        self.values += values
        if self.values > MOST_VALUES:
            raise TooManyValues
        size = len(part) + _VALUE_BYTES * values
        if self.memory.taken + size > MEMORY:
            raise Busy
        self.memory.taken += size
        self.taken += size

    def release(self) -> None:
        """Take nothing any more."""
        self.memory.taken -= self.taken
        self.taken = 0


class RequestSlots:
    """Places for requests; while several addresses ask, each has at most half of them.

    Behind a proxy all requests come from one address, which then has all places.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._last = ""
        self._shared_until = 0.0

    def check(self, address: str) -> None:
        """Raise Busy where a request from this address is not taken."""
        now = time.monotonic()
        if address != self._last:
            self._shared_until = now + _SHARED_SECONDS if self._last else 0.0
            self._last = address
        share = (self._most + 1) // 2 if now < self._shared_until else self._most
        if self._taken.total() >= self._most or self._taken[address] >= share:
            raise Busy

    def take(self, address: str) -> None:
        """Take a place. Raises Busy."""
        self.check(address)
        self._taken[address] += 1

    def give_back(self, address: str) -> None:
        """Free a place."""
        self._taken[address] -= 1
        if not self._taken[address]:
            del self._taken[address]

    @contextmanager
    def held(self, address: str) -> Iterator[None]:
        """Around what needs a place. Raises Busy."""
        self.take(address)
        try:
            yield
        finally:
            self.give_back(address)
