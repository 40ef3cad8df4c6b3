"""Who may call a service of this product over HTTP, and what one client may take of it.

Every service runs in a `WebServer`. A web page that another site has opened in a browser on this
machine can send it requests, in the user's name and without being asked: `SameOriginGuard` refuses
them. A client that sends a byte at a time, or nothing, can hold connections, and one that sends
thousands of header lines the event loop: `FairHttp` bounds both.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import re
import resource
import socket
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""What this machine calls itself in the header `Host`."""
CLIENT_SECONDS = 10.0
"""For a whole request to arrive, and for a client to read what has been sent to it."""
LARGEST_HEAD, MOST_HEADERS = 16_384, 100
"""Bytes and lines before a request's body."""
FREE_PARTS, SMALLEST_PART = 100, 256
"""A body may come in so many parts of any size; of more, the mean size in bytes is at least this:
each takes as long to read as thousands of bytes."""
MOST_CONNECTIONS = 2_048
"""Each takes some 20 kB, and `_READ_AT_ONCE` bytes where the body of its request has begun."""
_READ_AT_ONCE = 131_072
"""Bytes of a body that are read before the application asks for more; asyncio reads 256 kB."""
ACCEPTED = 25
"""Connections that are accepted in each round of the event loop."""
FIRST_BYTE = "owpc_ltr.first_byte"
"""The key of an ASGI scope for when the first byte of the request came."""
_RESERVED = 8 * ACCEPTED
"""File descriptors kept for some rounds of those, for connections to the engine and for files."""
_BACKLOG = 2048
"""Connections that wait to be accepted."""
_QUIET_SECONDS = 60.0
"""Seconds after which a service that is still full says so again."""
_PORT = re.compile(r":\d+\Z")
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_log = logging.getLogger("owpc_ltr.service")


class WebServer(uvicorn.Server):
    """An application as a service of this product; `run([listening(…)])` runs it until a signal.

    `hosts` are the names that requests must use in `Host`; none: any. Without them, a page that
    rebinds its own name to 127.0.0.1 may ask, and read the answers. `policy` is the
    Content-Security-Policy of all answers. `options` are those of `uvicorn.Config`.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        *,
        policy: str = "default-src 'none'",
        **options: Any,
    ) -> None:
        headers = [
            ("Content-Security-Policy", f"{policy}; frame-ancestors 'none'"),
            ("X-Frame-Options", "DENY"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        config = uvicorn.Config(
            SameOriginGuard(app, hosts),
            loop="asyncio",
            http=FairHttp,
            ws="none",
            lifespan="on",
            headers=headers,
            server_header=False,
            proxy_headers=False,
            backlog=ACCEPTED,
            log_config=None,
            log_level="error",
            access_log=False,
            **options,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with more connections that wait than are accepted at a time."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)


def listening(host: str, port: int) -> socket.socket:
    """A socket for a `WebServer`. Raises UsageError where it cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        # Connections inherit it; asyncio sets it for sockets that it makes itself. Without it, an
        # answer's body waits 40 ms for the client to confirm the headers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        wrong = "port" if error.errno in {errno.EADDRINUSE, errno.EACCES} else "host"
        raise UsageError(
            f"cannot listen on port {port} of {host}: {error.strerror or error}: choose another "
            f"`{wrong}`"
        ) from error
    return listener


class SameOriginGuard:
    """An application that no web page of another origin calls.

    A browser says where a request comes from, in `Sec-Fetch-Site` and `Origin`. Older ones say
    nothing where a page sends a form, or text without a Content-Type, which needs no permission:
    a body is JSON by its Content-Type, which does. Other clients send neither header.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is refused; the application answers all others."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            # Else a traceback is printed for each client that goes while its body is waited for.
            with suppress(ClientDisconnect):
                await self._app(scope, receive, send)
        else:
            status, message = refusal
            await JSONResponse({"message": message}, status)(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if self._hosts and _PORT.sub("", host) not in self._hosts:
            return 400, f"Host is not a name of this service: ask {', '.join(sorted(self._hosts))}"
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "").lower()
        # A browser vouches for `same-origin`, also where a proxy has changed the Host.
        is_other = origin is not None and origin.lower().partition("://")[2] != host
        if site == "cross-site" or (is_other and site not in {"same-origin", "none"}):
            return 403, "a web page of another origin sent this: send it from a program"
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and not kind.endswith(("/json", "+json")):
            return 415, "the body is not JSON by its Content-Type: send application/json"
        return None


class _Request(h11.Connection):
    """HTTP/1.1 whose requests are bounded in what it costs to read them."""

    refusal = 400, "this is not an HTTP request"
    """The answer to what cannot be read."""
    _parts = _size = 0

    def next_event(self) -> Any:
        """What has arrived next. Raises RemoteProtocolError, and `refusal` says why."""
        if self.their_state is h11.IDLE:
            self._parts = self._size = 0
            head = self.trailing_data[0]
            end = _END_OF_HEAD.search(head, 0, LARGEST_HEAD)
            lines = head.count(b"\n", 0, end.start() if end else LARGEST_HEAD)
            if lines > MOST_HEADERS or (end is None and len(head) >= LARGEST_HEAD):
                large = f"the head has more than {LARGEST_HEAD} bytes or {MOST_HEADERS} headers"
                self.refusal = 431, large
                raise h11.RemoteProtocolError(large)
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._parts, self._size = self._parts + 1, self._size + len(event.data)
            if self._size < SMALLEST_PART * (self._parts - FREE_PARTS):
                small = (
                    f"the body comes in parts of less than {SMALLEST_PART} bytes: send larger ones"
                )
                self.refusal = 400, small
                raise h11.RemoteProtocolError(small)
        return event


class FairHttp(H11Protocol):
    """HTTP/1.1 whose connection is dropped where the client is slow, or has too many.

    Where no more connections can be open, one is closed for each new one: of the address that has
    most, the one that has waited longest for a request, its head or its body.
    """

    conn: _Request
    seconds = CLIENT_SECONDS
    _arriving: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _first_byte: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request from now on."""
        super().connection_made(transport)
        self.conn = _Request(h11.SERVER)
        transport.max_size = _READ_AT_ONCE  # type: ignore[attr-defined]
        self._arriving = self.loop.call_later(self.seconds, self._too_slow)
        self._waits_from_now()
        opened = self._open()
        if sum(map(len, opened.values())) > (most := most_connections()):
            most_of_all = max(opened.values(), key=len)
            first = next(iter(most_of_all))
            closed = next(
                (connection for connection in most_of_all if connection._is_arriving()), first
            )
            closed._leave()
            closed.transport.abort()
            if self.loop.time() >= self.app_state.get("quiet_until", 0.0):
                self.app_state["quiet_until"] = self.loop.time() + _QUIET_SECONDS
                _log.warning(
                    "%s connections are open: for each new one, the longest idle one of the "
                    "address that has most is closed",
                    most,
                )

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._leave()
        self._arrived()
        self._client_read()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for another request."""
        if self._leave():
            self._waits_from_now()
        self._first_byte = None
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """The first byte of a request begins its time."""
        if self._first_byte is None:
            self._first_byte = self.loop.time()
        super().data_received(data)

    def handle_events(self) -> None:
        """A whole request ends its time; what the application has not asked for is not read."""
        super().handle_events()
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering and FIRST_BYTE not in self.cycle.scope:
            self.cycle.scope[FIRST_BYTE] = self._first_byte or self.loop.time()  # type: ignore[literal-required]
        is_idle = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        if is_idle or not self._is_arriving():
            self._arrived()
            return
        if self._arriving is None:
            self._arriving = self.loop.call_later(self.seconds, self._too_slow)
        if is_answering:
            self.flow.pause_reading()

    def send_400_response(self, _: str) -> None:
        """Answer what cannot be read."""
        self._refuse(*self.conn.refusal)

    def shutdown(self) -> None:
        """Tell the client with the last answer that the connection ends."""
        if self.cycle is not None and not self.cycle.response_complete:
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

    def _is_arriving(self) -> bool:
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    def _too_slow(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            self._refuse(408, f"the request did not arrive within {self.seconds:g} s")
        else:
            self.transport.abort()

    def _refuse(self, status: int, message: str) -> None:
        """Answer in place of the application, where it has not begun to, and end the connection."""
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
            return
        body = json.dumps({"message": message}).encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        reason = HTTPStatus(status).phrase.encode()
        head = h11.Response(status_code=status, headers=headers, reason=reason)
        events = head, h11.Data(data=body), h11.EndOfMessage()
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()

    def _arrived(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
        self._arriving = None

    def _client_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._reading = None

    def _open(self) -> dict[str, dict[FairHttp, None]]:
        """All connections of the server by address, the one that waits longest first."""
        opened: dict[str, dict[FairHttp, None]] = self.app_state.setdefault("open", {})
        return opened

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _waits_from_now(self) -> None:
        self._open().setdefault(self._address, {})[self] = None

    def _leave(self) -> bool:
        """Be none of the open connections any more; whether it was one."""
        same = self._open().get(self._address, {})
        was_open = same.pop(self, self) is None
        if not same:
            self._open().pop(self._address, None)
        return was_open


def most_connections() -> int:
    """How many connections the process can hold, by its limit of file descriptors."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(max(limit - _RESERVED, limit // 4), MOST_CONNECTIONS)
