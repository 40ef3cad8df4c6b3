"""What requests may take: places, and memory for their bodies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

MEMORY = 256_000_000
"""Bytes that the bodies of all requests may take, by the estimate of `BodySize`."""
_BYTES = 4
"""Bytes that are taken for one of a body: it, and its texts, once as letters and once as JSON."""
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
    """A body that is too large: the status of its answer, and what is wrong."""


class RequestPlaces:
    """So many places for requests, or bytes; while several addresses ask, each has at most half.

    Behind a proxy all requests come from one address, which then has all places.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._last = ""
        self._shared_until = 0.0

    def check(self, address: str, number: int = 1) -> None:
        """Raise Busy where this address gets no more places."""
        now = time.monotonic()
        if address != self._last:
            self._shared_until = now + _SHARED_SECONDS if self._last else 0.0
            self._last = address
        share = (self._most + 1) // 2 if now < self._shared_until else self._most
        if self._taken.total() + number > self._most or self._taken[address] + number > share:
            raise Busy

    @contextmanager
    def held(self, address: str, number: int = 1) -> Iterator[Callable[[int], None]]:
        """Around what needs places; what it gives takes more of them. Both raise Busy."""
        taken = 0

        def take(more: int) -> None:
            nonlocal taken
            self.check(address, more)
            self._taken[address] += more
            taken += more

        take(number)
        try:
            yield take
        finally:
            self._taken[address] -= taken
            if not self._taken[address]:
                del self._taken[address]


class BodySize:
    """What the part of one body that has arrived takes in memory, by estimate."""

    _size = _values = 0

    def add(self, part: bytes) -> int:
        """The bytes that a further part takes. Raises BodyRefused."""
        self._size += len(part)
        more = _values(part) if self._size > _UNCOUNTED else 0
        self._values += more
        if self._values > MOST_VALUES:
            many = f"the body has more than {MOST_VALUES} objects, lists and commas"
            raise BodyRefused(413, many)
        return _BYTES * len(part) + _VALUE_BYTES * more


def _values(part: bytes) -> int:
    """Objects, lists and commas; numpy counts several times as fast as bytes do."""
    marks = np.frombuffer(part or b" ", np.uint8)
    return sum(int(np.count_nonzero(marks == mark)) for mark in b"{[,")
