"""What Ctrl-C and `kill` do while a command runs.

A signal to end a command is reported in one line at any time, and never lost.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar

from owpc_ltr.errors import Stopped

_CLOSED = getattr(signal, "SIGHUP", None)

SIGNALS = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, _CLOSED)))
"""Ctrl-C, `kill`, and a terminal that is closed."""


class Interrupted(BaseException):
    """A KeyboardInterrupt of third-party code: Ctrl-C raises `Stopped`.

    The command-line library would make a silent exit of it.
    """


class Stops:
    """What Ctrl-C and `kill` do while a command runs: `Stopped` is raised where it is.

    `number` is the signal that came: foreign code may have swallowed the exception, or broken by
    it, as a library does whose import is interrupted.
    """

    finishing: ClassVar[bool] = False

    def __init__(self) -> None:
        self.number: int | None = None
        self.done = False
        """Whether the command has returned; its output may not be written yet."""
        self.reported = False
        self._over = False
        # `nohup` has a command go on when its terminal is closed.
        self._handled = [
            number
            for number in SIGNALS
            if number != _CLOSED or signal.getsignal(number) is not signal.SIG_IGN
        ]
        for number in self._handled:
            signal.signal(number, self._stop)
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._unraisable

    def end(self) -> None:
        """The command has its result: from now on a signal ends the process without a message.

        What runs when the interpreter ends cannot be stopped by an exception.
        """
        self._over = True
        sys.unraisablehook = self._hook
        for number in self._handled:
            signal.signal(number, signal.SIG_DFL)

    @property
    def exit_code(self) -> int:
        """As shells have it: 128 and the number of the signal."""
        return 128 + (self.number or 0)

    def _unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        """What is raised where nothing can catch it; a stop is reported at the command's end.

        After a stop it may be any exception that foreign code raises when it is interrupted.
        """
        if self.number is None and not isinstance(unraisable.exc_value, Stopped):
            self._hook(unraisable)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        if self._over:
            os._exit(128 + number)
        first = self.number is None
        self.number = number
        if first and (self.finishing or self.done):
            return
        raise Stopped(number)


@contextmanager
def finishing() -> Iterator[None]:
    """A first signal lets this block finish: for steps that must not be repeated."""
    Stops.finishing = True
    try:
        yield
    finally:
        Stops.finishing = False


@contextmanager
def handling(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let a server take the signals in this block, where it runs in the main thread.

    An event loop discards what a signal raises in one of its callbacks.
    """
    in_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in SIGNALS if in_main}
    taken = {number: before for number, before in handlers.items() if before is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in taken.items():
            signal.signal(number, before)
