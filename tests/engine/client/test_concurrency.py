"""How many requests are under way: never too many, fewer when the engine says so, and enough."""

from __future__ import annotations

import heapq
import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.errors import EngineUnavailable
from tests.engine.fake_engine import FakeEngine, Reply


class Controller(Protocol):
    limit: int
    cuts: int

    def answered(self) -> None: ...
    def rejected(self, cuts: int) -> None: ...


@dataclass
class Stubborn:
    """The liar: it never falls."""

    limit: int = 64
    cuts: int = 0

    def answered(self) -> None: ...
    def rejected(self, cuts: int) -> None: ...


@dataclass
class Shop:
    """An engine on a clock of its own: so many requests at work at once, the rest rejected."""

    servers: int
    seconds: float = 0.01
    rejections: int = 0
    done: int = 0
    clock: float = 0.0
    highest: int = 0
    _under_way: list[float] = field(default_factory=list)

    def serve(self, controller: Controller, requests: int) -> float:
        """Answers a second of so many requests; what is rejected is asked for again."""
        began, until = self.clock, self.done + requests
        while self.done < until:
            while len(self._under_way) < controller.limit and self._is_taken(controller):
                pass
            self._finish(controller)
        return requests / (self.clock - began)

    def _is_taken(self, controller: Controller) -> bool:
        in_flight = len(self._under_way) + 1
        self.highest = max(self.highest, in_flight)
        if in_flight > self.servers:
            self.rejections += 1
            controller.rejected(controller.cuts)
            return False
        heapq.heappush(self._under_way, self.clock + self.seconds)
        return True

    def _finish(self, controller: Controller) -> None:
        self.clock = heapq.heappop(self._under_way)
        self.done += 1
        controller.answered()


EVENTS = st.lists(st.none() | st.tuples(st.integers(1, 64), st.integers(0, 3)), max_size=400)


@given(most=st.integers(1, 64), events=EVENTS)
def test_whatever_the_engine_says_the_limit_is_from_one_to_the_most(
    most: int, events: list[tuple[int, int] | None]
) -> None:
    controller = ConcurrencyLimiter(most)
    assert 1 <= controller.limit <= most
    for event in events:
        if isinstance(event, tuple):
            controller.in_flight, ago = event
            controller.rejected(controller.cuts - ago)
        else:
            controller.answered()
        assert 1 <= controller.limit <= most


@given(most=st.integers(2, 64), answers=st.integers(0, 300))
def test_a_rejection_makes_it_fall(most: int, answers: int) -> None:
    controller = ConcurrencyLimiter(most)
    for _ in range(answers):
        controller.answered()
    before = controller.limit
    controller.rejected(controller.cuts)
    assert controller.limit <= max(1, 3 * before // 4)


def test_what_was_sent_before_the_last_cut_cuts_no_more() -> None:
    controller = ConcurrencyLimiter(64, limit=32)
    for _ in range(32):
        controller.rejected(0)
    assert controller.limit == 23
    assert controller.cuts == 1


@pytest.mark.parametrize("servers", [1, 3, 8, 40])
def test_a_limit_of_the_engine_is_found_with_few_rejections(servers: int) -> None:
    shop, controller = Shop(servers), ConcurrencyLimiter(64)
    shop.serve(controller, 1000)
    assert shop.rejections <= 8
    before = shop.rejections
    best = servers / shop.seconds
    assert shop.serve(controller, 4000) > 0.85 * best
    assert shop.rejections - before <= 12


def test_one_that_never_falls_is_rejected_without_end() -> None:
    shop = Shop(8)
    shop.serve(Stubborn(), 1000)
    assert shop.rejections > 100


def test_it_recovers_when_the_engine_bears_more_again() -> None:
    shop, controller = Shop(30), ConcurrencyLimiter(64)
    shop.serve(controller, 1000)
    shop.servers = 4
    shop.serve(controller, 1000)
    assert controller.limit <= 5
    shop.servers = 30
    shop.serve(controller, 20_000)
    assert shop.serve(controller, 2000) > 0.7 * 30 / shop.seconds


def test_an_engine_with_room_for_all_gets_the_most() -> None:
    shop, controller = Shop(10**6), ConcurrencyLimiter(16)
    shop.serve(controller, 1000)
    assert max(shop.highest, controller.limit) == 16


def test_slots_are_as_many_as_the_limit_and_never_more_and_each_is_given_back() -> None:
    seen: list[int] = []
    four = threading.Barrier(4)
    with ConcurrencyLimiter(4, limit=4) as limiter:

        def ask() -> None:
            for _ in range(5):
                with limiter.slot() as slot:
                    four.wait(10)  # which four must have reached, each in a slot of its own
                    seen.append(limiter.in_flight)
                    slot.ended(200)

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 80
    assert max(seen) <= 4
    assert limiter.in_flight == 0


@pytest.mark.parametrize("status", [429, 503, 0])
def test_a_slot_that_is_rejected_cuts_once_however_often_it_is_tried(status: int) -> None:
    with ConcurrencyLimiter(64, limit=16) as limiter:
        for _ in range(2):
            with limiter.slot() as slot:
                slot.ended(404)
                slot.ended(status)
                slot.ended(status)
        assert limiter.cuts == 2


def test_who_waits_for_a_slot_that_never_comes_is_told_at_the_end() -> None:
    messages: list[str] = []
    waiting = threading.Event()

    def ask() -> None:
        waiting.set()
        try:
            with limiter.slot():
                messages.append("had a slot")
        except EngineUnavailable as error:
            messages.append(str(error))

    with ConcurrencyLimiter(1) as limiter, limiter.slot():
        thread = threading.Thread(target=ask)
        thread.start()
        waiting.wait(10)
        limiter.__exit__(None, None, None)
        thread.join(10)
    assert messages == ["the work that this request was part of has ended"]


def test_who_has_a_share_to_wait_is_told_when_it_is_over_and_what_it_waited() -> None:
    limiter = ConcurrencyLimiter(1, limit=1, patience=0.5)
    begun = time.monotonic()
    with (
        limiter.slot(60.0) as first,
        pytest.raises(EngineUnavailable, match=r"none ended within 0\.1 s"),
        limiter.slot(0.2),
    ):
        pass
    assert 0.1 <= time.monotonic() - begun < 5
    assert first.waited < 0.1
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with limiter.slot(60.0):
            held.set()
            free.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    threading.Timer(0.2, free.set).start()
    with limiter.slot(60.0) as second:
        assert second.waited >= 0.15
    thread.join()


def test_what_a_search_waits_for_others_is_part_of_its_deadline(fake: FakeEngine) -> None:
    fake.on("POST", "/movies/_search", Reply({"took": 1}, drip=0.3))
    limiter = ConcurrencyLimiter(1, limit=1, patience=0.9)
    engine = Engine(ConnectionSettings(fake.url)).limited(limiter)
    fake.on("GET", "/", {})
    engine.request("GET", "/")  # which imports the client
    held = limiter.slot(60.0)
    held.__enter__()
    threading.Timer(0.7, held.__exit__, (None, None, None)).start()
    begun = time.monotonic()
    with pytest.raises(EngineUnavailable):
        engine.request("POST", "/movies/_search", body={}, deadline=1.0)
    # It would be 1.7 s if the wait did not count.
    assert time.monotonic() - begun < 1.5


def test_nothing_begins_after_the_first_error_however_late_the_caller_hears_of_it() -> None:
    begun: list[int] = []
    failed = threading.Event()

    def work(item: int) -> None:
        begun.append(item)
        if item == 1:
            failed.set()
            raise EngineUnavailable("gone")

    def busy(_: int) -> None:
        failed.wait()
        time.sleep(0.05)

    with pytest.raises(EngineUnavailable), RequestThreads(1) as threads:
        threads.map(work, [0, 1, 2, 3], busy)
    assert begun == [0, 1]
