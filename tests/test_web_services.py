"""Every service: what a web page may not do to it, and what one client may not take of it.

The services are found in the source, so that a new one is tested here or fails.
"""

from __future__ import annotations

import ast
import contextlib
import http.client
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model

ROOT = Path(__file__).parent.parent
SERVER = "owpc_ltr/host/web_service.py"
LISTENERS = frozenset({
    "uvicorn", "hypercorn", "gunicorn", "granian", "daphne", "waitress", "wsgiref", "aiohttp",
    "httpserver", "werkzeug", "flask", "socketserver", "http.server", "xmlrpc.server",
    "start_server", "start_unix_server", "create_server", "create_unix_server", "listen",
})  # fmt: skip
"""Packages and functions that accept connections."""


@dataclass(frozen=True)
class Start:
    """How a service is started, where a browser would write, and what it reads of a large body."""

    words: tuple[str, ...]
    path: str
    of_large: int


STARTS = {
    "plugins/owpc_ltr_serve/serve.py": Start(
        ("serve", "model.json", "--url", "http://127.0.0.1:9"), "/v2/rerank", 0
    ),
    "plugins/owpc_ltr_rating/page.py": Start(
        ("judge", "page", "sheet.csv", "--serve", "--out", "answers.jsonl"), "/answers", 65_537
    ),
}


def listeners_of(source: str) -> set[str]:
    """What a source uses to accept connections; the `WebServer` of this product counts."""
    servers: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            names += [alias.name for alias in node.names]
            if (node.module or "").endswith("web_service"):
                servers |= {"WebServer"} & {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        for name in names:
            parts = name.split(".")
            servers |= LISTENERS & {name, parts[0], ".".join(parts[:2])}
    return servers


def listeners() -> dict[str, set[str]]:
    """What each source file of the product uses to accept connections."""
    modules = {}
    for path in (*ROOT.glob("owpc_ltr/**/*.py"), *ROOT.glob("plugins/**/*.py")):
        source = path.read_text()
        if any(word in source for word in ("web_service", *LISTENERS)):
            modules[path.relative_to(ROOT).as_posix()] = listeners_of(source)
    return modules


FOUND = listeners()
SERVICES = sorted(path for path, names in FOUND.items() if "WebServer" in names)


def test_all_that_accepts_connections_is_the_server_of_this_product() -> None:
    assert FOUND[SERVER] >= {"uvicorn", "create_server", "listen"}
    assert {path for path, names in FOUND.items() if names - {"WebServer"}} == {SERVER}
    assert set(SERVICES) <= STARTS.keys()


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    import uvicorn",
        "from uvicorn import run",
        "from uvicorn.config import Config",
        "import importlib\nimportlib.import_module('uvicorn')",
        "import http.server",
        "from http import server",
        "from http.server import HTTPServer",
        "from asyncio import start_server",
        "import asyncio\nasyncio.start_server(f)",
        "import socket\nsocket.create_server(('', 1))",
        "import socket\nsocket.socket().listen()",
    ],
)
def test_a_listener_is_found_however_it_is_written(source: str) -> None:
    assert listeners_of(source)


@dataclass(frozen=True)
class Running:
    """A service as a process of its own."""

    port: int
    pid: int
    start: Start
    folder: Path

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """Status, headers and text of an answer; `sec_fetch_site=` is the header of that name."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            given = {name.replace("_", "-"): text for name, text in headers.items()}
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            answer_headers = {name.lower(): text for name, text in answer.getheaders()}
            return answer.status, answer_headers, answer.read().decode()

    def post(self, **headers: str) -> int:
        """The status of what a page might write."""
        return self.ask("POST", self.start.path, b"{}", **headers)[0]

    def sent(self, data: bytes, address: str = "127.0.0.1") -> socket.socket:
        """A connection from this address on which the data was sent."""
        opened = socket.create_connection(("127.0.0.1", self.port), 20, (address, 0))
        opened.sendall(data)
        return opened

    def answer(self, data: bytes) -> bytes:
        """All that comes until the service ends the connection."""
        parts = []
        with contextlib.closing(self.sent(data)) as opened, contextlib.suppress(ConnectionError):
            while part := opened.recv(65_536):
                parts.append(part)
        return b"".join(parts)


@contextlib.contextmanager
def running(module: str, folder: Path) -> Iterator[Running]:
    """The service of a module."""
    save_model(LinearModel(("a",), np.ones(1)), folder / "model.json")
    (folder / "sheet.csv").write_text("query_id,query,doc_id,grade\nq,words,d,\n")
    start = STARTS[module]
    process = subprocess.Popen(
        [sys.executable, "-m", "owpc_ltr", *start.words, "--port", "0"],
        cwd=folder, stderr=subprocess.PIPE, text=True,
        env={name: text for name, text in os.environ.items() if not name.startswith("OWPC_LTR")},
    )  # fmt: skip
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS // 2, DESCRIPTORS))
    try:
        assert process.stderr is not None
        port = None
        while port is None:
            line = process.stderr.readline()
            assert line, f"it ended with {process.wait(30)}"
            port = re.search(r"at http://127\.0\.0\.1:(\d+)", line)
        yield Running(int(port[1]), process.pid, start, folder)
    finally:
        process.kill()
        process.communicate(timeout=30)


@pytest.fixture(scope="module", params=SERVICES)
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    with running(request.param, tmp_path_factory.mktemp("service")) as made:
        yield made


JSON = "application/json"
DESCRIPTORS = 300
"""Those that a process may have: a third of them for connections."""


def head_of(service: Running, *more: str) -> bytes:
    lines = (
        f"POST {service.start.path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: {JSON}",
        *more,
    )
    return "\r\n".join((*lines, "", "")).encode()


def test_pages_of_other_origins_are_refused(service: Running) -> None:
    own = f"http://127.0.0.1:{service.port}"
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{service.port + 1}"},
        {"Origin": f"http://localhost:{service.port}"},
        {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "http://127.0.0.1:1", "Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "Cross-Site"},
    ):
        assert service.post(Content_Type=JSON, **headers) == 403, headers
        assert service.ask("GET", "/", None, **headers)[0] == 403, headers
    taken = service.post(Content_Type=JSON)
    assert taken in {400, 422}  # `{}` is neither a rerank request nor an answer
    for headers in ({"Origin": own}, {"Origin": own, "Sec_Fetch_Site": "same-origin"}):
        assert service.post(Content_Type=JSON, **headers) == taken, headers
    assert service.ask("GET", "/", Sec_Fetch_Site="none")[0] in {200, 404}


def test_a_body_without_the_type_of_json_is_refused(service: Running) -> None:
    for kind in ("text/plain", "text/plain; a=/json", "application/x-www-form-urlencoded",
                 "multipart/form-data; boundary=+json", "", "json"):  # fmt: skip
        assert service.post(Content_Type=kind) == 415, kind
    assert service.post() == 415
    assert not any(path.stat().st_size for path in service.folder.glob("answers.jsonl"))


def test_the_name_of_the_service_is_demanded(service: Running) -> None:
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "",
        f"evil:{service.port}",
        "127.0.0.1:x",
    ):
        assert service.post(Content_Type=JSON, Host=host) == 400, host
    for host in ("localhost", "LOCALHOST:1", f"127.0.0.1:{service.port}", "[::1]:80", "[::1]"):
        assert service.post(Content_Type=JSON, Host=host) in {400, 422}
        assert service.ask("GET", "/nothing", Host=host)[0] == 404, host


def test_no_answer_is_shown_in_a_frame_or_says_what_serves_it(service: Running) -> None:
    large = head_of(service, "Content-Length: 11000000", "Connection: close")
    answers = {
        404: service.ask("GET", "/nothing"),
        405: service.ask("PUT", service.start.path),
        415: service.ask("POST", service.start.path, b"{}"),
        403: service.ask("GET", "/", Origin="null"),
        400: service.ask("GET", "/", Host="evil.example"),
    }
    for page in ("/", "/health"):
        answer = service.ask("GET", page)
        answers |= {200: answer} if answer[0] == 200 else {}
    texts: dict[Any, dict[str, str]] = {status: answer[1] for status, answer in answers.items()}
    for status, data in (
        (400, b"no request\r\n\r\n"),
        (413, large + b"x" * service.start.of_large),
        (431, head_of(service, *["a: b"] * 101)),
        (431, head_of(service, f"a: {'b' * 20_000}")),
        (400, head_of(service, "Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 5_000),
    ):
        first, *lines = service.answer(data).partition(b"\r\n\r\n")[0].decode().split("\r\n")
        assert int(first.split()[1]) == status
        headers = dict(line.lower().split(": ", 1) for line in lines)
        texts[status, data] = headers
    assert {200, 400, 403, 404, 405, 415} <= texts.keys()
    for status, headers in texts.items():
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy, status
        assert "default-src 'none'" in policy, status
        assert headers["x-frame-options"].upper() == "DENY", status
        assert headers["x-content-type-options"] == "nosniff", status
        assert "server" not in headers, status
    for status, answer in answers.items():
        assert answer[0] == status


def test_a_request_behind_another_is_bounded_too(service: Running) -> None:
    """Its head is read with the body of the one before."""
    large = head_of(service, *["a: b"] * 9_000)
    for before in (b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                   head_of(service, "Content-Length: 2") + b"{}"):  # fmt: skip
        assert b" 431 " in service.answer(before + large)


def test_bodies_that_do_not_come_keep_nobody_out(service: Running) -> None:
    """More connections than the process may have; each waits for its body."""
    slow = head_of(service, "Content-Length: 5000") + b"{"
    polite = b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        opened = [stack.enter_context(service.sent(b"GET /", "127.0.0.3"))]

        def flood() -> None:
            opened.extend(stack.enter_context(service.sent(slow)) for _ in range(40))

        def asked(_: int) -> bytes:
            with service.sent(polite, "127.0.0.2") as connection:
                return connection.recv(12)

        floods = [pool.submit(flood) for _ in range(8)]
        lines = list(pool.map(asked, range(20)))
        for future in floods:
            future.result(20)
        lines += map(asked, range(20))
        assert lines == [b"HTTP/1.1 404"] * 40
        # The one that waits longest is of an address that has few.
        opened[0].sendall(b"nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert opened[0].recv(12) == b"HTTP/1.1 404"


def test_a_process_takes_all_the_descriptors_that_it_may_have(service: Running) -> None:
    assert service.ask("GET", "/nothing")[0] == 404
    assert resource.prlimit(service.pid, resource.RLIMIT_NOFILE) == (DESCRIPTORS, DESCRIPTORS)
