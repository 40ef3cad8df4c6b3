"""A real HTTP server that answers what a test scripts, and a client with a clock of its own."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.retry import Retrying
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.errors import EngineUnavailable


@dataclass(frozen=True)
class Asked:
    """A request as it arrived; `body` is decoded JSON, a list of it for NDJSON."""

    method: str
    path: str
    params: dict[str, str]
    body: Any
    headers: dict[str, str]
    target: str = ""
    """Path and parameters, as they were sent."""
    raw: bytes = b""
    """The body, as it was sent."""


@dataclass(frozen=True)
class Reply:
    """An answer and what goes wrong with it. `body` is sent as JSON, bytes as they are."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: float | None = None
    """The share of the body that is sent before the connection ends."""
    announced: bool = True
    """Whether the length is told, so that a cut can be noticed."""
    drip: float = 0.0
    """Seconds before each byte of the body."""
    drip_headers: float = 0.0
    """Seconds before each byte of the headers."""
    reset: bool = False
    """Whether the connection is reset in place of an answer."""
    content_type: str = "application/json; charset=UTF-8"

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Answerer = Callable[[Asked], Reply]


class FakeEngine:
    """Answers each (method, path) as told; several replies are given in turn, the last for ever.

    Use as a context manager: `with FakeEngine() as fake: fake.on("GET", "/", {"a": 1})`.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.requests: list[Asked] = []
        self.connections = 0
        self.handshakes = 0
        self._answers: dict[tuple[str, str], list[Any]] = {}
        self._lock = threading.Lock()
        self._server = _server(self, certificate)
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def on(self, method: str, path: str, *replies: Any) -> None:
        """Script the answers to a method and path: Reply, a callable, or a body for status 200.

        The path `*` is for every path without a script of its own.
        """
        self._answers[method, path] = list(replies)

    def asked(self, method: str, path: str) -> list[Asked]:
        """The requests of this method and path so far."""
        return [r for r in self.requests if (r.method, r.path) == (method, path)]

    def answer(self, asked: Asked) -> Reply:
        """The next scripted answer; 404 where there is no script."""
        with self._lock:
            self.requests.append(asked)
            queue = self._answers.get((asked.method, asked.path)) or self._answers.get(
                (asked.method, "*")
            )
            if not queue:
                reason = f"no script for {asked.method} {asked.path}"
                return Reply({"error": {"type": "no_script", "reason": reason}}, 404)
            reply = queue.pop(0) if len(queue) > 1 else queue[0]
        if callable(reply):
            reply = reply(asked)
        return reply if isinstance(reply, Reply) else Reply(reply)


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64
    daemon_threads = True
    block_on_close = False
    fake: FakeEngine
    context: ssl.SSLContext | None = None

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        self.fake.connections += 1
        if self.context is None:
            return connection, address
        self.fake.handshakes += 1
        connection.settimeout(5)
        try:
            return self.context.wrap_socket(connection, server_side=True), address
        except OSError:
            connection.close()
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        try:
            _send(self, self.server.fake.answer(_asked(self)))
        except OSError:
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing: the test looks at the requests itself."""


def _server(fake: FakeEngine, certificate: Path | None) -> _Server:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.fake = fake
    if certificate:
        server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.context.load_cert_chain(certificate)
    return server


def _asked(handler: _Handler) -> Asked:
    parts = urlsplit(handler.path)
    raw = handler.rfile.read(int(handler.headers.get("content-length") or 0))
    body: Any = None
    if raw and "ndjson" in handler.headers.get("content-type", ""):
        body = [json.loads(line) for line in raw.splitlines()]
    elif raw:
        body = json.loads(raw)
    params = dict(parse_qsl(parts.query, keep_blank_values=True))
    headers = {name.lower(): value for name, value in handler.headers.items()}
    return Asked(handler.command, parts.path, params, body, headers, handler.path, raw)


def _send(handler: _Handler, reply: Reply) -> None:
    if reply.reset:
        # Lingering for no time makes the system send a reset in place of an orderly end.
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()
        raise ConnectionResetError
    content = reply.content
    headers = {"content-type": reply.content_type, **reply.headers}
    if reply.announced:
        headers["content-length"] = str(len(content))
    else:
        headers["connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
    _drip(handler, f"HTTP/1.1 {reply.status} X\r\n{lines}\r\n".encode(), reply.drip_headers)
    if handler.command != "HEAD":
        sent = content if reply.cut is None else content[: int(len(content) * reply.cut)]
        _drip(handler, sent, reply.drip)
    if reply.cut is not None or not reply.announced:
        handler.close_connection = True


def _drip(handler: _Handler, content: bytes, seconds: float) -> None:
    if not seconds:
        handler.wfile.write(content)
        return
    for byte in content:
        time.sleep(seconds)
        handler.wfile.write(bytes([byte]))


WHOLE = {"hits": {"total": {"value": 3}, "hits": [{"_id": str(i), "é": "ü"} for i in range(3)]}}


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def make_engine(url: str, clock: Clock, **settings: Any) -> Engine:
    retrying = Retrying(clock, clock.sleep)
    return Engine(ConnectionSettings(url, **{"timeout": 5.0, **settings}), retrying)


def message_of_failure(
    engine: Engine, *asked: Any, kind: type[Exception] = EngineUnavailable, **given: Any
) -> str:
    """The one line of the error that a request ends with."""
    with pytest.raises(kind) as error:
        engine.request(*asked, **given)
    return one_line(error)


def one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.isprintable()
    assert len(text) < 900
    return text
