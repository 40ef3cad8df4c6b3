"""Connections that give up on slow clients, which uvicorn waits for without end.

uvicorn has a timeout for idle connections only. A client that sends its headers a byte at a time,
or does not read its answer, holds a connection for ever; a few hundred of them hold all. The time
for a request's body is the application's to limit.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0
"""For the headers of a request, and for a client to read what has been sent to it."""


class TimedHttp(H11Protocol):
    """HTTP/1.1 whose connection is dropped where the client is slow (`http=` of uvicorn)."""

    seconds = SECONDS
    _headers: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for headers from now on."""
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._headers_came()
        self._client_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The first byte of a further request begins its time."""
        if self._headers is None and not self._is_answering():
            self._await_headers()
        super().data_received(data)

    def handle_events(self) -> None:
        """Whole headers end their time."""
        super().handle_events()
        if self._is_answering():
            self._headers_came()

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

    def _client_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._reading = None

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete
