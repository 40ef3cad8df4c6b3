"""The command line: each command parses, calls one function of the core, and prints."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from owpc_ltr.errors import OwpcLtrError, OwpcLtrWarning


def main() -> NoReturn:
    """Run a command; a fault that the user can mend is one line and an exit code."""
    # More BLAS threads than free cores make small products many times slower.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, _stop)
    from owpc_ltr.cli.app import app

    code: object = 0
    try:
        with _warnings_told():
            code = app(standalone_mode=False)
    except OwpcLtrError as error:
        _end(str(error), error.exit_code)
    except _Stopped as stopped:
        message = "stopped; what is finished is kept, and the same command goes on"
        _end(message, 128 + stopped.args[0])
    except BrokenPipeError:
        # The reader has left (as `head` does): nobody is there to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        _end_if_usage(error)
        raise
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _warnings_told() -> Iterator[None]:
    """What the library warns of goes to standard error, a line each, when it is found."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", OwpcLtrWarning)
        shown = warnings.showwarning

        def tell(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if issubclass(category, OwpcLtrWarning):
                print(f"warning: {message}", file=sys.stderr)
            else:
                shown(message, category, *place, **more)

        warnings.showwarning = tell
        yield


class _Stopped(BaseException):
    """A signal to end. The command-line library turns a KeyboardInterrupt into a silent exit."""


def _stop(number: int, _frame: FrameType | None) -> None:
    raise _Stopped(number)


def _end(message: str, code: int) -> NoReturn:
    print(f"owpc-ltr: {message}", file=sys.stderr)
    sys.exit(code)


def _end_if_usage(error: Exception) -> None:
    """Print what the command-line library refuses in one line, as everything else."""
    import typer

    if isinstance(error, typer.Abort):
        _end("stopped", 130)
    # Its usage errors are told by their method: their class has moved between versions.
    describe = getattr(error, "format_message", None)
    if describe is None:
        return
    message = " ".join(describe().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    _end(message[:1].lower() + message[1:] + hint, 2)
