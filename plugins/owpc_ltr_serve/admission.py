"""Which requests are taken: so many at a time, of so much memory, and not all of one client."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

MEMORY = 256_000_000
"""Bytes that the bodies of all requests may take, by the estimate of `BodyMemory`."""
MOST_VALUES = 400_000
"""Objects, lists and commas of one body."""
_VALUE_BYTES = 128
"""Bytes that Python takes for a value, an empty object with its place in a list."""
_UNCOUNTED = 100_000
"""Bytes of a body whose values are not counted: what Python makes of them takes 3 MB at most."""
_SHARED_SECONDS = 60.0
"""Seconds for which a second client keeps half of the places free of the first."""


class Busy(Exception):
    """A request that is not taken now, and may come again."""


class BodyRefused(Exception):
    """A body that is too large or too slow: the status of its answer, and what is wrong."""


class BodyMemory:
    """What the bodies of all requests take, by estimate."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def held(self) -> Iterator[Callable[[bytes], None]]:
        """Around the work with one body; what it gives takes what each part of the body needs.

        That raises Busy, and BodyRefused.
        """
        size = values = taken = 0

        def add(part: bytes) -> None:
            nonlocal size, values, taken
            size += len(part)
            more = _values(part) if size > _UNCOUNTED else 0
            values += more
            if values > MOST_VALUES:
                many = f"the body has more than {MOST_VALUES} objects, lists and commas"
                raise BodyRefused(413, many)
            needed = len(part) + _VALUE_BYTES * more
            if self._taken + needed > MEMORY:
                raise Busy
            self._taken += needed
            taken += needed

        try:
            yield add
        finally:
            self._taken -= taken


def _values(part: bytes) -> int:
    """Objects, lists and commas; numpy counts several times as fast as bytes do."""
    marks = np.frombuffer(part or b" ", np.uint8)
    return sum(int(np.count_nonzero(marks == mark)) for mark in b"{[,")


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

    @contextmanager
    def held(self, address: str) -> Iterator[None]:
        """Around what needs a place. Raises Busy."""
        self.check(address)
        self._taken[address] += 1
        try:
            yield
        finally:
            self._taken[address] -= 1
            if not self._taken[address]:
                del self._taken[address]
