"""The client meets faults on a real socket: never a short result, never a storm, in time."""

from __future__ import annotations

import gzip
import logging
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.engine.client import Engine, EngineRefusal
from owpc_ltr.engine.connection import ConnectionSettings, find_settings
from owpc_ltr.engine.retry import RetryBudget, Retrying
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused
from tests.engine.fake_engine import FakeEngine, Reply

WHOLE = {"hits": {"total": {"value": 3}, "hits": [{"_id": str(i), "é": "ü"} for i in range(3)]}}
BREAKER = {
    "error": {"type": "runtime_exception", "reason": "LTR's memory circuit is broken"},
    "status": 500,
}


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    with FakeEngine() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(fake: FakeEngine, clock: Clock) -> Iterator[Engine]:
    made = make_engine(fake.url, clock)
    yield made
    made.close()


def make_engine(url: str, clock: Clock, **settings: Any) -> Engine:
    retrying = Retrying(RetryBudget(clock=clock), clock, clock.sleep)
    return Engine(ConnectionSettings(url, **{"timeout": 5.0, **settings}), retrying)


def one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.isprintable()
    assert len(text) < 900
    return text


# --- what is sent, and what comes back


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


def test_a_head_request_has_no_answer_and_a_404_is_a_refusal(
    fake: FakeEngine, engine: Engine
) -> None:
    fake.on("HEAD", "/docs", Reply(None), Reply(None, 404))
    assert engine.request("HEAD", "/docs") is None
    with pytest.raises(EngineRefusal) as error:
        engine.request("HEAD", "/docs")
    assert error.value.status == 404


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_is_not_json_is_not_sent(value: Any, fake: FakeEngine, engine: Engine) -> None:
    with pytest.raises(BadInput) as error:
        engine.request("POST", "/docs/_search", body={"x": value})
    one_line(error)
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


# --- faults that pass


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_engine_is_asked_again_after_what_it_asks_for(
    status: int, fake: FakeEngine, engine: Engine, clock: Clock
) -> None:
    busy = Reply({"error": "busy"}, status, {"retry-after": "2"})
    fake.on("POST", "/docs/_search", busy, busy, WHOLE)
    assert engine.request("POST", "/docs/_search", body={}) == WHOLE
    assert len(fake.requests) == 3
    assert all(pause >= 2 for pause in clock.pauses)


def test_the_plugins_broken_memory_circuit_counts_as_busy(fake: FakeEngine, engine: Engine) -> None:
    fake.on("POST", "/_ltr/_featureset/a/_createmodel", Reply(BREAKER, 500), WHOLE)
    assert engine.request("POST", "/_ltr/_featureset/a/_createmodel", idempotent=False) == WHOLE


@pytest.mark.parametrize("deadline", [5.0, 60.0])
def test_an_engine_that_stays_busy_is_given_up_at_the_deadline(
    deadline: float, fake: FakeEngine, engine: Engine, clock: Clock
) -> None:
    fake.on("GET", "/docs", Reply({"error": "busy"}, 503))
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/docs", deadline=deadline)
    assert "503" in one_line(error)
    assert error.value.exit_code == 4
    assert deadline - 1.001 <= sum(clock.pauses) <= deadline
    assert len(fake.requests) <= 25


def test_an_engine_that_wants_more_time_than_there_is_is_given_up_at_once(
    fake: FakeEngine, engine: Engine, clock: Clock
) -> None:
    fake.on("GET", "/docs", Reply({"error": "busy"}, 503, {"retry-after": "600"}))
    with pytest.raises(EngineUnavailable):
        engine.request("GET", "/docs", deadline=60)
    assert clock.pauses == []


FAULTS: dict[str, Reply] = {
    "reset": Reply(WHOLE, reset=True),
    "no bytes": Reply(b"", announced=False, cut=0.0),
    "busy": Reply({"error": "busy"}, 503),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_request_that_may_have_been_done_is_repeated_only_where_that_is_harmless(
    fault: Reply, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("POST", "/_bulk", fault, WHOLE)
    assert engine.request("POST", "/_bulk") == WHOLE
    fake.on("POST", "/_bulk", fault, WHOLE)
    asked = len(fake.requests)
    with pytest.raises(EngineUnavailable):
        engine.request("POST", "/_bulk", idempotent=False)
    assert len(fake.requests) == asked + 1


def test_a_refused_write_is_repeated_because_it_was_not_done(
    fake: FakeEngine, engine: Engine
) -> None:
    fake.on("POST", "/_bulk", Reply({"error": "busy"}, 429), WHOLE)
    assert engine.request("POST", "/_bulk", idempotent=False) == WHOLE


def test_an_engine_that_was_never_there_is_told_in_seconds(clock: Clock) -> None:
    with FakeEngine() as fake:
        url = fake.url
    engine = Engine(ConnectionSettings(url))
    started = time.monotonic()
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/", deadline=4.0)
    assert "owpc-ltr engine start" in one_line(error)
    assert time.monotonic() - started < 30


def test_a_host_that_does_not_exist_is_named(clock: Clock) -> None:
    engine = make_engine("http://no-such-host.invalid:9200", clock)
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/", deadline=2)
    assert "no-such-host.invalid" in one_line(error)


# --- answers that are not whole


@pytest.mark.parametrize("announced", [True, False], ids=["length told", "length untold"])
@pytest.mark.parametrize("sixteenths", range(16))
def test_a_cut_answer_is_never_a_result(
    sixteenths: int, announced: bool, fake: FakeEngine, engine: Engine
) -> None:
    cut = Reply(WHOLE, cut=sixteenths / 16, announced=announced)
    fake.on("GET", "/docs", cut, cut, WHOLE)
    assert engine.request("GET", "/docs") == WHOLE
    fake.on("GET", "/docs", cut)
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/docs", deadline=3)
    one_line(error)


@pytest.mark.parametrize("slow", [{"drip": 0.05}, {"drip_headers": 0.05}], ids=["body", "headers"])
def test_a_dripping_answer_ends_at_the_deadline(slow: dict[str, float], fake: FakeEngine) -> None:
    fake.on("GET", "/docs", Reply(WHOLE, **slow))  # type: ignore[arg-type]
    engine = Engine(ConnectionSettings(fake.url, timeout=0.4))
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/docs", deadline=0.8)
    one_line(error)
    engine.close()


STRANGE: dict[str, Reply] = {
    "html": Reply(b"<html>Welcome</html>", content_type="text/html"),
    "nothing": Reply(b""),
    "half a document": Reply(b'{"hits": '),
    "two documents": Reply(b"{} {}"),
    "NaN": Reply(b'{"score": NaN}'),
    "not UTF-8": Reply(b'{"a": "\xff"}'),
    "a million brackets": Reply(b"[" * 1_000_000),
    "a number without end": Reply(b"1" * 10_000),
    "bad gzip": Reply(b"no gzip", headers={"content-encoding": "gzip"}),
}


@pytest.mark.parametrize("reply", STRANGE.values(), ids=STRANGE)
def test_an_answer_that_is_no_json_is_an_error(
    reply: Reply, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/docs", reply)
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/docs", deadline=2)
    one_line(error)


def test_a_gzip_bomb_is_not_unpacked(fake: FakeEngine, clock: Clock) -> None:
    bomb = gzip.compress(b"[" + b" " * 50_000_000 + b"]")
    fake.on("GET", "/docs", Reply(bomb, headers={"content-encoding": "gzip"}))
    engine = make_engine(fake.url, clock, largest_answer=1_000_000)
    tracemalloc.start()
    with pytest.raises(Refused) as error:
        engine.request("GET", "/docs")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "1000000 bytes" in one_line(error)
    assert peak < 10_000_000
    assert len(fake.requests) == 1
    engine.close()


# --- noes


@pytest.mark.parametrize("status", [400, 404, 405, 409, 413, 500])
def test_a_no_is_told_once_with_the_engines_words(
    status: int, fake: FakeEngine, engine: Engine
) -> None:
    error_body = {"error": {"type": "some_exception", "reason": "because\nof it"}}
    fake.on("PUT", "/docs", Reply(error_body, status))
    with pytest.raises(EngineRefusal) as error:
        engine.request("PUT", "/docs")
    assert (error.value.status, error.value.type) == (status, "some_exception")
    assert "because of it" in one_line(error)
    assert len(fake.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int, fake: FakeEngine, engine: Engine) -> None:
    with FakeEngine() as other:
        fake.on("POST", "/docs/_search", Reply({}, status, {"location": f"{other.url}/x"}))
        with pytest.raises(EngineUnavailable) as error:
            engine.request("POST", "/docs/_search", body={"secret": 1})
        assert "not followed" in one_line(error)
        assert not other.requests
    assert len(fake.requests) == 1


def test_a_full_disk_is_not_taken_for_missing_rights(fake: FakeEngine, engine: Engine) -> None:
    blocked = {"error": {"type": "cluster_block_exception", "reason": "index [a] blocked"}}
    fake.on("PUT", "/docs", Reply(blocked, 403))
    with pytest.raises(EngineRefusal) as error:
        engine.request("PUT", "/docs")
    assert "blocked" in one_line(error)


# --- secrets

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


# --- TLS


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


# --- who it is

ABOUT = {
    "opensearch": {
        "cluster_name": "c",
        "cluster_uuid": "u",
        "version": {"distribution": "opensearch", "number": "3.8.0"},
    },
    "elasticsearch": {
        "cluster_name": "c",
        "cluster_uuid": "u",
        "version": {"number": "8.19.0", "build_flavor": "default"},
        "tagline": "You Know, for Search",
    },
}


@pytest.mark.parametrize("distribution", ABOUT)
def test_both_distributions_are_known(distribution: str, fake: FakeEngine, engine: Engine) -> None:
    fake.on("GET", "/", ABOUT[distribution])
    fake.on("GET", "/_cat/plugins", [{"name": "n", "component": "ltr", "version": "1"}], [])
    identity = engine.identity()
    assert (identity.distribution, identity.has_ltr) == (distribution, True)
    assert (identity.cluster, identity.uuid, identity.plugins) == ("c", "u", ("ltr",))
    assert not engine.identity().has_ltr


@pytest.mark.parametrize("about", [[], {"version": "3"}, {"version": {}}, "hello"])
def test_another_json_server_is_not_taken_for_an_engine(
    about: Any, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", about)
    fake.on("GET", "/_cat/plugins", [])
    with pytest.raises(EngineUnavailable) as error:
        engine.identity()
    one_line(error)


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
