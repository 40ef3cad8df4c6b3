"""How many requests are under way at the same time: a limiter, and the threads that send them."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from owpc_ltr.errors import EngineUnavailable

FIRST_LIMIT = 4
"""Requests under way before anything is known of the engine."""
DECREASE = 0.75
"""What is left of the limit after a rejection."""
PATIENCE = 500
"""Answers after a rejection before the limit exceeds what was rejected."""
_TOO_MUCH = {429, 503}


@dataclass
class ConcurrencyLimiter:
    """A limit of requests under way: additive increase, multiplicative decrease (Chiu, Jain 1989).

    As many answers as the limit raise it by one. A rejection cuts it to three quarters of what the
    engine accepted. A request that waits for a slot when the work ends (`with ConcurrencyLimiter(…)
    as limiter:`) gets none.
    """

    most: int
    limit: int = FIRST_LIMIT
    patience: float | None = None
    """The share of its deadline that a request waits for a slot; the engine has the rest. None: it
    waits until there is a slot, with which its deadline begins."""
    in_flight: int = field(default=0, init=False)
    cuts: int = field(default=0, init=False)
    """Rejections that have lowered the limit."""
    _ceiling: int = field(init=False)
    _since_cut: int = field(default=0, init=False)
    _count: int = field(default=0, init=False)
    _ended: bool = field(default=False, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)

    def __post_init__(self) -> None:
        self.limit = min(self.limit, self.most)
        self._ceiling = self.most

    @contextmanager
    def slot(self, seconds: float = math.inf) -> Iterator[Slot]:
        """Wait until one more request may be under way, whose deadline is in so many seconds.

        Raises EngineUnavailable where none will be.
        """
        begun = time.monotonic()
        longest = None if self.patience is None else self.patience * seconds
        with self._changed:
            free = self._changed.wait_for(
                lambda: self._ended or self.in_flight < self.limit, longest
            )
            if self._ended:
                raise EngineUnavailable("the work that this request was part of has ended")
            if not free:
                raise EngineUnavailable(
                    f"{self.in_flight} requests are under way, as many as the engine takes, and "
                    f"none ended within {longest:g} s: try again later"
                )
            self.in_flight += 1
            waited = 0.0 if longest is None else time.monotonic() - begun
            slot = Slot(self, self.cuts, waited)
        try:
            yield slot
        finally:
            with self._changed:
                self.in_flight -= 1
                self._changed.notify()

    def answered(self) -> None:
        """Take in an answer."""
        with self._changed:
            self._since_cut += 1
            self._count += 1
            if self._since_cut >= PATIENCE:
                self._ceiling = self.most  # what was once too much may not be any more
            if self._count >= self.limit:
                self._count = 0
                self.limit = min(self.limit + 1, self._ceiling)
                self._changed.notify_all()

    def rejected(self, cuts: int) -> None:
        """Take in a request that was too much; `cuts` is how many there were when it was sent.

        What was sent before the last cut says nothing of the limit since.
        """
        with self._changed:
            if cuts != self.cuts:
                return
            self._ceiling = max(1, min(self.in_flight or self.limit, self.limit) - 1)
            self.limit = max(1, int(DECREASE * self._ceiling))
            self.cuts += 1
            self._since_cut = self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()


@dataclass(frozen=True)
class Slot:
    """The place of one request among those under way, from its first attempt to its last."""

    limiter: ConcurrencyLimiter
    cuts: int
    waited: float = 0.0
    """Seconds of the request's deadline that passed before it had the slot."""

    def ended(self, status: int) -> None:
        """Take in the end of an attempt; its `status` is 0 where no answer came."""
        if status == 0 or status in _TOO_MUCH:
            self.limiter.rejected(self.cuts)
        elif 200 <= status < 300:
            self.limiter.answered()


T = TypeVar("T")
R = TypeVar("R")
_Task = Callable[[], None] | None
"""What a thread does; None ends it."""


class RequestThreads:
    """A few daemon threads that share out requests, and can be left behind when they hang.

    An executor of the standard library is joined at exit: one hanging request would hold up
    Ctrl-C for as long as the request may last. These threads end with the process. The thread that
    was busy last is the first to be busy again: what it works with is in the processor's caches.
    """

    def __init__(self, threads: int) -> None:
        """Start the threads."""
        self._waiting: deque[_Task] = deque()
        self._idle: list[SimpleQueue[_Task]] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def start(self, task: _Task) -> None:
        """Have one of the threads do this, once it is free. The task must not raise."""
        with self._lock:
            if self._idle:
                self._idle.pop().put(task)
            else:
                self._waiting.append(task)

    def map(
        self, work: Callable[[T], R], items: Sequence[T], done: Callable[[int], None] | None = None
    ) -> list[R]:
        """Each item's result, in order; the first error stops what has not begun, and is raised.

        `done` is told, in the caller's thread, how many items are.
        """
        finished: SimpleQueue[tuple[int, R | None, BaseException | None]] = SimpleQueue()
        stopped = threading.Event()

        def task(number: int, item: T) -> Callable[[], None]:
            def run() -> None:
                if stopped.is_set():
                    return
                try:
                    finished.put((number, work(item), None))
                except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
                    # Before this thread takes its next task, which the caller may be too late for.
                    stopped.set()
                    finished.put((number, None, error))

            return run

        try:
            for number, item in enumerate(items):
                self.start(task(number, item))
            results: list[Any] = [None] * len(items)
            for count in range(1, len(items) + 1):
                number, result, error = finished.get()
                if error is not None:
                    raise error
                results[number] = result
                if done is not None:
                    done(count)
        finally:
            stopped.set()
        return results

    def _serve(self) -> None:
        tasks: SimpleQueue[_Task] = SimpleQueue()
        while (task := self._next(tasks)) is not None:
            task()

    def _next(self, tasks: SimpleQueue[_Task]) -> _Task:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(tasks)
        return tasks.get()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        for _ in self._threads:
            self.start(None)
        if kind is None:
            for thread in self._threads:
                thread.join()
