"""Certificates are checked, and what is wrong with one is told at once."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from owpc_ltr.errors import EngineUnavailable
from tests.engine.client.asking import WHOLE, Clock, make_engine, one_line
from tests.engine.fake_engine import FakeEngine, Reply


def test_a_certificate_that_nobody_signed_is_tried_once(clock: Clock, certificates: Path) -> None:
    with FakeEngine(certificates / "local.pem") as fake:
        engine = make_engine(fake.url, clock)
        with pytest.raises(EngineUnavailable) as error:
            engine.request("GET", "/", deadline=5)
        assert "OWPC_LTR_CA" in one_line(error)
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
        with pytest.raises(EngineUnavailable) as error:
            engine.request("GET", "/")
        assert "127.0.0.1" in one_line(error)
        assert (fake.handshakes, fake.requests) == (1, [])


def test_insecure_goes_on_without_a_check_and_cautions(clock: Clock, certificates: Path) -> None:
    with FakeEngine(certificates / "elsewhere.pem") as fake:
        fake.on("GET", "/", WHOLE)
        engine = make_engine(fake.url, clock, insecure=True)
        assert engine.request("GET", "/") == WHOLE
        assert [line for line in engine.settings.cautions if "--insecure" in line]
        engine.close()


def test_https_to_a_server_that_speaks_http_is_told_at_once(fake: FakeEngine, clock: Clock) -> None:
    engine = make_engine(fake.url.replace("http:", "https:"), clock)
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/")
    assert "without TLS; use http://127.0.0.1" in one_line(error)
    assert clock.pauses == []


def test_http_to_a_server_that_speaks_tls_is_told_at_once(clock: Clock, certificates: Path) -> None:
    with FakeEngine(certificates / "local.pem") as fake:
        engine = make_engine(fake.url.replace("https:", "http:"), clock)
        with pytest.raises(EngineUnavailable) as error:
            engine.request("GET", "/")
        assert one_line(error) == f"{engine.settings.url} speaks TLS: use {fake.url}"
        assert (fake.requests, clock.pauses) == ([], [])


def test_a_connection_that_breaks_is_not_taken_for_tls(fake: FakeEngine, clock: Clock) -> None:
    fake.on("GET", "/", Reply(reset=True), WHOLE)
    engine = make_engine(fake.url, clock)
    assert engine.request("GET", "/") == WHOLE
    assert len(clock.pauses) == 1
    engine.close()


def test_a_server_that_hangs_up_on_a_secure_hello_is_asked_whether_it_speaks_http(
    clock: Clock,
) -> None:
    def serve(listener: socket.socket) -> None:
        for answer in (b"", b"HTTP/1.1 200 OK\r\n\r\n"):
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(EngineUnavailable) as error:
            make_engine(url, clock).request("GET", "/")
    assert "speaks plain http, without TLS: use http://127.0.0.1" in one_line(error)
    assert clock.pauses == []


@pytest.mark.parametrize(("given", "hint"), [(True, False), (False, True)])
def test_an_address_that_was_given_is_not_asked_for(clock: Clock, given: bool, hint: bool) -> None:
    engine = make_engine("http://127.0.0.1:9", clock, given=given)
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/", deadline=1)
    assert "owpc-ltr engine start" in one_line(error)
    assert ("give --url" in one_line(error)) is hint


def test_a_secure_answer_that_is_cut_is_read_again(clock: Clock, certificates: Path) -> None:
    with FakeEngine(certificates / "local.pem") as fake:
        fake.on("GET", "/", Reply(WHOLE, cut=0.5), WHOLE)
        engine = make_engine(fake.url, clock, ca=certificates / "ca.pem")
        assert engine.request("GET", "/") == WHOLE
        engine.close()
