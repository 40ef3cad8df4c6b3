"""Passes: something done to each item in turn, in order, while the next ones are being read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ahead(call: Callable[[T], R], items: Sequence[T], threads: int = 1) -> Iterator[R]:
    """`map(call, items)`, where so many threads are always at the next items.

    At most one result a thread waits to be taken, so that little is held at a time.
    """
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(call, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
