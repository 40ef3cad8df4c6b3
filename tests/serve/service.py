"""`owpc-ltr serve` as a process of its own, and a client that speaks plain HTTP to it."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from owpc_ltr_serve.metrics import Metrics

from owpc_ltr.host.web_service import FairHttp, WebServer, listening

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v2/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True)
class Answer:
    """Status, headers (names in lower case) and body of an answer."""

    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)


@dataclass
class Service:
    """A running service: its process, its address, and what it prints."""

    process: subprocess.Popen[str]
    host: str
    port: int

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 20.0,
    ) -> Answer:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        try:
            content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, content, {**JSON, **(headers or {})})
            response = connection.getresponse()
            headers_by_name = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers_by_name, response.read())
        finally:
            connection.close()

    def printed(self) -> str:
        """What it has printed, when it has ended."""
        return self.process.communicate(timeout=30)[1]


class NotedMetrics(Metrics):
    """Remembers what it is told."""

    def __init__(self) -> None:
        super().__init__(dict)
        self.answers: list[tuple[str, int]] = []
        self.degradations: list[tuple[str, str]] = []
        self.stages: list[str] = []
        self.rows: list[Any] = []

    def answered(self, path: str, status: int, seconds: float) -> None:
        assert 0 <= seconds < 60
        self.answers.append((path, status))

    def degraded(self, path: str, reason: str) -> None:
        self.degradations.append((path, reason))

    def stage(self, path: str, stage: str, seconds: float) -> None:
        assert seconds >= 0
        self.stages.append(stage)

    def scored(self, served: Any, matrix: Any) -> None:
        self.rows.append(matrix)


@contextmanager
def in_a_thread(
    app: Any, port: int = 0, seconds: float | None = None, **options: Any
) -> Iterator[tuple[WebServer, int]]:
    """The application in a thread of this process: its server, and its port.

    Clients have so many `seconds`.
    """
    server = WebServer(app, (), **options)
    with pytest.MonkeyPatch.context() as patch, listening("127.0.0.1", port) as listener:
        port = listener.getsockname()[1]
        if seconds is not None:
            patch.setattr(FairHttp, "seconds", seconds)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield server, port
        finally:
            server.should_exit = True
            thread.join(20)


@contextmanager
def service(
    folder: Path, url: str, *words: str, environ: Mapping[str, str] | None = None
) -> Iterator[Service]:
    """The service of an engine, on a free port; it is killed where it is still there at the end."""
    port = () if "--port" in words else ("--port", "0")
    line = [sys.executable, "-m", "owpc_ltr", "serve", *words, "--url", url, *port]
    known = {name: value for name, value in os.environ.items() if not name.startswith("OWPC_LTR")}
    process = subprocess.Popen(
        line, cwd=folder, env={**known, **(environ or {})}, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        first = ""
        while " at http" not in first:
            first = process.stderr.readline()
            assert first, f"it ended with {process.wait(30)}"
        address = urlsplit(first.split()[-1])
        assert address.hostname is not None
        assert address.port is not None
        yield Service(process, address.hostname, address.port)
    finally:
        process.kill()
        process.wait(30)
        assert process.stderr is not None
        process.stderr.close()
