"""Worker threads that share out requests, and can be left behind when they hang."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """A few daemon threads.

    An executor of the standard library is joined at exit: one hanging request would hold up
    Ctrl-C for as long as the request may last. These threads end with the process.
    """

    def __init__(self, threads: int) -> None:
        """Start the threads."""
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Each item's result, in order; the first error stops what has not begun, and is raised."""
        finished: SimpleQueue[tuple[int, R | None, BaseException | None]] = SimpleQueue()
        stopped = threading.Event()

        def task(number: int, item: T) -> Callable[[], None]:
            def run() -> None:
                if stopped.is_set():
                    return
                try:
                    finished.put((number, work(item), None))
                except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
                    finished.put((number, None, error))

            return run

        try:
            for number, item in enumerate(items):
                self._tasks.put(task(number, item))
            results: list[Any] = [None] * len(items)
            for _ in items:
                number, result, error = finished.get()
                if error is not None:
                    raise error
                results[number] = result
        finally:
            stopped.set()
        return results

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        if error is None:
            for thread in self._threads:
                thread.join()
