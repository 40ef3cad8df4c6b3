"""Standard streams that no reader, encoding or terminal can make a command fail by.

A reader that leaves (as `head` does) ends nothing: what follows goes nowhere, and the command's
own exit code stays. A character that the encoding lacks is escaped, and so is what would steer the
terminal. A stream that was closed before the start is as one that nobody reads.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from owpc_ltr.sanitization import printable_lines


class Outlet(io.TextIOBase):
    """A stream whose end may be gone. `results` is where a command's own output goes.

    `gone`: nobody reads it; `fault`: what kept it from being written, where somebody would have.
    """

    def __init__(self, stream: Any, results: Outlet | None = None, plain: bool = True) -> None:
        self._stream = stream
        self._plain = plain
        self.results = results or self
        self.gone = False
        self.fault: OSError | None = None

    def write(self, text: str) -> int:
        """Write it, unless nobody is there."""
        with self._losing():
            self._stream.write(printable_lines(text) if self._plain else text)
        return len(text)

    def flush(self) -> None:
        """Hand over what was written."""
        with self._losing():
            self._stream.flush()

    def writable(self) -> bool:
        """As every stream of output."""
        return True

    def isatty(self) -> bool:
        """Whether a person is there."""
        return bool(not self._stream.closed and self._stream.isatty())

    def fileno(self) -> int:
        """The number of the stream that is written to."""
        return int(self._stream.fileno())

    @property
    def encoding(self) -> Any:  # type: ignore[override]
        """Of the stream that is written to."""
        return self._stream.encoding

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.gone = True
            if error.errno != errno.EPIPE:
                self.fault = self.fault or error
            with suppress(OSError, ValueError):
                # What is left in buffers goes nowhere when the interpreter ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


@contextmanager
def standard_streams(results_alone: bool) -> Iterator[Outlet]:
    """The streams of the process, made so: the one of the command's output.

    `results_alone`: what is not printed as a result (see `results`) goes to standard error.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    _occupy_closed_numbers()
    stdout, stderr = Outlet(_escaping(sys.stdout)), Outlet(_escaping(sys.stderr), plain=False)
    sys.stdin = before[0] or open(os.devnull)  # noqa: SIM115, PTH123 - as long as the process
    sys.stdout = Outlet(stderr, stdout) if results_alone else stdout
    sys.stderr = stderr
    try:
        yield stdout
    finally:
        for outlet in (stdout, stderr):
            outlet.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def results() -> Any:
    """Where a command's own output goes: standard output."""
    return getattr(sys.stdout, "results", sys.stdout)


def nobody_reads() -> bool:
    """Whether the reader of standard output has left, so that endless output must end."""
    return getattr(results(), "gone", False)


def _escaping(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w")  # noqa: PTH123 - as long as the process
    if isinstance(stream, io.TextIOWrapper):
        with suppress(OSError, ValueError):
            stream.reconfigure(errors="backslashreplace")
    return stream


def _occupy_closed_numbers() -> None:
    """Else the next file that is opened would be standard output, and get what is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
