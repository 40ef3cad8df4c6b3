"""What clients may take: places and memory for requests, connections, and time.

uvicorn has a timeout for idle connections only. A client that sends its headers a byte at a time,
or does not read its answer, holds a connection for ever; a few hundred of them hold all file
descriptors. The application limits the time for a request's body.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from uvicorn.protocols.http.h11_impl import H11Protocol

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
CLIENT_SECONDS = 10.0
"""For the headers of a request, and for a client to read what has been sent to it."""
ACCEPTED = 25
"""Connections that are accepted in each round of the event loop: `backlog=` of uvicorn."""
FIRST_BYTE = "owpc_ltr.first_byte"
"""The key of an ASGI scope for when the first byte of the request came."""
_RESERVED = 8 * ACCEPTED
"""File descriptors kept for some rounds of those, for connections to the engine and for files."""
_QUIET_SECONDS = 60.0
"""Seconds after which a service that is still full says so again."""
_log = logging.getLogger("owpc_ltr.serve")


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


class TimedHttp(H11Protocol):
    """HTTP/1.1 whose connection is dropped where the client is slow (`http=` of uvicorn).

    Where the process has no file descriptors left, the connection that has waited longest without
    a request is closed for a new one.
    """

    seconds = CLIENT_SECONDS
    _headers: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _first_byte: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for headers from now on."""
        super().connection_made(transport)
        self._await_headers()
        self._idle()[self] = None
        if len(self.connections) > (most := most_connections()):
            oldest = next(iter(self._idle()))
            del self._idle()[oldest]
            oldest.transport.abort()
            if self.loop.time() >= self.app_state.get("quiet_until", 0.0):
                self.app_state["quiet_until"] = self.loop.time() + _QUIET_SECONDS
                _log.warning(
                    "%s connections are open: the longest idle ones are closed for new ones; more "
                    "need a higher limit of file descriptors, ulimit -n", most,
                )  # fmt: skip

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._headers_came()
        self._client_read()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Be idle again."""
        self._idle()[self] = None
        self._first_byte = None
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """The first byte of a further request begins its time."""
        if self._headers is None and not self._is_answering():
            self._await_headers()
        if self._first_byte is None:
            self._first_byte = self.loop.time()
        super().data_received(data)

    def handle_events(self) -> None:
        """Whole headers end their time."""
        super().handle_events()
        if self._is_answering() and FIRST_BYTE not in self.cycle.scope:
            self.cycle.scope[FIRST_BYTE] = self._first_byte or self.loop.time()  # type: ignore[literal-required]
            self._headers_came()

    def shutdown(self) -> None:
        """Tell the client with the last answer that the connection ends."""
        if self._is_answering():
            scope = self.cycle.scope
            scope["headers"] = [*scope["headers"], (b"connection", b"close")]
        super().shutdown()

    def pause_writing(self) -> None:
        """The client has time to read from here on."""
        super().pause_writing()
        self._reading = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        self._client_read()
        super().resume_writing()

    def _await_headers(self) -> None:
        self._headers = self.loop.call_later(self.seconds, self.transport.abort)

    def _headers_came(self) -> None:
        if self._headers is not None:
            self._headers.cancel()
        self._headers = None
        self._idle().pop(self, None)

    def _client_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._reading = None

    def _idle(self) -> dict[TimedHttp, None]:
        """All connections of the server that have no request, the longest idle one first."""
        idle: dict[TimedHttp, None] = self.app_state.setdefault("idle", {})
        return idle

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def most_connections() -> int:
    """How many connections the process can hold, by its limit of file descriptors."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(limit - _RESERVED, limit // 4)
