"""What the service takes: who, how much, how many at once and for how long; how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from owpc_ltr_serve import app as application
from owpc_ltr_serve.app import Busy, RequestPlaces, ServeSettings, create_app
from owpc_ltr_serve.endpoint import Call, Endpoint, Reply
from owpc_ltr_serve.rankers import Rankers
from owpc_ltr_serve.rerank import rerank_endpoints
from owpc_ltr_serve.serve import TOKEN, check_binding, find_token

from owpc_ltr import connect
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrWarning, UsageError
from owpc_ltr.host.web_service import WebServer
from owpc_ltr.models.model_file import save_model
from owpc_ltr.redaction import Secret
from tests.commands import Run
from tests.serve.searched_engine import MODEL, features_of
from tests.serve.service import HEAD, JSON, NotedMetrics, Service, in_a_thread, service

SECRET = "a-token-that-nobody-guesses"
BODY = {"query": "the words of a user", "documents": [features_of(1), features_of(2)]}


@dataclass
class Running:
    """A service in a thread of this process."""

    port: int
    server: WebServer
    noted: NotedMetrics
    slow: threading.Event = field(default_factory=threading.Event)
    """Set, it lets go of what waits in `/slow`."""

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], Any]:
        service = Service(None, "127.0.0.1", self.port)  # type: ignore[arg-type]
        answer = service.ask(method, path, body, headers)
        return answer.status, answer.headers, json.loads(answer.content or b"null")


@contextlib.contextmanager
def running(folder: Path, **limits: Any) -> Iterator[Running]:
    save_model(MODEL, folder / "model.json")
    rankers = Rankers(connect("http://127.0.0.1:9"), [folder / "model.json"])
    noted, slow = NotedMetrics(), threading.Event()

    def waits(call: Call) -> Reply:
        slow.wait(20)
        return Reply(b'{"seconds_left": %d}' % int(call.left()))

    def fails(_: Call) -> Reply:
        raise ValueError(f"a bug, beside {BODY['query']}")

    def refuses(_: Call) -> Reply:
        raise EngineUnavailable("the engine is gone")

    endpoints = [
        *rerank_endpoints(rankers, noted),
        Endpoint("/slow", waits),
        Endpoint("/loop", waits, at_once=waits),
        Endpoint("/bug", fails),
        Endpoint("/gone", refuses),
    ]
    app = create_app(rankers, ServeSettings(**limits), noted, endpoints)
    with in_a_thread(app, timeout_graceful_shutdown=5) as (server, port):
        try:
            yield Running(port, server, noted, slow)
        finally:
            slow.set()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = {"concurrency": 2, "deadline": 0.5, "largest_body": 5_000}
    with running(tmp_path_factory.mktemp("plain"), **limits) as made:
        yield made


def test_a_token_is_demanded_of_all_but_health(tmp_path: Path) -> None:
    with running(tmp_path, token=Secret(SECRET)) as guarded:
        for given in (None, "Bearer wrong", f"Basic {SECRET}", SECRET, "Bearer", "Bearer é"):
            headers = {} if given is None else {"Authorization": given.encode().decode("latin-1")}
            status, answer_headers, content = guarded.ask("POST", "/v2/rerank", BODY, headers)
            assert (status, answer_headers["www-authenticate"]) == (401, "Bearer")
            assert content == {"message": "send the token as Authorization: Bearer TOKEN"}
        for given in (f"Bearer {SECRET}", f"bearer {SECRET}"):
            status, _, _ = guarded.ask("POST", "/v2/rerank", BODY, {"Authorization": given})
            assert status == 200
        assert guarded.ask("GET", "/health")[0] == 200


def test_what_listens_beyond_this_machine_needs_a_token_or_certificates() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.8.9.1"):
        check_binding(host, token=False, tls={})
    for host in ("::", "10.0.0.5", "search.example.org", ""):
        with pytest.raises(UsageError, match=f"can be reached from other machines: set {TOKEN}"):
            check_binding(host, token=False, tls={})
        with pytest.raises(UsageError, match="can be reached from other machines"):
            check_binding(host, token=False, tls={"ssl_certfile": "c", "ssl_keyfile": "k"})
        with pytest.warns(OwpcLtrWarning, match="the token can be read on its way"):
            check_binding(host, token=True, tls={})
        check_binding(host, token=True, tls={"ssl_certfile": "c", "ssl_keyfile": "k"})
        check_binding(host, token=False, tls={"ssl_certfile": "c", "ssl_ca_certs": "a"})


def test_a_token_comes_from_the_environment_or_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    assert find_token(None) is None
    monkeypatch.setenv(TOKEN, SECRET)
    assert find_token(None) == SECRET
    assert SECRET not in repr(find_token(None))
    file = tmp_path / "token"
    file.write_text(SECRET + "\n")
    file.chmod(0o644)
    with pytest.raises(BadInput, match="can be read by others: chmod 600"):
        find_token(file)
    file.chmod(0o600)
    assert find_token(file) == SECRET
    for poor in ("short", "with a space in it, long", "ünïcödé-ünïcödé-ünïcödé", " "):
        monkeypatch.setenv(TOKEN, poor)
        with pytest.raises(UsageError, match="is not a token: use 16 or more letters") as raised:
            find_token(None)
        assert poor == " " or poor not in str(raised.value)


def test_certificates_of_clients_are_demanded(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    own = authority.issue_cert("127.0.0.1")
    own.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    save_model(MODEL, tmp_path / "model.json")
    words = ("--certificate", "cert.pem", "--key", "key.pem", "--client-ca", "ca.pem")
    with service(tmp_path, "http://127.0.0.1:9", "model.json", *words) as served:

        def health(issuer: trustme.CA | None) -> int:
            context = ssl.create_default_context()
            authority.configure_trust(context)
            if issuer is not None:
                issuer.issue_cert("client@example.org").configure_cert(context)
            connection = http.client.HTTPSConnection(served.host, served.port, context=context)
            with contextlib.closing(connection):
                connection.request("GET", "/health")
                return connection.getresponse().status

        assert health(authority) == 200
        for issuer in (None, stranger):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                health(issuer)


def test_a_body_has_a_largest_size(plain: Running) -> None:
    large = b'{"query": "' + b"x" * 6_000 + b'"}'
    status, _, content = plain.ask("POST", "/v2/rerank", large)
    assert (status, content) == (413, {"message": "the body is larger than 5000 bytes"})
    # Before it has come, and without a length that says so.
    with socket.create_connection(("127.0.0.1", plain.port), timeout=20) as client:
        client.sendall(HEAD + b"Content-Length: 5001\r\n\r\n")
        assert b" 413 " in client.recv(100)
    with socket.create_connection(("127.0.0.1", plain.port), timeout=20) as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(40):
                client.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert b" 413 " in client.recv(100)
    assert plain.ask("POST", "/v2/rerank", BODY)[0] == 200


def test_more_at_once_are_told_to_come_again(plain: Running) -> None:
    plain.slow.clear()
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(plain.ask("POST", "/slow", {})[0]))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    status, headers, content = plain.ask("POST", "/gone", {})
    assert (status, headers["retry-after"]) == (503, "1")
    assert content == {"message": "too many requests at once: try again"}
    # What takes no thread of its own is answered.
    assert plain.ask("GET", "/health")[0] == 200
    assert plain.ask("POST", "/v2/rerank", BODY)[0] == 200
    for thread in threads:
        thread.join()
    # Too late, they are answered, and still hold their places.
    assert statuses == [504, 504]
    assert plain.ask("POST", "/gone", {})[2] == content
    plain.slow.set()
    until = time.monotonic() + 20
    while plain.ask("POST", "/gone", {})[2] == content:
        assert time.monotonic() < until


def test_a_body_has_a_largest_number_of_values(tmp_path: Path) -> None:
    with running(tmp_path) as made:
        for body in (b'{"documents": [%s]}', b'{"documents": [{}], "params": {"a": [%s]}}'):
            parts = [b"{}," * 100_000] * 4
            with socket.create_connection(("127.0.0.1", made.port), timeout=20) as client:
                head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
                client.sendall(head + b"f\r\n" + body[:15] + b"\r\n")
                with contextlib.suppress(ConnectionError):
                    for part in parts:
                        client.sendall(b"%x\r\n%b\r\n" % (len(part), part))
                with contextlib.suppress(ConnectionError):
                    assert b" 413 " in client.recv(100)
        assert made.ask("POST", "/v2/rerank", BODY)[0] == 200


def half_a_body(made: Running, size: int) -> socket.socket:
    """A connection with a request whose body does not end."""
    client = socket.create_connection(("127.0.0.1", made.port), timeout=20)
    client.sendall(HEAD + b"Content-Length: 4999\r\n\r\n" + b"x" * size)
    return client


def test_bodies_have_a_memory_in_common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "MEMORY", 20_000)
    with running(tmp_path) as made:
        with half_a_body(made, 4_980):
            status, headers, _ = made.ask("POST", "/v2/rerank", BODY)
            assert (status, headers["retry-after"]) == (503, "1")
        until = time.monotonic() + 20
        while made.ask("POST", "/v2/rerank", BODY)[0] == 503:
            assert time.monotonic() < until


def test_json_has_many_types(plain: Running) -> None:
    known = "application/vnd.elasticsearch+json; compatible-with=8"
    for kind in ("application/json", "Application/JSON; charset=utf-8", known):
        assert plain.ask("POST", "/v2/rerank", BODY, {"Content-Type": kind})[0] == 200


def test_bodies_that_do_not_end_hold_no_place(plain: Running) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(half_a_body(plain, 10))
        assert plain.ask("POST", "/v2/rerank", BODY)[0] == 200


def test_feature_values_are_refused_where_too_many_come_at_once(plain: Running) -> None:
    body = json.dumps(BODY).encode()
    head = HEAD.replace(b"/v2/rerank", b"%b") + b"Content-Length: %d\r\n\r\n"
    plain.slow.clear()
    with contextlib.ExitStack() as stack:
        clients = []
        for path in (b"/loop", *[b"/v2/rerank"] * 20):
            client = socket.create_connection(("127.0.0.1", plain.port), timeout=20)
            stack.enter_context(client)
            client.sendall(head % (path, len(body)) + body)
            clients.append(client)
        plain.slow.set()
        statuses = [client.recv(12)[9:] for client in clients]
    assert set(statuses[1:]) <= {b"200", b"503"}
    assert statuses.count(b"503") >= 10
    assert plain.ask("POST", "/v2/rerank", BODY)[0] == 200


def test_one_address_has_half_of_the_places_while_others_ask() -> None:
    places = RequestPlaces(4)
    with contextlib.ExitStack() as first:
        with contextlib.ExitStack() as second:
            for stack in (first, first, second, second):
                stack.enter_context(places.held("10.0.0.1"))
            for address in ("10.0.0.1", "10.0.0.2"):
                with pytest.raises(Busy):
                    places.check(address)
        with pytest.raises(Busy):
            places.check("10.0.0.1")
        for _ in range(2):
            first.enter_context(places.held("10.0.0.2"))
        with pytest.raises(Busy):
            places.check("10.0.0.2")


def test_the_deadline_is_told(plain: Running) -> None:
    plain.slow.clear()
    began = time.monotonic()
    status, _, content = plain.ask("POST", "/slow", {})
    assert 0.4 < time.monotonic() - began < 3
    assert (status, content) == (504, {"message": "no answer within 0.5 s"})
    plain.slow.set()


def test_errors_say_what_they_are_and_nothing_of_the_query(
    plain: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        assert plain.ask("POST", "/gone", {})[::2] == (503, {"message": "the engine is gone"})
        status, _, content = plain.ask("POST", "/bug", BODY)
        assert (status, content) == (500, {"message": "ValueError: please report this"})
        for body in (BODY, {**BODY, "documents": [7]}, {**BODY, "model": "none"}):
            plain.ask("POST", "/v2/rerank", body)
        plain.ask("POST", "/v2/rerank", f'{{"query": "{BODY["query"]}", '.encode())
    assert "/bug: ValueError in " in caplog.text
    assert "words of a user" not in caplog.text
    assert ("/gone", 503) in plain.noted.answers
    assert ("/bug", 500) in plain.noted.answers


def test_health_says_which_model_each_name_is(plain: Running) -> None:
    status, _, content = plain.ask("GET", "/health")
    assert (status, content["status"]) == (200, "ok")
    assert content["models"]["model"]["model"].startswith("model@")


def test_it_ends_what_it_has_begun(tmp_path: Path) -> None:
    with running(tmp_path, deadline=10.0) as made:
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(made.ask("POST", "/slow", {})))
        thread.start()
        time.sleep(0.2)
        made.server.should_exit = True
        time.sleep(0.2)
        with pytest.raises(OSError, match="refused"):
            made.ask("GET", "/health")
        made.slow.set()
        thread.join(10)
        assert (answers[0][0], answers[0][1]["connection"]) == (200, "close")


def fastest(served: Service) -> float:
    """Seconds of the fastest of some requests on one connection."""
    connection = http.client.HTTPConnection(served.host, served.port, timeout=20)
    seconds = []
    with contextlib.closing(connection):
        for _ in range(20):
            began = time.perf_counter()
            connection.request("POST", "/v2/rerank", json.dumps(BODY), JSON)
            connection.getresponse().read()
            seconds.append(time.perf_counter() - began)
    return min(seconds[1:])


def test_the_command_ends_with_a_signal_and_without_an_error(tmp_path: Path) -> None:
    save_model(MODEL, tmp_path / "model.json")
    with service(tmp_path, "http://127.0.0.1:9", "model.json") as served:
        answer = served.ask("POST", "/v2/rerank", BODY)
        assert answer.status == 200
        assert answer.headers["x-ltr-model"].startswith("model@")
        assert "server" not in answer.headers
        for host in ("evil.example.org", "127.0.0.1.example.org:8900", ""):
            assert served.ask("POST", "/v2/rerank", BODY, {"Host": host}).status == 400
        for host in ("localhost", "127.0.0.1:80", "[::1]:8900"):
            assert served.ask("POST", "/v2/rerank", BODY, {"Host": host}).status == 200
        assert fastest(served) < 0.03  # 0.04 and more where its body waits for an acknowledgement
        served.process.terminate()
        assert served.process.wait(20) == 0
        assert served.printed() == ""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--host", "192.0.2.1", "model.json"), 2, "--host 192.0.2.1 can be reached from other"),
        (("none.json", "--port", "0"), 3, "cannot read the model none.json"),
        (("--certificate", "model.json", "model.json"), 2, "https needs both --certificate and"),
        (
            ("--certificate", "model.json", "--key", "model.json", "model.json"),
            3,
            "cannot speak https with model.json and model.json",
        ),
        (
            (
                "model.json",
                "--host",
                "127.0.0.1",
                "--port",
                "1",
                "--extra-features",
                "none.parquet",
            ),
            3,
            "none.parquet",
        ),
        (("nobody", "--port", "0"), 4, "connection refused"),
    ],
)
def test_a_start_that_fails_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    save_model(MODEL, tmp_path / "model.json")
    monkeypatch.setenv("OWPC_LTR_DEADLINE", "0.2")
    (line,) = run.refusal(code, "serve", *words, "--url", "http://127.0.0.1:9").splitlines()
    assert message in line


def test_a_port_that_is_taken_is_told(tmp_path: Path, run: Run) -> None:
    save_model(MODEL, tmp_path / "model.json")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        at = ("--url", "http://127.0.0.1:1")
        message = run.refusal(2, "serve", "model.json", "--port", str(port), *at)
    assert message.startswith(
        f"owpc-ltr: cannot listen on port {port} of 127.0.0.1: Address already"
    )
    assert len(message.splitlines()) == 1


def test_a_package_that_lacks_is_named_with_its_extra(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = ("uvicorn.", "owpc_ltr.host.web_service.", "owpc_ltr_serve.")
    for name in [name for name in sys.modules if f"{name}.".startswith(known)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run.refusal(2, "serve").splitlines() == [
        "owpc-ltr: serve needs uvicorn, which is not installed: pip install 'owpc-ltr[serve]'"
    ]
