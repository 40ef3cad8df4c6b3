"""Faults of everything around the service: nothing hangs, and no order is wrong without a word."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from owpc_ltr_serve import app as app_module
from owpc_ltr_serve.app import ServeSettings, create_app
from owpc_ltr_serve.endpoint import MODEL_HEADER, STATUS_HEADER
from owpc_ltr_serve.experiment_search import ImpressionLog
from owpc_ltr_serve.metrics import Metrics
from owpc_ltr_serve.rankers import Rankers
from owpc_ltr_serve.serve import service_endpoints

from owpc_ltr import connect
from owpc_ltr.host import web_service
from owpc_ltr.host.web_service import FIRST_BYTE, WebServer
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from tests.engine.fake_engine import Asked, FakeEngine, Reply
from tests.serve.searched_engine import INDEX, MODEL, NAMES, SearchedEngine, model_scores
from tests.serve.service import HEAD, JSON, Answer, Service, in_a_thread, service
from tests.session_node import free_port

SEARCH: dict[str, Any] = {
    "query": {"match": {"title": "title"}},
    "ext": {"owpc_ltr": {"model": "model", "params": {"keywords": "title"}}},
}
STATUS_NAME, MODEL_NAME = STATUS_HEADER.lower(), MODEL_HEADER.lower()
BEST = [f"d{n}" for n in np.argsort(-np.array(model_scores(list(range(100)))), kind="stable")[:10]]
FIRST = [f"d{n}" for n in range(10)]
DEADLINE, LATE = 1.0, 1.5


@dataclass
class Running(Service):
    """A service in a thread of this process, before a fake engine."""

    engine: SearchedEngine
    fake: FakeEngine
    rankers: Rankers
    folder: Path
    server: WebServer

    def search(self, **more: Any) -> Answer:
        """The search of the tests."""
        return self.ask("POST", f"/{INDEX}/_search", {**SEARCH, **more})


@contextlib.contextmanager
def running(
    folder: Path, deadline: float = 20.0, impressions: ImpressionLog | None = None, port: int = 0
) -> Iterator[Running]:
    """A service whose engine can be made to fail."""
    save_model(MODEL, folder / "model.json")
    with FakeEngine() as fake:
        engine = SearchedEngine()
        engine.scripts(fake)
        cluster = connect(fake.url, store_kind="plugin-free")
        rankers = Rankers(cluster, [folder / "model.json"], INDEX, refresh=0.05)
        metrics = Metrics(rankers.states)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("owpc_ltr_serve.serve.LATE", LATE)
            endpoints = service_endpoints(rankers, metrics, impressions)
        settings = ServeSettings(8, deadline)
        app = create_app(rankers, settings, metrics, endpoints)
        with in_a_thread(app, port, 0.6) as (server, bound):
            yield Running(
                None, "127.0.0.1", bound, engine, fake, rankers, folder, server  # type: ignore[arg-type]
            )  # fmt: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("gateway"), DEADLINE) as made:
        yield made


@pytest.fixture(autouse=True)
def _healed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test does to the shared engine ends with it."""
    yield
    if "gateway" in request.fixturenames:
        made: Running = request.getfixturevalue("gateway")
        made.fake.on("POST", f"/{INDEX}/_search", made.engine.answer)


def ids(answer: Answer) -> list[str]:
    """The documents of an answer, in its order."""
    return [hit["_id"] for hit in answer.json()["hits"]["hits"]]


def said_order(answer: Answer) -> str:
    """Whether an answer is ranked, degraded or refused; its order is the one that it says."""
    if answer.status != 200:
        assert answer.status in {503, 504}, answer
        assert answer.status == 504 or answer.headers["retry-after"] == "1"
        return str(answer.status)
    word = answer.headers[STATUS_NAME].partition(";")[0]
    assert ids(answer) == {"ranked": BEST, "degraded": FIRST}[word]
    return word


def eventually(holds: Callable[[], Any]) -> bool:
    """Whether it is so within some seconds."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.01)
    return False


def recovers(made: Running) -> bool:
    """Whether searches are ranked again; a busy machine may miss a deadline or two."""
    return eventually(lambda: said_order(made.search()) == "ranked")


def at_once(number: int, work: Callable[[], Any]) -> list[Any]:
    """What so many threads return."""
    with ThreadPoolExecutor(number) as pool:
        return [future.result(60) for future in [pool.submit(work) for _ in range(number)]]


# The engine


def test_more_searches_than_an_engine_takes_that_hangs_end_in_time_and_it_recovers(
    gateway: Running,
) -> None:
    release = threading.Event()

    def hangs(asked: Asked) -> Reply:
        release.wait(20)
        return gateway.engine.answer(asked)

    gateway.fake.on("POST", f"/{INDEX}/_search", hangs)

    def timed() -> tuple[str, float]:
        started = time.monotonic()
        return said_order(gateway.search()), time.monotonic() - started

    answers = at_once(40, timed)
    assert {word for word, _ in answers} == {"503", "504"} or {word for word, _ in answers} == {
        "503"
    }
    assert max(seconds for _, seconds in answers) < DEADLINE + LATE + 1
    turned_away = [seconds for word, seconds in answers if word == "503"]
    assert len(turned_away) >= 32
    release.set()
    gateway.fake.on("POST", f"/{INDEX}/_search", gateway.engine.answer)
    assert recovers(gateway)


@pytest.mark.parametrize("seconds", [0.4 * DEADLINE, 1.2 * DEADLINE])
def test_an_engine_that_is_slow_gives_its_own_order_late(gateway: Running, seconds: float) -> None:
    """The search with features takes it beyond its share, and the plain one beyond the deadline."""

    def slow(asked: Asked) -> Reply:
        time.sleep(2 * seconds if "rescore" in asked.body else seconds)
        return gateway.engine.answer(asked)

    gateway.fake.on("POST", f"/{INDEX}/_search", slow)
    for answer in at_once(4, gateway.search):
        assert said_order(answer) == "degraded"
        assert answer.headers[STATUS_NAME].partition(": ")[0] in {
            "degraded; deadline", "degraded; engine",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("denied", "status"),
    [
        ("GET /", "ranked"),
        (
            "a search with features",
            "degraded; right: the service's account needs the index "
            "privilege indices:data/read/search (403)",
        ),
        ("every search", None),
    ],
)
def test_a_missing_right_is_named_without_the_engines_address(
    tmp_path: Path, denied: str, status: str | None
) -> None:
    error = {"type": "security_exception", "reason": "action [indices:data/read/search] is denied"}
    forbidden = Reply({"error": {**error, "root_cause": [error]}, "status": 403}, 403)

    def answer(asked: Asked) -> Reply:
        features = "rescore" in asked.body or "constant_score" in asked.body["query"]
        return forbidden if features or denied == "every search" else made.engine.answer(asked)

    with running(tmp_path) as made:
        if denied == "GET /":
            made.fake.on("GET", "/", forbidden)
        else:
            made.fake.on("POST", f"/{INDEX}/_search", answer)
        got = made.search()
    if status is None:
        assert got.status == 502
        assert got.json()["error"]["reason"] == (
            "the service's account needs the index privilege indices:data/read/search (403)"
        )
        return
    assert got.headers[STATUS_NAME] == status
    assert ids(got) == (BEST if status == "ranked" else FIRST)
    if denied == "GET /":
        assert ["rescore" in asked.body for asked in made.engine.asked] == [False, False]


def test_an_engine_that_fails_now_and_then_never_gives_an_order_that_is_not_said(
    gateway: Running, rng: np.random.Generator
) -> None:
    faults = [
        Reply(reset=True),
        Reply({}, 503),
        Reply({"error": {"type": "x", "reason": "y"}}, 500),
        Reply(b"<html>"),
        Reply({"timed_out": True}),
    ]
    lock = threading.Lock()

    def answer(asked: Asked) -> Reply:
        with lock:
            number = int(rng.integers(12))
        reply = gateway.engine.answer(asked)
        if number == 5:
            return Reply(reply.body, cut=0.7)
        if number == 6:  # a hit is gone, and the total says that it was there
            reply.body["hits"]["hits"].pop()
            return reply
        return faults[number] if number < len(faults) else reply

    gateway.fake.on("POST", f"/{INDEX}/_search", answer)

    def search() -> str:
        answered = gateway.search()
        if answered.status in {500, 200} and answered.headers.get(STATUS_NAME) is None:
            assert answered.json()["error"]["type"] == "x"  # the engine's own error, passed on
            return "error"
        if answered.headers.get(STATUS_NAME, "").startswith("degraded"):
            # The plain answer is passed on as it came, whatever the engine makes of it.
            return "degraded"
        return said_order(answered)

    with ThreadPoolExecutor(6) as pool:
        words = Counter(pool.map(lambda _: search(), range(48)))
    assert words["ranked"] > 13
    assert words.total() == 48


def test_an_engine_that_is_down_is_503_and_its_return_is_seen_at_once(gateway: Running) -> None:
    gateway.fake.on("POST", f"/{INDEX}/_search", Reply(reset=True))
    started = time.monotonic()
    assert said_order(gateway.search()) == "503"
    assert time.monotonic() - started < DEADLINE + LATE + 0.2
    gateway.fake.on("POST", f"/{INDEX}/_search", gateway.engine.answer)
    assert recovers(gateway)


def test_health_tells_within_seconds_that_the_engine_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "SILENCE", 1.0)
    with running(tmp_path) as made:

        def health() -> Any:
            return made.ask("GET", "/health").json()

        assert eventually(lambda: health()["engine_answered_seconds_ago"] is not None)
        assert health()["status"] == "ok"
        made.fake.on("GET", "/", Reply(reset=True))
        stopped = time.monotonic()
        assert eventually(lambda: health()["status"] == "degraded")
        assert time.monotonic() - stopped < 4
        assert health()["engine_answered_seconds_ago"] >= 1
        made.fake.on("GET", "/", Reply({"error": {"type": "x", "reason": "y"}}, 403))
        assert eventually(lambda: health()["status"] == "ok")


# Models


def test_a_model_that_can_no_longer_be_loaded_stays_as_it_was(gateway: Running) -> None:
    path = gateway.folder / "model.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])

    def health() -> Any:
        return gateway.ask("GET", "/health").json()

    assert eventually(lambda: health()["status"] == "degraded")
    assert recovers(gateway)
    assert "model.json" in health()["models"]["model"]["fault"]
    path.write_bytes(whole)
    assert recovers(gateway)


def test_a_model_that_is_replaced_under_load_ranks_each_answer_alone(tmp_path: Path) -> None:
    """No answer mixes two models: its order is that of the digest which it names."""
    signs = {}
    with running(tmp_path) as made:
        path = tmp_path / "model.json"
        scores = np.array(model_scores(list(range(100))))
        for sign in (1.0, -1.0):
            save_model(LinearModel(NAMES, sign * MODEL.weights, record=MODEL.record), path)
            assert eventually(lambda: made.search().headers[MODEL_NAME] not in signs)
            name = made.search().headers[MODEL_NAME]
            signs[name] = [f"d{n}" for n in np.argsort(-sign * scores, kind="stable")[:10]]
        ended = threading.Event()

        def switch() -> None:
            turn = 1.0
            while not ended.wait(0.07):
                turn = -turn
                save_model(LinearModel(NAMES, turn * MODEL.weights, record=MODEL.record), path)

        thread = threading.Thread(target=switch)
        thread.start()
        try:
            seen: Counter[str] = Counter()
            for _ in range(12):
                for answer in at_once(4, made.search):
                    assert ids(answer) == signs[answer.headers[MODEL_NAME]]
                    seen[answer.headers[MODEL_NAME]] += 1
        finally:
            ended.set()
            thread.join()
    assert min(seen[name] for name in signs) > 0


# Clients


def connected(made: Service, sent: bytes) -> socket.socket:
    """A connection on which this was sent, and nothing more is."""
    connection = socket.create_connection((made.host, made.port), timeout=10)
    connection.sendall(sent)
    return connection


HALF_HEADERS = b"POST /v2/rerank HTTP/1.1\r\nHost: localhost\r\nX-"
HALF_BODY = HEAD + b"Content-Length: 5000\r\n\r\n{"


def ended(connection: socket.socket) -> bytes:
    """What comes until the service ends the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            parts.append(part)
    connection.close()
    return b"".join(parts)


def check_slow_clients(made: Service, number: int, seconds: float) -> None:
    """Slow clients are dropped in time, and others are answered all the while."""
    started = time.monotonic()
    silent = [connected(made, b"") for _ in range(number)]
    headers = [connected(made, HALF_HEADERS) for _ in range(number)]
    bodies = [connected(made, HALF_BODY) for _ in range(number // 2)]
    dripping = connected(made, HALF_HEADERS)
    answered = 0
    while time.monotonic() < started + seconds:
        assert made.ask("GET", "/health").status == 200
        answered += 1
        # However fast the machine is, the head stays shorter than what is refused.
        time.sleep(0.002)
        with contextlib.suppress(OSError):
            dripping.sendall(b"a")
    assert answered > 10
    assert all(ended(connection) == b"" for connection in (*silent, *headers, dripping))
    assert all(ended(connection).startswith(b"HTTP/1.1 408") for connection in bodies)
    assert time.monotonic() - started < seconds + 3


def test_slow_clients_are_dropped_and_hold_up_nobody(gateway: Running) -> None:
    check_slow_clients(gateway, 40, 1.0)
    assert recovers(gateway)


def test_the_time_of_a_request_begins_with_its_first_byte(gateway: Running) -> None:
    connection = connected(gateway, b"POST /v2/rerank HTTP/1.1\r\n")
    assert gateway.ask("GET", "/health").status == 200  # and the first bytes were read before
    whole = time.monotonic()
    connection.sendall(b"Host: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n")

    def scopes() -> list[Any]:
        made = [
            getattr(open_connection, "cycle", None)
            for open_connection in list(gateway.server.server_state.connections)
        ]
        return [cycle.scope for cycle in made if cycle is not None and FIRST_BYTE in cycle.scope]

    assert eventually(lambda: [each for each in scopes() if each["path"] == "/v2/rerank"])
    (scope,) = [each for each in scopes() if each["path"] == "/v2/rerank"]
    assert scope[FIRST_BYTE] < whole
    connection.close()


def test_a_client_that_does_not_read_its_answer_is_dropped(tmp_path: Path) -> None:
    with running(tmp_path) as made:
        source = {"text": "x" * 100_000}

        def large(asked: Asked) -> Reply:
            reply = made.engine.answer(asked)
            for hit in reply.body["hits"]["hits"]:
                hit["_source"] = source
            return reply

        made.fake.on("POST", f"/{INDEX}/_search", large)
        body = json.dumps({**SEARCH, "size": 60}).encode()
        head = f"POST /{INDEX}/_search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((made.host, made.port))
        connection.sendall(head.encode() + body)
        assert eventually(lambda: made.server.server_state.connections)
        assert eventually(lambda: not made.server.server_state.connections)
        assert len(ended(connection)) < 6_000_000


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1_000_000,
        b'{"query":' * 100_000,
        b'{"query": {"match": {"title": "' + b"x" * 9_000_000 + b'"}}}',
        b'{"size": 1e400}',
        b'{"size": ' + b"9" * 100_000 + b"}",
        b'{"a": "\\ud800"}',
        b"\xff\xfe",
        b"\0" * 1000,
    ],
    ids=["lists", "objects", "text", "infinite", "digits", "half", "no-utf8", "zeros"],
)
def test_hostile_bodies_are_refused_in_a_moment(gateway: Running, body: bytes) -> None:
    started = time.monotonic()
    answer = gateway.ask("POST", f"/{INDEX}/_search", body)
    assert answer.status == (413 if body[:2] == b"[[" else 400), answer.content[:200]
    assert b"illegal_argument_exception" in answer.content or answer.status == 413
    assert time.monotonic() - started < 2


def test_a_window_of_ten_thousand_documents_is_ranked_or_degraded_in_time(tmp_path: Path) -> None:
    with running(tmp_path, DEADLINE) as made:
        made.engine.documents = 100_000
        ext = {"owpc_ltr": {**SEARCH["ext"]["owpc_ltr"], "window": 10_000}}
        started = time.monotonic()
        answer = made.search(ext=ext)
        assert time.monotonic() - started < DEADLINE + 0.5
        if answer.status == 200:
            assert answer.headers[STATUS_NAME].startswith(("ranked", "degraded"))
        refused = made.search(ext={"owpc_ltr": {"model": "model", "window": 100_000}})
        assert refused.status == 400
        assert recovers(made)


def test_other_paths_are_not_forwarded_and_say_so(gateway: Running) -> None:
    before = len(gateway.fake.requests)
    for method, path in (
        ("GET", "/"),
        ("GET", "/_cat/indices"),
        ("POST", "/_search"),
        ("POST", f"/{INDEX}/_msearch"),
        ("DELETE", f"/{INDEX}"),
        ("PUT", f"/{INDEX}/_doc/1"),
        ("POST", f"/{INDEX}/_search/template"),
        ("POST", f"/{INDEX}/_search/"),
        ("POST", f"/a%2Fb/{INDEX}/_search"),
    ):
        answer = gateway.ask(method, path, {})
        assert answer.status == 404, path
        assert "other paths are not forwarded" in answer.json()["message"]
    for path in (f"/{INDEX}/_search", "/v2/rerank"):
        assert gateway.ask("GET", path).status == 405
    for path in ("/%2e%2e/_search", "/a%0d%0ab/_search", "/*/_search", "/_all/_search"):
        assert gateway.ask("POST", path, SEARCH).status in {400, 404}
    asked = [request.path for request in gateway.fake.requests[before:]]
    assert not [path for path in asked if path != "/"]


def test_the_pattern_of_a_path_is_no_path_itself(gateway: Running) -> None:
    answer = gateway.ask("POST", "/{index}/_search", SEARCH)
    assert (answer.status, answer.json()["error"]["type"]) == (400, "illegal_argument_exception")


def test_a_head_request_has_the_answers_headers_and_no_body(gateway: Running) -> None:
    for path in ("/health", "/metrics"):
        answer = gateway.ask("HEAD", path)
        assert (answer.status, answer.content) == (200, b"")
        assert int(answer.headers["content-length"]) > 0


def test_a_client_that_offers_http2_is_answered_in_http11(gateway: Running) -> None:
    # Java's own client offers it with every request, and sends the body all the same.
    offer = {
        "Connection": "Upgrade, HTTP2-Settings",
        "Upgrade": "h2c",
        "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
    }
    connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=20)
    with contextlib.closing(connection):
        for _ in range(2):
            connection.request("POST", f"/{INDEX}/_search", json.dumps(SEARCH), {**JSON, **offer})
            answer = connection.getresponse()
            assert [hit["_id"] for hit in json.load(answer)["hits"]["hits"]] == BEST


def test_no_header_of_an_answer_is_made_by_who_asks(tmp_path: Path) -> None:
    log = ImpressionLog(tmp_path / "shown.jsonl")
    with running(tmp_path, impressions=log) as made:
        for given in ("q\r\nSet-Cookie: a=b", "\u6f22\u5b57", "x" * 101, {"a": 1}, 7, " a", ""):
            answer = made.search(ext={**SEARCH["ext"], "ubi": {"query_id": given}})
            assert answer.status == 400
            assert "1 to 100 printable ASCII characters" in answer.json()["error"]["reason"]
        for own in ("a b/c", "x" * 100, None):
            answer = made.search(ext={**SEARCH["ext"], "ubi": {"query_id": own}})
            logged = json.loads((tmp_path / "shown.jsonl").read_text().splitlines()[-1])
            assert answer.headers["x-ltr-query-id"] == logged["query_id"]
            assert own in {None, logged["query_id"]}


def test_faults_of_a_request_are_its_own(gateway: Running) -> None:
    deep: Any = {"match_all": {}}
    for _ in range(180):
        deep = {"bool": {"must": deep}}
    assert gateway.search(query=deep).status == 400
    for params in ({"keywords": "x" * 10_001}, {"keywords": "a " * 1_001}, {"v": [1.5] * 60_000}):
        assert gateway.search(ext={"owpc_ltr": {"params": params}}).status == 400
    ask: dict[str, Any] = {"query": "title", "documents": ["d1", "", "d2"]}
    assert gateway.ask("POST", "/v2/rerank", ask).json()["results"][-1]["index"] == 1
    wrong = [
        {**ask, "params": {"keywords": ["a", "b"]}},
        {**ask, "params": {"deep": deep}},
        {**ask, "query": "a " * 1_001},
        {**ask, "documents": ["", ""]},
    ]
    texts = [json.dumps(each).encode() for each in wrong]
    texts.append(b'{"query": "a", "query": "b", "documents": ["d1"]}')
    texts.append(b'{"query": "a", "documents": [{"title": 1, "title": 2}]}')
    texts.append(b'{"query": "a", "documents": ["{\\"title\\": 1, \\"title\\": 2}"]}')
    for body in texts:
        answer = gateway.ask("POST", "/v2/rerank", body)
        assert answer.status == 422, (body[:80], answer.content)
    refused = {"type": "too_many_clauses", "reason": "maxClauseCount is set to 1024"}
    reply = Reply({"error": refused, "status": 400}, 400)
    gateway.fake.on("POST", f"/{INDEX}/_search", lambda _: reply)
    assert gateway.ask("POST", "/v2/rerank", ask).status == 422


def test_no_error_names_the_engines_address(gateway: Running) -> None:
    gateway.fake.on("POST", f"/{INDEX}/_search", lambda _: Reply(b"<html>", 502))
    ask = {"query": "title", "documents": ["d1", "d2"]}
    with ThreadPoolExecutor(2) as pool:
        reranked = pool.submit(gateway.ask, "POST", "/v2/rerank", ask)
        answers = gateway.search(), reranked.result(20)
    for answer in answers:
        assert answer.status >= 500
        assert urlsplit(gateway.fake.url).netloc not in f"{answer.headers} {answer.content!r}"


def test_who_asks_is_not_told_to_the_engine(gateway: Running) -> None:
    before = len(gateway.engine.asked)
    headers = {"Authorization": "Bearer of-the-caller", "Cookie": "a=b", "X-Forwarded-For": "1"}
    gateway.ask("POST", f"/{INDEX}/_search", SEARCH, headers)
    (asked,) = gateway.engine.asked[before:]
    assert not {"authorization", "cookie", "x-forwarded-for"} & asked.headers.keys()


def test_idle_connections_do_not_use_up_the_descriptors(
    gateway: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun = threading.Event()

    def slow(asked: Asked) -> Reply:
        begun.set()
        time.sleep(0.3)
        return gateway.engine.answer(asked)

    gateway.fake.on("POST", f"/{INDEX}/_search", slow)
    monkeypatch.setattr(web_service, "most_connections", lambda: 5)
    with ThreadPoolExecutor(1) as pool:
        searched = pool.submit(gateway.search)
        assert begun.wait(20)
        idle = [connected(gateway, b"POST /") for _ in range(20)]
        assert gateway.ask("GET", "/health").status == 200
        # The oldest connection is one whose search is being answered.
        assert searched.result(20).status == 200
    assert [ended(connection) for connection in idle] == [b""] * 20
    assert eventually(lambda: len(gateway.server.server_state.connections) <= 5)
    assert caplog.text.count("5 connections are open: for each new one, the longest idle") == 1


# The process


def engine_and_model(folder: Path, fake: FakeEngine) -> SearchedEngine:
    engine = SearchedEngine()
    engine.scripts(fake)
    save_model(MODEL, folder / "model.json")
    return engine


def search(made: Service) -> Answer:
    return made.ask("POST", f"/{INDEX}/_search", SEARCH)


@pytest.mark.thorough
def test_sigterm_ends_the_searches_that_have_begun_and_then_the_process(tmp_path: Path) -> None:
    with FakeEngine() as fake:
        engine = engine_and_model(tmp_path, fake)

        def slow(asked: Asked) -> Reply:
            time.sleep(0.4)
            return engine.answer(asked)

        with service(tmp_path, fake.url, "model.json", "--deadline", "5") as made:
            assert said_order(search(made)) == "ranked"
            fake.on("POST", f"/{INDEX}/_search", slow)
            with ThreadPoolExecutor(8) as pool:
                answers = [pool.submit(search, made) for _ in range(8)]
                time.sleep(0.2)
                made.process.send_signal(signal.SIGTERM)
                assert [said_order(future.result(20)) for future in answers] == ["ranked"] * 8
            assert made.process.wait(20) == 0
            assert "title" not in made.printed()
        with pytest.raises(ConnectionRefusedError):
            search(made)


def test_a_killed_service_begins_again_and_its_log_has_whole_lines(tmp_path: Path) -> None:
    port, shown = free_port(), tmp_path / "shown.jsonl"
    words = ("model.json", "--impressions", shown.name, "--port", str(port), "--deadline", "10")
    answered: list[int] = []
    with FakeEngine() as fake:
        engine_and_model(tmp_path, fake)
        with service(tmp_path, fake.url, *words) as made:

            def load() -> None:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    while True:
                        assert said_order(search(made)) == "ranked"
                        answered.append(1)

            with ThreadPoolExecutor(4) as pool:
                loads = [pool.submit(load) for _ in range(4)]
                while len(answered) < 30 and not any(future.done() for future in loads):
                    time.sleep(0.01)
                os.kill(made.process.pid, signal.SIGKILL)
                for future in loads:
                    future.result(20)
    # The next one has the port and the log of the one that was killed.
    with running(tmp_path, impressions=ImpressionLog(shown), port=port) as again:
        assert said_order(again.search()) == "ranked"
        answered.append(1)
    lines = [line for line in shown.read_text().splitlines() if line]
    assert all(json.loads(line)["query_response_hit_ids"] == BEST for line in lines)
    # What was written and not yet answered when it was killed: at most one a client.
    assert 31 <= len(answered) <= len(lines) <= len(answered) + 4


@pytest.mark.thorough
def test_slow_clients_of_a_real_process_are_dropped_within_its_limits(tmp_path: Path) -> None:
    with FakeEngine() as fake:
        engine_and_model(tmp_path, fake)
        with service(tmp_path, fake.url, "model.json") as made:
            check_slow_clients(made, 200, 10.5)


def test_large_bodies_take_no_more_than_the_memory_of_all(tmp_path: Path) -> None:
    """A body that is refused is let go at once, with all that was made of it."""
    import psutil

    ids = b",".join(b'"%024d"' % number for number in range(300_000))
    body = b'{"query": "a", "documents": [%b]}' % ids
    save_model(MODEL, tmp_path / "model.json")
    words = ("model.json", "--deadline", "20")
    with service(tmp_path, "http://127.0.0.1:9", *words) as made:
        process = psutil.Process(made.process.pid)
        made.ask("POST", "/v2/rerank", {})
        before, most = process.memory_info().rss, 0
        for _ in range(8):
            assert made.ask("POST", "/v2/rerank", body).status == 422
            most = max(most, process.memory_info().rss)
    assert most - before < 150_000_000


@pytest.mark.thorough
def test_memory_is_flat_over_many_searches(tmp_path: Path) -> None:
    import psutil

    with FakeEngine() as fake:
        engine_and_model(tmp_path, fake)
        with service(tmp_path, fake.url, "model.json", "--deadline", "10") as made:
            process = psutil.Process(made.process.pid)

            def some() -> None:
                for _ in range(250):
                    assert said_order(search(made)) == "ranked"

            at_once(4, some)
            before = process.memory_info().rss, process.num_fds()
            for _ in range(4):
                at_once(4, some)
            after = process.memory_info().rss, process.num_fds()
            assert after[0] - before[0] < 10_000_000
            assert after[1] <= before[1] + 4
