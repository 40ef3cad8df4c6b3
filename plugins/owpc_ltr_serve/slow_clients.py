"""Connections of limited number and time, which uvicorn does not limit.

uvicorn has a timeout for idle connections only. A client that sends its headers a byte at a time,
or does not read its answer, holds a connection for ever; a few hundred of them hold all file
descriptors. The time for a request's body is the application's to limit.
"""

from __future__ import annotations

import asyncio
import logging
import resource

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0
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


class TimedHttp(H11Protocol):
    """HTTP/1.1 whose connection is dropped where the client is slow (`http=` of uvicorn).

    Where the process has no file descriptors left, the connection that has waited longest without
    a request is closed for a new one.
    """

    seconds = SECONDS
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
