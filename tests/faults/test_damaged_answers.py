"""Twenty-four thousand damaged HTTP answers: each is JSON, or one line of ours, within its time."""

from __future__ import annotations

import gzip
import json
import random
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import SearchAnswer, part_of
from owpc_ltr.engine.client.retry import Retrying
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.errors import OwpcLtrError
from tests.engine.fake_engine import Clock
from tests.faults.damaged_models import damaged
from tests.faults.seeds import Seeds

DEADLINE = 1.0
LARGEST = 200_000
WHOLE = {
    "took": 1,
    "timed_out": False,
    "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
    "hits": {"total": {"value": 1}, "hits": [{"_id": "d", "_score": 0.5, "_source": {"a": 1}}]},
}
FAULT = {"error": {"type": "x_exception", "reason": "no", "caused_by": {"reason": "why"}}}
STATUS = (
    *("HTTP/1.1 200 OK",) * 8,
    *(f"HTTP/1.1 {code} Odd" for code in (100, 101, 204, 206, 301, 304, 400, 401, 403, 404)),
    *(f"HTTP/1.1 {code} Odd" for code in (405, 429, 429, 500, 502, 503, 503, 504, 599, 999, 0)),
    *("HTTP/1.0 200", "HTTP/9.9 200 OK", "HTTP/1.1 -1 x", "HTTP/1.1 2000 x", "HTTP/1.1 abc x"),
    *("HTTP/1.1 \xb2\xb2\xb2 x", "ICY 200", "", "\x00", "HTTP/1.1 200 " + "x" * 70_000, "{}"),
)
NUMBERS = ("0", "-1", "5", "9" * 400, "1e999", "nan", "٣", "0x10", "", " ", "5, 6", "1_0", "\x00")
DATES = tuple(
    f"Mon, 01 Jan {year} 00:00:00 {zone}"
    for year in ("0000", "2024", "9999", "9" * 30)
    for zone in ("GMT", "+9999", "-9999", "+" + "9" * 20, "ZZZ", "")
)
HEADERS: dict[str, tuple[str, ...]] = {
    "Retry-After": (*NUMBERS, *DATES),
    "Content-Length": NUMBERS,
    "Content-Type": ("application/json", "text/html", "json;;;", "\x1b[31m", "", "x" * 9000),
    "Content-Encoding": ("gzip", "deflate", "br", "zstd", "gzip, gzip, gzip", "identity", "x"),
    "Transfer-Encoding": ("chunked", "gzip, chunked", "x", "identity"),
    "Location": ("http://elsewhere/", "//x", "\x00", "file:///etc/passwd"),
    "Connection": ("close", "keep-alive", "upgrade"),
    "Set-Cookie": ("a=b", "x" * 5000),
    "WWW-Authenticate": ("Basic", "Negotiate", "\x00"),
    "Warning": ('299 OpenSearch "old"', "\udcff"),
    "": ("", "no name"),
    "odd name": ("x",),
    " folded": ("x",),
}


def answer(chance: random.Random) -> bytes:
    """What something that stands in an engine's place may send."""
    body = json.dumps(chance.choice((WHOLE, WHOLE, FAULT))).encode()
    if chance.random() < 0.5:
        body = damaged(body, chance)
    given = {"Content-Type": "application/json"}
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        name = chance.choice(list(HEADERS))
        given[name] = chance.choice(HEADERS[name])
    encoding = given.get("Content-Encoding", "")
    if "gzip" in encoding and chance.random() < 0.8:
        body = gzip.compress(chance.choice((body, body, b"[" + b"0," * LARGEST + b"0]")))
    if "chunked" in given.get("Transfer-Encoding", "") and chance.random() < 0.8:
        size = chance.choice((f"{len(body):x}", "-1", "zz", "f" * 30, "", f"{len(body):x};a=b"))
        body = f"{size}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    elif chance.random() < 0.7:
        given.setdefault("Content-Length", str(len(body)))
    more = [f"X-{number}: y" for number in range(chance.choice((0,) * 30 + (300,)))]
    lines = [chance.choice(STATUS), *(f"{name}: {value}" for name, value in given.items()), *more]
    content = "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body
    if chance.random() < 0.15:
        content = damaged(content, chance) if content else content
    return content


class Impostor:
    """Answers every connection with the bytes that it is told, and closes it."""

    def __init__(self) -> None:
        self.content = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                try:
                    asked = b""
                    while not asked.endswith(b"{}") and (part := connection.recv(65_536)):
                        asked += part
                    connection.sendall(self.content)
                except OSError:
                    continue


@pytest.fixture
def impostor() -> Iterator[Impostor]:
    made = Impostor()
    yield made
    made.listener.close()


@pytest.mark.faults
def test_every_damaged_answer_is_json_or_one_line(seeds: Seeds, impostor: Impostor) -> None:
    counted: Counter[str] = Counter()
    settings = ConnectionSettings(
        impostor.url, timeout=5.0, deadline=DEADLINE, largest_answer=LARGEST
    )
    for seed in seeds(sample=100, whole=24_000):
        chance = random.Random(seed)  # noqa: S311
        impostor.content = answer(chance)
        clock = Clock()
        retrying = Retrying(clock, clock.sleep)
        engine = Engine(settings, retrying)
        try:
            given = engine.request("POST", "/i/_search", body={})
            counted["json"] += 1
            json.dumps(given)
            understood(given)
        except OwpcLtrError as error:
            message = str(error)
            counted[type(error).__name__] += 1
            check_message(message)
        finally:
            engine.close()
        # No pause is begun that does not leave time for an answer.
        assert sum(clock.pauses) <= DEADLINE
        assert min(clock.pauses, default=0.0) >= 0
    print(dict(counted))
    assert counted["json"] > 0
    assert counted.total() > counted["json"]


def check_message(message: str) -> None:
    assert message.isprintable(), message
    assert len(message) < 1200


def understood(given: Any) -> None:
    """Whoever asks looks only so at an answer."""
    SearchAnswer.read(given, {}, "it", scored=True)
    part_of(given, "hits", "it")
