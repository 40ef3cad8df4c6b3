"""Connections: certificates are checked, JSON goes whole over few connections."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.errors import BadInput, EngineUnavailable
from tests.engine.fake_engine import (
    WHOLE,
    Clock,
    FakeEngine,
    Reply,
    make_engine,
    message_of_failure,
    one_line,
)


def test_a_certificate_that_nobody_signed_is_tried_once(clock: Clock, certificates: Path) -> None:
    with FakeEngine(certificates / "local.pem") as fake:
        engine = make_engine(fake.url, clock)
        assert "OWPC_LTR_CA" in message_of_failure(engine, "GET", "/", deadline=5)
        assert (fake.handshakes, fake.requests, clock.pauses) == (1, [], [])


def test_a_certificate_of_our_ca_is_good_and_one_for_another_host_is_not(
    clock: Clock, certificates: Path
) -> None:
    with FakeEngine(certificates / "local.pem") as fake:
        fake.on("GET", "/", WHOLE)
        engine = make_engine(fake.url, clock, ca=certificates / "ca.pem")
        assert engine.request("GET", "/") == WHOLE
        engine.close()
    with FakeEngine(certificates / "elsewhere.pem") as fake:
        engine = make_engine(fake.url, clock, ca=certificates / "ca.pem")
        assert "127.0.0.1" in message_of_failure(engine, "GET", "/")
        assert (fake.handshakes, fake.requests) == (1, [])


def test_insecure_goes_on_without_a_check_and_cautions(clock: Clock, certificates: Path) -> None:
    with FakeEngine(certificates / "elsewhere.pem") as fake:
        fake.on("GET", "/", WHOLE)
        engine = make_engine(fake.url, clock, insecure=True)
        assert engine.request("GET", "/") == WHOLE
        assert [line for line in engine.settings.cautions if "`insecure`" in line]
        engine.close()


def test_https_to_a_server_that_speaks_http_is_told_at_once(fake: FakeEngine, clock: Clock) -> None:
    engine = make_engine(fake.url.replace("http:", "https:"), clock)
    assert "without TLS; use http://127.0.0.1" in message_of_failure(engine, "GET", "/")
    assert clock.pauses == []


def test_http_to_a_server_that_speaks_tls_is_told(clock: Clock, certificates: Path) -> None:
    with FakeEngine(certificates / "local.pem") as fake:
        engine = make_engine(fake.url.replace("https:", "http:"), clock)
        assert f"if it speaks TLS, use {fake.url}" in message_of_failure(
            engine, "GET", "/", deadline=5
        )
        assert fake.requests == []


def test_a_connection_that_breaks_is_made_again(fake: FakeEngine, clock: Clock) -> None:
    fake.on("GET", "/", Reply(reset=True), WHOLE)
    engine = make_engine(fake.url, clock)
    assert engine.request("GET", "/") == WHOLE
    assert len(clock.pauses) == 1
    engine.close()


def test_a_server_that_hangs_up_on_a_secure_hello_may_speak_http(clock: Clock) -> None:
    def serve(listener: socket.socket) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(EngineUnavailable) as error:
            make_engine(f"https://{address}", clock).request("GET", "/", deadline=5)
    assert f"if it speaks plain http, use http://{address}" in one_line(error)


@pytest.mark.parametrize(("given", "hint"), [(True, False), (False, True)])
def test_an_address_that_was_given_is_not_asked_for(clock: Clock, given: bool, hint: bool) -> None:
    engine = make_engine("http://127.0.0.1:9", clock, given=given)
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/", deadline=1)
    assert "owpc-ltr engine start" in one_line(error)
    assert ("name your cluster by OWPC_LTR_URL or `url`" in one_line(error)) is hint


def test_a_secure_answer_that_is_cut_is_read_again(clock: Clock, certificates: Path) -> None:
    with FakeEngine(certificates / "local.pem") as fake:
        fake.on("GET", "/", Reply(WHOLE, cut=0.5), WHOLE)
        engine = make_engine(fake.url, clock, ca=certificates / "ca.pem")
        assert engine.request("GET", "/") == WHOLE
        engine.close()


def test_json_goes_in_and_json_comes_out(fake: FakeEngine, engine: Engine) -> None:
    fake.on("POST", "/docs/_search", WHOLE)
    body = {"query": {"match": {"t": "né"}}}
    assert engine.request("POST", "/docs/_search", params={"a": True, "n": 3}, body=body) == WHOLE
    (asked,) = fake.requests
    assert asked.body == body
    assert asked.params == {"a": "true", "n": "3"}
    assert asked.headers["content-type"] == "application/json"


def test_ndjson_is_one_value_a_line(fake: FakeEngine, engine: Engine) -> None:
    fake.on("POST", "/_bulk", {"errors": False})
    engine.request("POST", "/_bulk", ndjson=iter([{"index": {"_id": "1"}}, {"t": "a\nb"}]))
    assert fake.requests[0].body == [{"index": {"_id": "1"}}, {"t": "a\nb"}]
    assert fake.requests[0].headers["content-type"] == "application/x-ndjson"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_is_not_json_is_not_sent(value: Any, fake: FakeEngine, engine: Engine) -> None:
    message_of_failure(engine, "POST", "/docs/_search", body={"x": value}, kind=BadInput)
    assert not fake.requests


@pytest.mark.parametrize("path", ["docs", "/a/../b", "/..", "/a b", "/*", "/a?x=1", "/a,b", "/a\n"])
def test_a_path_that_could_mean_another_one_is_a_bug(path: str, engine: Engine) -> None:
    with pytest.raises(ValueError, match="not a path"):
        engine.request("GET", path)


def test_connections_are_kept_and_shared_by_threads(fake: FakeEngine, engine: Engine) -> None:
    fake.on("POST", "*", lambda asked: Reply(asked.body))
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda i: engine.request("POST", f"/{i}/_search", body=[i]), range(400))
        )
    assert answers == [[i] for i in range(400)]
    assert fake.connections <= 8
