"""What was compiled in this process, for how long, and where it is kept; who is told of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

PATIENCE = 1.0
"""Seconds of compiling that nobody needs to be told of."""


class Made(NamedTuple):
    """A function that was compiled: its name, the seconds with what it calls, and its folder."""

    name: str
    seconds: float
    kept: str


@dataclass
class Listener:
    """Who is told: `slow` once that it takes a while, `made` of each function."""

    slow: Callable[[], None] = lambda: None
    made: Callable[[Made], None] = lambda _: None


class Work:
    """The compiling of a process. numba compiles one function at a time, and those that it calls.

    `seconds` is all of it; `kept` whether all could be kept for the next process; `shipped` how
    many functions needed none, as their code came with the package.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.kept = True
        self.shipped = 0
        self._begun: list[tuple[str, float]] = []
        self._listeners: list[Listener] = []
        self._told = False

    def begin(self, name: str) -> None:
        """A function is being compiled now."""
        self._begun.append((name, time.perf_counter()))
        if len(self._begun) == 1:
            self._watch()

    def end(self, name: str, kept: str) -> None:
        """It is done, and is kept in a folder (empty: nowhere)."""
        # What was given up by an error is still there.
        while self._begun:
            begun, started = self._begun.pop()
            if begun == name:
                break
        else:
            return
        made = Made(name, time.perf_counter() - started, kept)
        self.kept = self.kept and bool(kept)
        if not self._begun:
            self.seconds += made.seconds
        for listener in self._listeners:
            listener.made(made)

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Tell somebody while a block runs."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def _watch(self) -> None:
        """Tell that it takes a while, when it has: a timer sees what one long function takes."""
        if self._told or not self._listeners:
            return
        timer = threading.Timer(max(0.0, PATIENCE - self.seconds), self._look)
        timer.daemon = True
        timer.start()

    def _look(self) -> None:
        begun = self._begun[:1]
        if self._told or not begun:
            return
        if self.seconds + time.perf_counter() - begun[0][1] >= 0.9 * PATIENCE:
            self._told = True
            for listener in self._listeners:
                listener.slow()


WORK = Work()
"""That of this process: numba's compiler is one for all of it, too."""
