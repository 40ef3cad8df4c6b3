"""Certificates are checked, and what is wrong with one is told at once."""

from __future__ import annotations

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
    assert "secure" in one_line(error)
    assert clock.pauses == []


def test_a_secure_answer_that_is_cut_is_read_again(clock: Clock, certificates: Path) -> None:
    with FakeEngine(certificates / "local.pem") as fake:
        fake.on("GET", "/", Reply(WHOLE, cut=0.5), WHOLE)
        engine = make_engine(fake.url, clock, ca=certificates / "ca.pem")
        assert engine.request("GET", "/") == WHOLE
        engine.close()
