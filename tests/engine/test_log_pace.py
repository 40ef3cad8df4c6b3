"""The pace of a log: what the engine bears, a rate, hours of the day; none is in the bytes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.feature_log import LogOptions, LogReport, log_features
from owpc_ltr.engine.feature_log.hours import Hours, wait_for
from owpc_ltr.engine.feature_log.rate import Rate
from owpc_ltr.engine.feature_log.strain import SearchQueues
from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.http.congestion import Congestion
from owpc_ltr.engine.http.connection import ConnectionSettings
from owpc_ltr.engine.http.pace import Pace
from owpc_ltr.engine.http.refusals import EngineRefusal
from owpc_ltr.engine.store.plugin_free import PluginFreeStore
from owpc_ltr.errors import EngineUnavailable, OwpcLtrWarning, UsageError
from tests.engine.fake_engine import Asked, FakeEngine, Reply
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


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    with FakeEngine() as fake:
        yield fake


def log_over_http(fake: FakeEngine, narrow: Narrow, out: Path, options: LogOptions) -> LogReport:
    for method in ("GET", "POST", "DELETE"):
        fake.on(method, "*", narrow)
    engine = Engine(ConnectionSettings(fake.url, deadline=60, timeout=10))
    try:
        store = PluginFreeStore(engine)
        featureset = store.get_featureset("movies")
        return log_features(engine, store, featureset, MANY, "movies", out, options=options)
    finally:
        engine.close()


def test_an_engine_that_rejects_is_given_what_it_bears_and_the_bytes_are_the_same(
    fake: FakeEngine, tmp_path: Path
) -> None:
    log(MemoryEngine(), tmp_path / "calm.parquet", judgments=MANY)
    narrow = Narrow(room=5)
    log_over_http(fake, narrow, tmp_path / "out.parquet", NO_PAUSE)
    assert digest(tmp_path / "out.parquet") == digest(tmp_path / "calm.parquet")
    assert narrow.rejections <= 9
    assert narrow.highest >= 4


def test_no_more_searches_are_under_way_than_in_flight_says(
    fake: FakeEngine, tmp_path: Path
) -> None:
    narrow = Narrow(room=64)
    log_over_http(fake, narrow, tmp_path / "out.parquet", replace(NO_PAUSE, in_flight=3))
    assert narrow.highest <= 3
    assert narrow.rejections == 0


@pytest.mark.parametrize(
    "changes", [{"in_flight": None}, {"rate": 1e6}, {"window": "00:00-23:59"}, {"rate": 2.5e4}]
)
def test_the_pace_is_nowhere_in_the_bytes(changes: dict[str, Any], tmp_path: Path) -> None:
    log(MemoryEngine(), tmp_path / "usual.parquet")
    if "window" in changes:  # one that is open now, whatever the hour
        now = datetime.now()
        begin, end = now - timedelta(hours=1), now + timedelta(hours=1)
        changes = {"window": f"{begin:%H:%M}-{end:%H:%M}"}
    log(MemoryEngine(), tmp_path / "other.parquet", options=replace(QUICK, **changes))
    assert digest(tmp_path / "usual.parquet") == digest(tmp_path / "other.parquet")


def test_turns_are_as_many_as_the_limit_and_never_more_and_each_is_given_back() -> None:
    seen: list[int] = []
    four = threading.Barrier(4)
    with Pace(Congestion(4, limit=4)) as pace:

        def ask() -> None:
            for _ in range(5):
                with pace.turn() as turn:
                    four.wait(10)  # which four must have reached, each in a turn of its own
                    seen.append(pace.in_flight)
                    turn.saw(200, 0.001)

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 80
    assert max(seen) <= 4
    assert pace.in_flight == 0


@pytest.mark.parametrize("status", [429, 503])
def test_a_turn_that_is_rejected_cuts_once_however_often_it_is_tried(status: int) -> None:
    congestion = Congestion(64, limit=16)
    with Pace(congestion) as pace:
        for _ in range(2):
            with pace.turn() as turn:
                turn.saw(404, 0.1)
                turn.saw(status, 0.1)
                turn.saw(status, 0.1)
        assert congestion.cuts == 2


def test_who_waits_for_a_turn_that_never_comes_is_told_at_the_end() -> None:
    told: list[str] = []
    waiting = threading.Event()

    def ask() -> None:
        waiting.set()
        try:
            with pace.turn():
                told.append("had a turn")
        except EngineUnavailable as error:
            told.append(str(error))

    with Pace(Congestion(1)) as pace, pace.turn():
        thread = threading.Thread(target=ask)
        thread.start()
        waiting.wait(10)
        pace.__exit__(None, None, None)
        thread.join(10)
    assert told == ["what this request was for has ended"]


class Clock:
    """A clock that goes on by sleeping alone."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@given(
    rate=st.floats(0.01, 1e6),
    sizes=st.lists(st.integers(1, 500), min_size=1, max_size=50),
    idle=st.lists(st.floats(0, 100), min_size=50, max_size=50),
)
def test_a_rate_is_not_exceeded_over_any_stretch_of_time(
    rate: float, sizes: list[int], idle: list[float]
) -> None:
    clock = Clock()
    limiter = Rate(rate, clock, clock.sleep)
    sent = []
    for size, pause in zip(sizes, idle, strict=False):
        limiter.wait(size)
        sent.append((clock.now, size))
        clock.now += pause
    for first in range(len(sent)):
        for last in range(first + 1, len(sent)):
            between = sum(size for _, size in sent[first:last])
            assert between <= rate * (sent[last][0] - sent[first][0]) * (1 + 1e-9) + 1e-6 * rate


def test_a_rate_is_reached_where_requests_come_one_after_the_other() -> None:
    clock = Clock()
    limiter = Rate(100, clock, clock.sleep)
    for _ in range(101):
        limiter.wait(50)
    assert clock.now - 1000 == pytest.approx(50)


@pytest.mark.parametrize("rate", [0, -1, 0.001, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(UsageError, match=r"rate must be from 0\.01"):
        LogOptions(rate=rate)


@pytest.mark.parametrize(
    "window", ["", "22-6", "22:00", "24:00-06:00", "22:60-06:00", "22:00-22:00", "٢٢:00-06:00"]
)
def test_a_window_that_is_none_is_refused(window: str) -> None:
    with pytest.raises(UsageError, match="write it as 22:00-06:00"):
        LogOptions(window=window)


MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1))
MINUTES = st.integers(0, 1439)


@given(now=MOMENTS, begin=MINUTES, length=st.integers(1, 1439))
def test_after_waiting_one_is_at_the_beginning_of_the_hours(
    now: datetime, begin: int, length: int
) -> None:
    hours = Hours(begin, (begin + length) % 1440)
    left = hours.waiting(now)
    minute = now.hour * 60 + now.minute
    assert (left == 0) == any((begin + each) % 1440 == minute for each in range(length))
    assert 0 <= left <= 25 * 3600
    opened = datetime.fromtimestamp(now.timestamp() + left)
    assert hours.waiting(opened) == 0
    assert Hours.parse(str(hours)) == hours


def test_outside_the_hours_one_line_is_told_and_the_clock_looked_at_again() -> None:
    now, naps, told = datetime(2026, 3, 3, 21, 58), [0.0], list[str]()

    def sleep(seconds: float) -> None:
        naps.append(seconds)

    hours = Hours.parse("22:00-06:00")
    wait_for(hours, told.append, lambda: now + timedelta(seconds=sum(naps)), sleep)
    assert sum(naps) == 120
    assert max(naps) <= 30
    assert told == [
        "outside the window 22:00-06:00: waiting until 22:00; a stop loses nothing, the same "
        "command goes on"
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

    def waited(hours: Hours, tell: Any) -> None:
        open_while_waiting.append(len(engine.pinned))
        if len(open_while_waiting) == 2:
            wait_for(
                hours, tell, iter([datetime(2026, 1, 1, 6), Now.now()]).__next__, lambda _: None
            )

    monkeypatch.setattr("owpc_ltr.engine.feature_log.passes.datetime", Now)
    monkeypatch.setattr("owpc_ltr.engine.feature_log.passes.wait_for", waited)
    with pytest.warns(OwpcLtrWarning, match="outside the window 22:00-06:00"):
        report = log(engine, tmp_path / "out.parquet", options=replace(QUICK, window="22:00-06:00"))
    assert open_while_waiting == [0, 0]
    assert report.resumed > 0
    assert digest(tmp_path / "out.parquet") == digest(tmp_path / "usual.parquet")


@dataclass
class Queues:
    """Nodes that tell of their search queues, or refuse to."""

    pools: dict[str, dict[str, Any]]
    refuses: bool = False
    asked: int = 0

    def request(self, method: str, path: str, **given: Any) -> Any:
        self.asked += 1
        if self.refuses:
            raise EngineRefusal(f"{method} {path}", 403, "security_exception", "no permissions")
        return {"nodes": {n: {"thread_pool": {"search": p}} for n, p in self.pools.items()}}


def pool(queue: int, rejected: int) -> dict[str, int]:
    return {"queue_size": 1000, "queue": queue, "rejected": rejected}


def test_rejections_of_others_and_queues_that_fill_are_noticed() -> None:
    queues = Queues({"a": pool(0, 7), "b": pool(0, 0)})
    look = SearchQueues(queues)
    assert not look.are_strained()
    assert not look.are_strained()
    queues.pools["b"] = pool(0, 1)
    assert look.are_strained()
    assert not look.are_strained()
    queues.pools["a"] = pool(501, 7)
    assert look.are_strained()
    queues.pools = {"c": pool(500, 99)}
    assert not look.are_strained()


@pytest.mark.parametrize(
    "queues",
    [
        Queues({}, refuses=True),
        Queues({"a": {"queue_size": 10}}),
        Queues({"a": {"queue_size": 10, "queue": "many", "rejected": 0}}),
    ],
)
def test_where_queues_are_not_told_they_are_asked_for_no_more(queues: Queues) -> None:
    look = SearchQueues(queues)
    assert not look.are_strained()
    asked = queues.asked
    assert not look.are_strained()
    assert queues.asked == asked
