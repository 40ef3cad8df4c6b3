"""The command line: commands generated from public functions."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from owpc_ltr.cli.terminal import Stops
from owpc_ltr.errors import DiskFault, OwpcLtrError, OwpcLtrWarning, Refused, Stopped


def main() -> NoReturn:
    """Run a command; a fault that the user can mend is one line and an exit code."""
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
    from owpc_ltr.cli.terminal import standard_streams

    with standard_streams(results_alone="--json" in sys.argv and "--help" not in sys.argv) as out:
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
    """The exit code of the command, whose faults have been told."""
    try:
        from owpc_ltr.cli.app import app

        with _warnings_told(), _compiling_told():
            code: object = app(standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - the one place that tells whatever is left
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
    from owpc_ltr.plain_text import message_line

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
    from owpc_ltr.plain_text import message_line

    if message:
        print(f"owpc-ltr: {message_line(message)}", file=sys.stderr)
    return code
