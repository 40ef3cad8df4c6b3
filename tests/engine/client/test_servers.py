"""Servers that harm: whoever asks one is bounded in time and bytes, and every caller is listed."""

from __future__ import annotations

import ast
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from owpc_ltr.engine.client import retry, servers
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.retry import Retrying
from owpc_ltr.engine.client.servers import LARGEST_ERROR, Server
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, UsageError
from tests.engine.fake_engine import FakeEngine, Reply

SECONDS = 0.4
BUFFERS = 8_000_000
"""Bytes that may be on their way when nobody reads any more."""


@contextmanager
def harmful(head: str, part: bytes, pause: float = 0.0) -> Iterator[tuple[str, list[int]]]:
    """The address of a server whose answers never end, and how many bytes it could send."""
    sent: list[int] = []

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            connection.recv(65_536)
            connection.sendall(
                f"HTTP/1.1 {head}\r\nContent-Type: application/json\r\n\r\n".encode()
            )
            while True:
                connection.sendall(part)
                sent.append(len(part))
                time.sleep(pause)

    def serve() -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                threading.Thread(target=answer, args=listener.accept()[:1], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", sent
        listener.shutdown(socket.SHUT_RDWR)


def engine(url: str) -> str:
    settings = ConnectionSettings(url, timeout=SECONDS, deadline=SECONDS, largest_answer=1 << 20)
    asked = Engine(settings)
    with pytest.raises(OwpcLtrError) as raised:
        asked.request("GET", "/")
    asked.close()
    return str(raised.value)


def model(url: str) -> str:
    from owpc_ltr_rating import language_model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language_model, "_SECONDS", SECONDS)
        patch.setattr(language_model, "_TRIES", 1)
        with pytest.raises(OwpcLtrError) as raised:
            language_model.ChatEndpoint(f"{url}/v1", "m").ask("x")
    return str(raised.value)


def webhook(url: str) -> str:
    from owpc_ltr_keep import keep
    from owpc_ltr_keep.plan import KeepNotify
    from owpc_ltr_keep.state import KeepStep

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keep, "_SECONDS", SECONDS)
        patch.setenv("HOOK", url)
        step = KeepStep(time="2027-01-31T03:17:00Z", step="run", line="x", end="failed")
        return str(keep.notify(KeepNotify(webhook="HOOK"), "m", step))


class Caller(NamedTuple):
    """Who asks a server, and the module that does it."""

    ask: Callable[[str], str]
    module: str


CALLERS = {
    # `judge push`, UBI and all else of a cluster go through it.
    "engine": Caller(engine, "owpc_ltr.engine.client.engine"),
    "model": Caller(model, "owpc_ltr_rating.language_model"),
    "webhook": Caller(webhook, "owpc_ltr_keep.keep"),
}
OTHERS = {
    "owpc_ltr.engine.client.connection": "the engine's connection class",
    "owpc_ltr.engine.client.servers": "what all callers ask by",
    "owpc_ltr_node.engine": "looks for a free port of this machine",
    "owpc_ltr_node.home": "downloads of recorded size and sum, through the user's proxy",
    "owpc_ltr_node.make_lock": "a script of a release",
    "owpc_ltr_node.process": "the node that it has started itself",
    "owpc_ltr.host.web_service": "the socket that it listens on",
}
"""Modules that open connections, or listen, for another reason."""
NETWORK = {
    *("urllib3", "requests", "httpx", "aiohttp", "socket", "smtplib", "ftplib", "websockets"),
    *("http.client", "urllib.request", "xmlrpc.client"),
}
OURS = {"owpc_ltr.engine.client.servers", "owpc_ltr.engine.client.connection"}
PRESENT = [name for name, who in CALLERS.items() if find_spec(who.module.partition(".")[0])]


@pytest.mark.parametrize("caller", PRESENT)
@pytest.mark.parametrize("status", ["200 OK", "500 Oops", "404 Not Found", "302 Found"])
def test_an_answer_without_an_end_costs_little(caller: str, status: str) -> None:
    begun = time.monotonic()
    with harmful(status, b"x" * 65_536) as (url, sent):
        CALLERS[caller].ask(url)
        assert time.monotonic() - begun < 10 * SECONDS
        time.sleep(0.05)
        assert sum(sent) < LARGEST_ERROR + (1 << 20) + BUFFERS


@pytest.mark.parametrize("caller", PRESENT)
@pytest.mark.parametrize("head", ["200 OK", "500 Oops", "200 OK\r\nX-More: "])
def test_an_answer_that_drips_ends_by_the_whole_time(caller: str, head: str) -> None:
    begun = time.monotonic()
    with harmful(head, b"x", SECONDS / 20) as (url, _):
        assert "no answer in time" in CALLERS[caller].ask(url)
    assert SECONDS / 2 < time.monotonic() - begun < 5 * SECONDS


@pytest.mark.parametrize("caller", PRESENT)
def test_a_server_that_is_not_there_is_told_at_once(
    caller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    assert "refused" in CALLERS[caller].ask("http://127.0.0.1:9")


def test_a_wait_that_a_server_asks_for_is_told_and_bounded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    with FakeEngine() as fake:
        busy = Reply({}, 429, headers={"Retry-After": "40"})
        fake.on("POST", "/x", busy, busy, Reply({}, 503), Reply({"a": 1}))
        answer = Server(f"{fake.url}/x", seconds=5, tries=5).post({})
        assert (answer.content, slept) == (b'{"a": 1}', [40.0, 40.0, 2.0])
        message = f"waiting 40 s, as {fake.url.removeprefix('http://')} asks\n"
        assert capsys.readouterr().err == message * 2
        fake.on("POST", "/x", busy)
        with pytest.raises(EngineUnavailable, match="it is busy, and asks to wait 40 s"):
            Server(f"{fake.url}/x", seconds=5, tries=5).post({})
        assert sum(slept[3:]) == 80
        fake.on("GET", "/", Reply({}, 429, headers={"Retry-After": "7200"}))
        settings = ConnectionSettings(fake.url, deadline=86_400)
        with pytest.raises(EngineUnavailable, match="asks to wait 7,200 s; tried once in"):
            Engine(settings, Retrying(sleep=slept.append)).request("GET", "/")
        fake.on("GET", "/", Reply({}, 429, headers={"Retry-After": "9"}), {"a": 1})
        engine = Engine(settings, Retrying(sleep=slept.append))
        assert engine.request("GET", "/") == {"a": 1}
        assert slept[-1] == 9.0
        assert capsys.readouterr().err.endswith("waiting 9 s, as the engine asks\n")
    assert retry.LONGEST_WAIT == 100


def test_a_long_error_of_an_engine_is_told_by_its_beginning() -> None:
    with FakeEngine() as fake:
        fake.on("GET", "/a", Reply({"error": "x" * (2 * LARGEST_ERROR)}, 500))
        with pytest.raises(OwpcLtrError, match=r"an answer of more than 262144 bytes: .*\(500\)"):
            Engine(ConnectionSettings(fake.url)).request("GET", "/a")


@pytest.mark.parametrize("url", ["", "ftp://host", "https://", "host/path", "http://host:x/s3cret"])
def test_what_is_no_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(UsageError, match="no address of a server: write it as") as raised:
        Server(url, seconds=1)
    assert "s3cret" not in str(raised.value)


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{name.name}" for name in node.names))


def _asks(path: Path) -> set[str]:
    """Which modules of the network, or of our clients, a module uses."""
    text = path.read_text()
    if not any(name.partition(".")[0] in text for name in (*NETWORK, "engine.client")):
        return set()
    used = {*_imports(ast.parse(text))}
    return {name for name in used if name in OURS | NETWORK or name.partition(".")[0] in NETWORK}


def test_every_module_that_asks_a_server_is_on_the_list(tmp_path: Path) -> None:
    root = Path(servers.__file__).parents[3]
    network, callers = set(), set()
    for path in (*root.glob("owpc_ltr/**/*.py"), *root.glob("plugins/owpc_ltr_*/**/*.py")):
        place = path.relative_to(root / "plugins" if "plugins" in path.parts else root)
        name, used = ".".join(place.with_suffix("").parts), _asks(path)
        if used - OURS:
            network.add(name)
        elif used:
            callers.add(name)
    there = {name for name in OTHERS if find_spec(name.partition(".")[0])}
    assert network == there, "ask by servers.Server, which bounds what an answer may cost"
    assert callers == {CALLERS[name].module for name in PRESENT}
    for liar in ("import urllib.request", "from http import client", "import httpx as h"):
        (tmp_path / "liar.py").write_text(liar)
        assert _asks(tmp_path / "liar.py")


def test_each_caller_asks_by_the_bounded_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def unbounded(*given: Any, **_bounds: Any) -> Any:
        asked.append(given)
        raise TimeoutError

    monkeypatch.setattr(servers, "exchange", unbounded)
    monkeypatch.setattr("owpc_ltr.engine.client.connection.exchange", unbounded)
    for caller in PRESENT:
        before = len(asked)
        CALLERS[caller].ask("http://127.0.0.1:9")
        assert len(asked) > before
