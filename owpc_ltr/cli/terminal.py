"""What a command prints: standard streams, JSON and progress bars.

No reader, encoding or terminal makes a command fail: output after a reader has left (as `head`
does) is discarded, and the command's own exit code stays. Characters that the encoding lacks, and
those that would control the terminal, are escaped. A stream that was closed before the start is one
that nobody reads.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from owpc_ltr.redaction import redacted, redacted_values
from owpc_ltr.text import printable, printable_lines

if TYPE_CHECKING:
    from owpc_ltr.signatures import Progress


class OutputStream(io.TextIOBase):
    """A stream whose reader may have left. `results` is where a command's own output goes.

    `gone`: nobody reads it; `fault`: why it could not be written, if not for that.
    """

    def __init__(
        self, stream: Any, results: OutputStream | None = None, plain: bool = True
    ) -> None:
        self._stream = stream
        self._plain = plain
        self.results = results or self
        self.gone = False
        self.fault: OSError | None = None

    def write(self, text: str) -> int:
        """Write the text, sanitized and without secrets, unless nobody reads it."""
        self.write_clean(printable_lines(text) if self._plain else redacted(text))
        return len(text)

    def write_clean(self, text: str) -> None:
        """The same for text that is so already."""
        with self._losing():
            self._stream.write(text)

    def flush(self) -> None:
        """Flush what was written."""
        with self._losing():
            self._stream.flush()

    def writable(self) -> bool:
        """As every stream of output."""
        return True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
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
def standard_streams(results_alone: bool) -> Iterator[OutputStream]:
    """Make the streams of the process `OutputStream`s, for this block; standard output.

    `results_alone`: what is not printed as a result (see `results`) goes to standard error.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    _occupy_closed_numbers()
    stdout, stderr = (
        OutputStream(_escaping(sys.stdout)),
        OutputStream(_escaping(sys.stderr), plain=False),
    )
    sys.stdin = before[0] or open(os.devnull)  # noqa: SIM115, PTH123 - as long as the process
    sys.stdout = OutputStream(stderr, stdout) if results_alone else stdout
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


def print_json(content: dict[str, Any]) -> None:
    """Print one object on standard output; a number that is not finite becomes null."""
    from owpc_ltr.files.output import finite_json

    text = json.dumps(redacted_values(finite_json(content)), indent=2, allow_nan=False)
    stream = results()
    # A number that a secret looks like is not replaced.
    getattr(stream, "write_clean", stream.write)(f"{text}\n")


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar on a terminal, on standard error, until the work is done; nothing in a pipe."""
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True)
    # Names in brackets are no markup.
    columns = (
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.TimeElapsedColumn(),
    )
    disabled = not console.is_terminal
    with bars.Progress(*columns, console=console, transient=True, disable=disabled) as drawn:
        task = drawn.add_task("", total=None)

        def show(message: str, done: float | None = None) -> None:
            total = None if done is None else 1
            drawn.update(task, description=printable(message), completed=done, total=total)

        yield show


def _escaping(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w")  # noqa: PTH123 - as long as the process
    if isinstance(stream, io.TextIOWrapper):
        with suppress(OSError, ValueError):
            stream.reconfigure(errors="backslashreplace")
    return stream


def _occupy_closed_numbers() -> None:
    """Open closed standard descriptors, or the next file that is opened would take one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
