"""The command line: `main`, and what surrounds a command: signals, streams, warnings, progress.

Commands are generated from public functions.

A signal to end a command is told in one line wherever it comes, and never lost. No reader, encoding
or terminal makes a command fail: what follows a reader that leaves (as `head` does) goes nowhere,
and the command's own exit code stays. A character that the encoding lacks is escaped, and so is
what would steer the terminal. A stream that was closed before the start is one that nobody reads.
"""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TextIO

from owpc_ltr.errors import DiskFault, OwpcLtrError, OwpcLtrWarning, Refused, Stopped
from owpc_ltr.plain_text import message_line, printable, printable_lines

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


_CLOSED = getattr(signal, "SIGHUP", None)

SIGNALS = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, _CLOSED)))
"""Ctrl-C, `kill`, and a terminal that is closed."""

COMPLETION = "_OWPC_LTR_COMPLETE"
"""The variable in which the shell asks for the words that may follow."""

Progress = Callable[[str, float | None], None]


def main() -> NoReturn:
    """Run a command; an error that the user can fix is one line and an exit code."""
    stops = Stops()
    code = 130
    try:
        code = _with_streams(stops)
        if stops.number:
            code = _tell_stop(stops)
    except Stopped:
        code = _tell_stop(stops)
    except MemoryError:
        # Not even enough was left to tell it where everything else is told.
        code = _tell("there is not enough memory for this", Refused.exit_code)
    finally:
        stops.end()
    sys.exit(code)


def _with_streams(stops: Stops) -> int:
    # More BLAS threads than free cores make small products many times slower.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    alone = "--json" in sys.argv and "--help" not in sys.argv
    with standard_streams(results_alone=alone) as out, _completing():
        code = _run(stops)
        out.flush()
        if out.fault is not None and code == 0:
            why = (out.fault.strerror or "it failed").lower()
            code = _tell(
                f"the work is done, and standard output could not be written: {why}",
                DiskFault.exit_code,
            )
    return code


def _completing() -> AbstractContextManager[None]:
    if COMPLETION not in os.environ:
        return nullcontext()
    from owpc_ltr.cli.completion import quiet_completion

    return quiet_completion()


def _is_completion() -> bool:
    """Whether this process completes a line, or installs what does, after which it ends."""
    installs = sys.argv[1:2] and sys.argv[1].startswith(("--install-comp", "--show-comp"))
    return COMPLETION in os.environ or bool(installs)


def _run(stops: Stops) -> int:
    """The exit code of the command, whose faults have been told."""
    try:
        from owpc_ltr.cli.app import app

        with _warnings_told(), _compiling_told():
            code: object = app(prog_name="owpc-ltr", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - the one place that tells whatever is left
        if isinstance(error, SystemExit) and _is_completion():
            stops.done = True
            return int(error.code or 0)
        if isinstance(error, Stopped) or (stops.number and not isinstance(error, OwpcLtrError)):
            return _tell_stop(stops)
        from owpc_ltr.cli.faults import fault_of

        return _tell(*fault_of(error))
    stops.done = True
    return code if isinstance(code, int) else 0


def _tell_stop(stops: Stops) -> int:
    """Say once that a signal came, wherever the command was; its exit code."""
    if not stops.told:
        stops.told = True
        _tell(
            "interrupted after the work was complete"
            if stops.done
            else "interrupted; finished work is kept: run the same command again to resume",
            stops.exit_code,
        )
    return stops.exit_code


@contextmanager
def _warnings_told() -> Iterator[None]:
    """What the library warns of goes to standard error, a line each, when it is found."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", OwpcLtrWarning)
        shown = warnings.showwarning

        def tell(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if issubclass(category, OwpcLtrWarning):
                print(f"warning: {message_line(str(message))}", file=sys.stderr)
            else:
                shown(message, category, *place, **more)

        warnings.showwarning = tell
        yield


@contextmanager
def _compiling_told() -> Iterator[None]:
    """That something is compiled is said on a terminal; that it cannot be kept, everywhere."""
    from owpc_ltr.compiling import WORK

    def begun() -> None:
        if sys.stderr.isatty():
            print(
                "compiling what this command needs: some seconds now, none the next time",
                file=sys.stderr,
            )

    WORK.tell = begun
    before = len(WORK.made)
    try:
        yield
    finally:
        if not all(one.folder for one in WORK.made[before:]):
            print(
                "warning: compiled code was not kept, and will be compiled again: set "
                "NUMBA_CACHE_DIR to a folder that only you can write",
                file=sys.stderr,
            )


def _tell(message: str, code: int) -> int:
    """Print a fault, of which foreign names are a part; its exit code."""
    if message:
        print(f"owpc-ltr: {message_line(message)}", file=sys.stderr)
    return code


class Interrupted(BaseException):
    """A KeyboardInterrupt that no Ctrl-C made, for that raises `Stopped`: third-party code did.

    The command-line library would make a silent exit of it.
    """


class Stops:
    """What Ctrl-C and `kill` do while a command runs: `Stopped` is raised where it is.

    `number` is the signal that came: foreign code may have swallowed what it raised, or broken
    by it, as a library does that is cut while it is imported.
    """

    finishing: ClassVar[bool] = False

    def __init__(self) -> None:
        self.number: int | None = None
        self.done = False
        """Whether the command has returned: what is left is to hand over what it printed."""
        self.told = False
        self._over = False
        # `nohup` has a command go on when its terminal is closed.
        self._heard = [
            number
            for number in SIGNALS
            if number != _CLOSED or signal.getsignal(number) is not signal.SIG_IGN
        ]
        for number in self._heard:
            signal.signal(number, self._stop)
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._tell_unraisable

    def end(self) -> None:
        """The command has its result: from now on a signal ends the process, and nothing is told.

        What runs when the interpreter ends cannot be stopped by an exception.
        """
        self._over = True
        sys.unraisablehook = self._hook
        for number in self._heard:
            signal.signal(number, signal.SIG_DFL)

    @property
    def exit_code(self) -> int:
        """As shells have it: 128 and the number of the signal."""
        return 128 + (self.number or 0)

    def _tell_unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        """What is raised where nothing can catch it; a stop there is told at the command's end.

        After a stop that may be whatever foreign code makes of one that it was cut by.
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
    """What is begun here, a first signal lets finish: for steps that must not be repeated."""
    Stops.finishing = True
    try:
        yield
    finally:
        Stops.finishing = False


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


def print_json(content: dict[str, Any]) -> None:
    """One object on standard output; what is not a number becomes null."""
    import typer

    from owpc_ltr.files.output import finite_json

    typer.echo(json.dumps(finite_json(content), indent=2, allow_nan=False), file=results())


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar on a terminal, silence in a pipe."""
    with bars() as drawn:
        task = drawn.add_task("", total=None)

        def show(message: str, done: float | None = None) -> None:
            drawn.update(
                task,
                description=printable(message),
                completed=done,
                total=None if done is None else 1,
            )

        yield show


def bars() -> Bars:
    """Bars on standard error, which go when all is done; none are drawn in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    # Names in brackets are no markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    return Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


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
