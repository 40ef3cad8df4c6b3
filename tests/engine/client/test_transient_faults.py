"""Faults that pass: asked again where that is not_executed, in time, and never a storm."""

from __future__ import annotations

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.errors import EngineUnavailable
from tests.engine.client.asking import WHOLE, Clock, make_engine, one_line
from tests.engine.fake_engine import FakeEngine, Reply

BREAKER = {
    "error": {"type": "runtime_exception", "reason": "LTR's memory circuit is broken"},
    "status": 500,
}


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


def test_an_engine_that_was_never_there_is_told_in_its_time(clock: Clock) -> None:
    with FakeEngine() as fake:
        url = fake.url
    with pytest.raises(EngineUnavailable) as error:
        make_engine(url, clock).request("GET", "/", deadline=4.0)
    assert "owpc-ltr engine start" in one_line(error)
    assert 0 < sum(clock.pauses) <= 4


def test_a_host_that_does_not_exist_is_named(clock: Clock) -> None:
    engine = make_engine("http://no-such-host.invalid:9200", clock)
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/", deadline=2)
    assert "no-such-host.invalid" in one_line(error)


def test_the_longest_time_that_a_user_allows_holds_for_long_requests_too(
    fake: FakeEngine, clock: Clock
) -> None:
    fake.on("POST", "/docs/_forcemerge", Reply({"error": "busy"}, 503))
    engine = make_engine(fake.url, clock, longest=2.0)
    with pytest.raises(EngineUnavailable):
        engine.request("POST", "/docs/_forcemerge", deadline=600)
    assert sum(clock.pauses) <= 2
    engine.close()
