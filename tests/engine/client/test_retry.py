"""Retries: jittered, bounded by a deadline, and only where nothing was done."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.retry import Retrying, TransientError, seconds_requested
from owpc_ltr.errors import EngineUnavailable
from tests.engine.fake_engine import (
    WHOLE,
    Clock,
    FakeEngine,
    Reply,
    make_engine,
    message_of_failure,
)


def always_busy(wait: float, cost: float, clock: Clock) -> Callable[[float], None]:
    """An attempt that takes some time and fails."""

    def attempt(left: float) -> None:
        clock.now += min(cost, left)
        raise TransientError("busy", wait=wait)

    return attempt


@given(
    seconds=st.floats(0.1, 600),
    wait=st.sampled_from([0.0, 0.0, 1.0, 40.0, 1000.0]),
    cost=st.floats(0, 20),
)
def test_pauses_keep_within_their_bounds_and_the_deadline(
    seconds: float, wait: float, cost: float
) -> None:
    clock = Clock()
    started = clock.now
    retrying = Retrying(clock, clock.sleep)
    with pytest.raises(TransientError):
        retrying.run(always_busy(wait, cost, clock), seconds, idempotent=True)
    assert clock.now - started <= seconds + 1e-6
    for number, pause in enumerate(clock.pauses):
        assert 0 <= pause <= max(wait, min(30.0, 0.2 * 2**number))
        assert pause >= min(wait, seconds)


def test_a_last_attempt_cut_short_keeps_the_reason_of_the_one_before() -> None:
    clock = Clock()
    given: list[float] = []

    def attempt(left: float) -> None:
        given.append(left)
        if left > 1.0:
            raise TransientError("busy")
        clock.now += left
        raise TransientError("no answer in time", late=True)

    for _ in range(20):
        with pytest.raises(TransientError, match="busy"):
            Retrying(clock, clock.sleep).run(attempt, 60.0, idempotent=True)
    # Time for an answer is left to every attempt.
    assert 0.5 - 1e-6 <= min(given) <= 1.0


def test_what_does_not_pass_is_not_repeated() -> None:
    calls = []

    def attempt(_: float) -> None:
        calls.append(1)
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        Retrying().run(attempt, 5, idempotent=True)
    assert calls == [1]


ABSURD = [
    *("9" * 400, "-1", "1e999", "inf", "nan", "1_000", "٣", "0x10", "", " 5 ", "5,6"),
    *(f"Mon, 01 Jan {year} 00:00:00 {zone}" for year in ("0000", "2024", "9999", "9" * 30)
      for zone in ("GMT", "+9999", "-9999", "+99999999999999999999", "ZZZ", "")),
]  # fmt: skip


@given(st.text() | st.sampled_from(ABSURD))
def test_no_retry_after_is_anything_but_a_wait(text: str) -> None:
    assert 0 <= seconds_requested(text) <= 1e9


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    assert seconds_requested("2.5") == 2.5
    assert seconds_requested("-3") == 0
    assert seconds_requested("nan") == 0
    assert seconds_requested("Tue, 99 Foo") == 0
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 95 < seconds_requested(later) <= 100
    assert seconds_requested(format_datetime(datetime(2020, 1, 1, tzinfo=UTC))) == 0


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
    assert "503" in message_of_failure(engine, "GET", "/docs", deadline=deadline)
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
    assert "owpc-ltr engine start" in message_of_failure(
        make_engine(url, clock), "GET", "/", deadline=4.0
    )
    assert 0 < sum(clock.pauses) <= 4


def test_a_host_that_does_not_exist_is_named(clock: Clock) -> None:
    engine = make_engine("http://no-such-host.invalid:9200", clock)
    assert "no-such-host.invalid" in message_of_failure(engine, "GET", "/", deadline=2)


def test_the_longest_time_that_a_user_allows_holds_for_long_requests_too(
    fake: FakeEngine, clock: Clock
) -> None:
    fake.on("POST", "/docs/_forcemerge", Reply({"error": "busy"}, 503))
    engine = make_engine(fake.url, clock, longest=2.0)
    with pytest.raises(EngineUnavailable):
        engine.request("POST", "/docs/_forcemerge", deadline=600)
    assert sum(clock.pauses) <= 2
    engine.close()
