"""The pace of a log: what the engine bears, a rate, hours of the day; none is in the bytes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import OwpcLtrWarning
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.feature_log.log import LogReport, run_log
from owpc_ltr.engine.feature_log.request_options import LogOptions, RateLimit, Schedule, wait_for
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import UsageError
from tests.engine.fake_engine import Asked, Clock, FakeEngine, Reply
from tests.engine.log_runs import QUICK, digest, log
from tests.engine.memory_engine import MemoryEngine, is_log_search, small_judgments

MANY = small_judgments(queries=300)
NO_PAUSE = LogOptions(pause=0, chunk=500)


@dataclass
class Narrow:
    """An engine that rejects what is more than so many searches at the same time."""

    room: int
    memory: MemoryEngine = field(default_factory=MemoryEngine)
    under_way: int = 0
    highest: int = 0
    rejections: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: Asked) -> Reply:
        try:
            answer = self.memory.answer(asked.method, asked.path, asked.params, asked.body)
        except KeyError:
            return Reply({"found": False}, 404)
        if not is_log_search(asked.body):
            return Reply(answer)
        with self.lock:
            if self.under_way == self.room:
                self.rejections += 1
                return Reply({"error": {"type": "es_rejected_execution_exception"}}, 429)
            self.under_way += 1
            self.highest = max(self.highest, self.under_way)
        time.sleep(0.01)
        with self.lock:
            self.under_way -= 1
        return Reply(answer)


def log_over_http(
    fake: FakeEngine,
    narrow: Narrow,
    out: Path,
    options: LogOptions,
    judgments: Judgments = MANY,
) -> LogReport:
    for method in ("GET", "POST", "DELETE"):
        fake.on(method, "*", narrow)
    engine = Engine(ConnectionSettings(fake.url, deadline=60, timeout=10))
    try:
        store = PluginFreeStore(engine)
        featureset = store.get_featureset("movies")
        return run_log(engine, store, featureset, judgments, "movies", out, options=options)
    finally:
        engine.close()


def test_an_engine_that_rejects_is_given_what_it_bears_and_the_bytes_are_the_same(
    fake: FakeEngine, tmp_path: Path
) -> None:
    log(MemoryEngine(), tmp_path / "calm.parquet", judgments=MANY)
    narrow = Narrow(room=5)
    log_over_http(fake, narrow, tmp_path / "out.parquet", NO_PAUSE)
    assert digest(tmp_path / "out.parquet") == digest(tmp_path / "calm.parquet")
    assert narrow.rejections <= 30  # a tenth of the searches; the threads' pace decides how many
    assert narrow.highest >= 4


def test_no_more_searches_are_under_way_than_in_flight_says(
    fake: FakeEngine, tmp_path: Path
) -> None:
    narrow = Narrow(room=64)
    options, few = replace(NO_PAUSE, in_flight=3), small_judgments(queries=80)
    log_over_http(fake, narrow, tmp_path / "out.parquet", options, few)
    assert narrow.highest == 3
    assert narrow.rejections == 0


@pytest.mark.parametrize(
    "changes", [{"in_flight": None}, {"rate": 1e6}, {"schedule": "00:00-23:59"}, {"rate": 2.5e4}]
)
def test_the_pace_is_nowhere_in_the_bytes(changes: dict[str, Any], tmp_path: Path) -> None:
    log(MemoryEngine(), tmp_path / "usual.parquet")
    if "schedule" in changes:  # one that is open now, whatever the hour
        now = datetime.now()
        begin, end = now - timedelta(hours=1), now + timedelta(hours=1)
        changes = {"schedule": f"{begin:%H:%M}-{end:%H:%M}"}
    log(MemoryEngine(), tmp_path / "other.parquet", options=replace(QUICK, **changes))
    assert digest(tmp_path / "usual.parquet") == digest(tmp_path / "other.parquet")


@given(
    rate=st.floats(0.01, 1e6),
    sizes=st.lists(st.integers(1, 500), min_size=1, max_size=50),
    idle=st.lists(st.floats(0, 100), min_size=50, max_size=50),
)
def test_a_rate_is_not_exceeded_over_any_stretch_of_time(
    rate: float, sizes: list[int], idle: list[float]
) -> None:
    clock = Clock()
    limiter = RateLimit(rate, clock, clock.sleep)
    sent = []
    for size, pause in zip(sizes, idle, strict=False):
        limiter.wait(size)
        sent.append((clock.now, size))
        clock.now += pause
    for first in range(len(sent)):
        for last in range(first + 1, len(sent)):
            between = sum(size for _, size in sent[first:last])
            assert between <= rate * (sent[last][0] - sent[first][0]) * (1 + 1e-9) + 1e-6 * rate
    assert all(pause > 0 for pause in clock.pauses)


def test_a_rate_is_reached_where_requests_come_one_after_the_other() -> None:
    clock = Clock()
    limiter = RateLimit(100, clock, clock.sleep)
    for _ in range(101):
        limiter.wait(50)
    assert clock.now - 1000 == pytest.approx(50)


@pytest.mark.parametrize("rate", [0, -1, 0.001, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(UsageError, match=r"rate= must be from 0\.01"):
        LogOptions(rate=rate)


@pytest.mark.parametrize(
    "schedule", ["", "22-6", "22:00", "24:00-06:00", "22:60-06:00", "22:00-22:00", "٢٢:00-06:00"]
)
def test_a_schedule_that_is_none_is_refused(schedule: str) -> None:
    with pytest.raises(UsageError, match="write it as 22:00-06:00"):
        LogOptions(schedule=schedule)


MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1))
MINUTES = st.integers(0, 1439)


@given(now=MOMENTS, begin=MINUTES, length=st.integers(1, 1439))
def test_after_waiting_one_is_at_the_beginning_of_the_hours(
    now: datetime, begin: int, length: int
) -> None:
    hours = Schedule(begin, (begin + length) % 1440)
    left = hours.waiting(now)
    minute = now.hour * 60 + now.minute
    assert (left == 0) == any((begin + each) % 1440 == minute for each in range(length))
    assert 0 <= left <= 25 * 3600
    opened = datetime.fromtimestamp(now.timestamp() + left)
    assert hours.waiting(opened) == 0
    assert Schedule.parse(str(hours)) == hours


def test_outside_the_hours_one_line_is_told_and_the_clock_looked_at_again() -> None:
    now, naps, told = datetime(2026, 3, 3, 21, 58), [0.0], list[str]()

    def sleep(seconds: float) -> None:
        naps.append(seconds)

    hours = Schedule.parse("22:00-06:00")
    wait_for(hours, told.append, lambda: now + timedelta(seconds=sum(naps)), sleep)
    assert sum(naps) == 120
    assert max(naps) <= 30
    assert told == [
        "outside the schedule 22:00-06:00: waiting until 22:00; a stop loses nothing, the same "
        "command continues"
    ]
    wait_for(hours, told.append, lambda: datetime(2026, 3, 3, 23), sleep)
    assert len(told) == 1


def test_a_log_whose_hours_end_gives_its_moment_back_waits_and_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(MemoryEngine(), tmp_path / "usual.parquet")
    engine = MemoryEngine()
    times = iter([*[datetime(2026, 1, 1, 5, 59)] * 2, datetime(2026, 1, 1, 6)])
    open_while_waiting: list[int] = []

    class Now(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return next(times, datetime(2026, 1, 1, 23))

    def waited(hours: Schedule, tell: Any) -> None:
        open_while_waiting.append(len(engine.snapshots))
        if len(open_while_waiting) == 2:
            wait_for(
                hours, tell, iter([datetime(2026, 1, 1, 6), Now.now()]).__next__, lambda _: None
            )

    monkeypatch.setattr("owpc_ltr.engine.feature_log.log.datetime", Now)
    monkeypatch.setattr("owpc_ltr.engine.feature_log.log.wait_for", waited)
    with pytest.warns(OwpcLtrWarning, match="outside the schedule 22:00-06:00"):
        report = log(
            engine, tmp_path / "out.parquet", options=replace(QUICK, schedule="22:00-06:00")
        )
    assert open_while_waiting == [0, 0]
    assert report.resumed > 0
    assert digest(tmp_path / "out.parquet") == digest(tmp_path / "usual.parquet")
