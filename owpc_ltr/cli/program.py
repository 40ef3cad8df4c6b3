"""`main`, and what surrounds every command: its signals, streams, warnings and errors."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

from owpc_ltr.cli.process import Stops, standard_streams
from owpc_ltr.errors import DiskFault, OwpcLtrError, OwpcLtrWarning, Refused, Stopped
from owpc_ltr.text import message_line

COMPLETION = "_OWPC_LTR_COMPLETE"
"""The variable in which the shell asks for the words that may follow."""


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
        # There was not even enough to report it where all other errors are reported.
        code = _tell("there is not enough memory for this", Refused.exit_code)
    finally:
        stops.end()
    sys.exit(code)


def _with_streams(stops: Stops) -> int:
    # More BLAS threads than free cores make small products many times slower.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    alone = "--json" in sys.argv and "--help" not in sys.argv
    completion: AbstractContextManager[None] = nullcontext()
    if COMPLETION in os.environ:
        from owpc_ltr.cli.completion import quiet_completion

        completion = quiet_completion()
    with standard_streams(results_alone=alone) as out, completion:
        code = _run(stops)
        out.flush()
        if out.fault is not None and code == 0:
            why = (out.fault.strerror or "it failed").lower()
            code = _tell(
                f"the work is done, and standard output could not be written: {why}",
                DiskFault.exit_code,
            )
    return code


def _run(stops: Stops) -> int:
    """The exit code of the command, whose errors have been reported."""
    try:
        from owpc_ltr.cli.app import app

        with _reported_warnings(), _reported_compiling():
            code: object = app(prog_name="owpc-ltr", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - the one place that reports whatever is left
        # A process that completes a line, or installs the completion, ends so.
        installs = "".join(sys.argv[1:2]).startswith(("--install-comp", "--show-comp"))
        if isinstance(error, SystemExit) and (COMPLETION in os.environ or installs):
            stops.done = True
            return int(error.code or 0)
        if isinstance(error, Stopped) or (stops.number and not isinstance(error, OwpcLtrError)):
            return _tell_stop(stops)
        from owpc_ltr.cli.faults import fault_of

        return _tell(*fault_of(error))
    stops.done = True
    return code if isinstance(code, int) else 0


def _tell_stop(stops: Stops) -> int:
    """Report a signal once, wherever the command was; its exit code."""
    if not stops.reported:
        stops.reported = True
        _tell(
            "interrupted after the work was complete"
            if stops.done
            else "interrupted; finished work is kept: run the same command again to resume",
            stops.exit_code,
        )
    return stops.exit_code


@contextmanager
def _reported_warnings() -> Iterator[None]:
    """The library's warnings go to standard error at once, a line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", OwpcLtrWarning)
        default = warnings.showwarning

        def report(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if issubclass(category, OwpcLtrWarning):
                print(f"warning: {message_line(str(message))}", file=sys.stderr)
            else:
                default(message, category, *place, **more)

        warnings.showwarning = report
        yield


@contextmanager
def _reported_compiling() -> Iterator[None]:
    """Compiling is reported on a terminal; compiled code that cannot be cached, everywhere."""
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
        if not all(function.folder for function in WORK.made[before:]):
            print(
                "warning: compiled code was not kept, and will be compiled again: set "
                "NUMBA_CACHE_DIR to a folder that only you can write",
                file=sys.stderr,
            )


def _tell(message: str, code: int) -> int:
    """Print an error message, which may hold foreign names; its exit code."""
    if message:
        print(f"owpc-ltr: {message_line(message)}", file=sys.stderr)
    return code
