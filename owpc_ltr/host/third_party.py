"""The import of a third-party module: it cannot end the process, print, or change its settings."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn

from owpc_ltr.errors import PluginError, Stopped

_SIGNALS = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))


@contextmanager
def third_party_import() -> Iterator[None]:
    """Around imports of plugins: what they print goes to standard error, as no result of ours.

    Raises PluginError where one ends the process, or raises what no `except Exception` takes.
    """
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    leave = os._exit
    os._exit = _refuse_to_leave
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Exception, Stopped, GeneratorExit):
        raise
    except KeyboardInterrupt as error:
        # Ctrl-C at a prompt of Python; the command line raises something else for it.
        if handlers[signal.SIGINT] is signal.default_int_handler:
            raise
        raise PluginError(_ended_by(error)) from error
    except BaseException as error:
        raise PluginError(_ended_by(error)) from error
    finally:
        os._exit = leave
        _restore(handlers)


def reason_of(error: BaseException) -> str:
    """Why a plugin failed, in one line."""
    if isinstance(error, PluginError):
        return str(error)
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


class _Leaving(BaseException):
    """An `os._exit`, which would end the process with work undone and any exit code."""


def _refuse_to_leave(status: Any = 0) -> NoReturn:
    raise _Leaving(status)


def _ended_by(error: BaseException) -> str:
    name = "os._exit" if isinstance(error, _Leaving) else type(error).__name__
    return (
        f"it ends the process by {name}({', '.join(map(repr, error.args))}) while it is imported: "
        "raise an error that says what is wrong"
    )


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread can have changed them
    for number, handler in handlers.items():
        # None stands for one that Python did not install, and cannot.
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
