"""Credentials are sent, and shown nowhere."""

from __future__ import annotations

import logging

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.retry import Retrying
from owpc_ltr.engine.client.settings import ConnectionSettings, find_settings
from owpc_ltr.errors import EngineUnavailable, UsageError
from tests.engine.client.asking import WHOLE, Clock, make_engine, one_line
from tests.engine.fake_engine import FakeEngine, Reply

CANARY = "c4n4ry-s3cret"


def secret_settings(url: str, way: str) -> ConnectionSettings:
    environ = {
        "basic": {"OWPC_LTR_USER": "anna", "OWPC_LTR_PASSWORD": CANARY},
        "api key": {"OWPC_LTR_API_KEY": CANARY},
    }[way]
    return find_settings(url, environ={**environ, "XDG_CONFIG_HOME": "/nonexistent"})


@pytest.mark.parametrize("way", ["basic", "api key"])
@pytest.mark.parametrize("status", [200, 401, 403, 500, 503])
def test_credentials_are_sent_and_shown_nowhere(
    way: str, status: int, fake: FakeEngine, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    import base64
    import traceback

    caplog.set_level(logging.DEBUG)
    engine = Engine(secret_settings(fake.url, way), Retrying(clock=clock, sleep=clock.sleep))
    fake.on("GET", "/docs", Reply({"error": "no"}, status))
    shown = [repr(engine), repr(engine.settings), str(vars(engine))]
    try:
        engine.request("GET", "/docs", deadline=3)
    except (EngineUnavailable, EngineRefusal) as error:
        shown += [str(error), repr(error), "".join(traceback.format_exception(error))]
        found = traceback.TracebackException.from_exception(error, capture_locals=True)
        shown += list(found.format())
    shown.append(caplog.text)
    encoded = base64.b64encode(f"anna:{CANARY}".encode()).decode()
    assert not [text for text in shown if CANARY in text or encoded in text]
    expected = {"basic": f"Basic {encoded}", "api key": f"ApiKey {CANARY}"}[way]
    assert fake.requests[0].headers["authorization"] == expected
    engine.close()


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_name_where_they_came_from(
    status: int, fake: FakeEngine, clock: Clock
) -> None:
    fake.on("GET", "/docs", Reply({"error": "no"}, status))
    for way, name in (("basic", "OWPC_LTR_PASSWORD"), ("api key", "OWPC_LTR_API_KEY")):
        engine = Engine(secret_settings(fake.url, way))
        with pytest.raises(EngineUnavailable) as error:
            engine.request("GET", "/docs")
        assert name in one_line(error)
        engine.close()
    assert len(fake.requests) == 2
    with pytest.raises(EngineUnavailable, match="OWPC_LTR_USER"):
        make_engine(fake.url, clock).request("GET", "/docs")


def test_signatures_for_aws_are_opensearch_pys_own(
    fake: FakeEngine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("botocore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    environ = {"OWPC_LTR_AWS_REGION": "eu-west-1", "OWPC_LTR_AWS_SERVICE": "aoss"}
    engine = Engine(find_settings(fake.url, environ={**environ, "XDG_CONFIG_HOME": "/none"}))
    fake.on("POST", "/docs/_search", WHOLE)
    assert engine.request("POST", "/docs/_search", body={"a": 1}) == WHOLE
    signed = fake.requests[0].headers["authorization"]
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/aoss/aws4_request" in signed
    assert "x-amz-content-sha256" in fake.requests[0].headers
    assert CANARY not in str(fake.requests[0])
    engine.close()


AWS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": CANARY}


@pytest.mark.parametrize(
    ("environ", "what"),
    [
        ({"AWS_PROFILE": f"no-{CANARY}"}, "ProfileNotFound"),
        ({**AWS, "AWS_SESSION_TOKEN": f"a\n{CANARY}"}, "a line break in a key"),
        ({**AWS, "AWS_ACCESS_KEY_ID": f"a\n{CANARY}"}, "a line break in a key"),
    ],
)
def test_aws_credentials_that_cannot_be_are_one_line(
    environ: dict[str, str],
    what: str,
    fake: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("botocore")
    caplog.set_level(logging.DEBUG)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    region = {"OWPC_LTR_AWS_REGION": "eu-west-1", "XDG_CONFIG_HOME": "/none"}
    with pytest.raises(UsageError) as error:
        Engine(find_settings(fake.url, environ=region)).request("GET", "/docs")
    assert what in one_line(error)
    assert "AWS_PROFILE" in str(error.value)
    assert CANARY not in str(error.value)
    assert CANARY not in caplog.text
    assert fake.requests == []


def test_a_session_of_aws_is_not_logged(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("botocore")
    caplog.set_level(logging.DEBUG)
    for name, value in {**AWS, "AWS_SESSION_TOKEN": f"t-{CANARY}"}.items():
        monkeypatch.setenv(name, value)
    region = {"OWPC_LTR_AWS_REGION": "eu-west-1", "XDG_CONFIG_HOME": "/none"}
    engine = Engine(find_settings(fake.url, environ=region))
    fake.on("GET", "/docs", WHOLE)
    assert engine.request("GET", "/docs") == WHOLE
    assert fake.requests[0].headers["x-amz-security-token"] == f"t-{CANARY}"
    assert CANARY not in caplog.text
    assert CANARY not in repr(engine) + str(vars(engine)) + str(vars(engine.settings))
    engine.close()


def test_the_address_of_a_proxy_is_shown_without_its_password() -> None:
    from owpc_ltr_node.maven import reason

    for fault in (
        ValueError(f"Failed to parse: http://me:{CANARY}/x@proxy:3128"),
        OSError(f"HTTPSConnectionPool(host='x'): https://{CANARY}@proxy"),
    ):
        assert CANARY not in reason(fault)
    assert reason(ValueError()) == ""
