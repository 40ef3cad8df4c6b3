"""Errors that a user can fix: each is one line, and has an exit code.

Any other exception is a bug and keeps its traceback.
"""

import sys
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from owpc_ltr.redaction import redacted


class OwpcLtrError(Exception):
    """An error that the user can fix: what was asked, why it failed, what to do.

    Its text holds no secret, whoever has repeated one.
    """

    exit_code: ClassVar[int] = 5
    result: Any = None
    """What was found all the same: the command line prints it before the error."""

    def __init__(self, *args: object) -> None:
        super().__init__(
            *(redacted(argument) if isinstance(argument, str) else argument for argument in args)
        )

    def with_result(self, result: object) -> Self:
        """The error, with what was found all the same."""
        self.result = result
        return self


class UsageError(OwpcLtrError):
    """The command line, or a call, asks for something that does not exist or does not fit."""

    exit_code: ClassVar[int] = 2


class BadInput(OwpcLtrError):
    """A file or an array holds something that cannot be right; it is named with its place."""

    exit_code: ClassVar[int] = 3


class EngineUnavailable(OwpcLtrError):
    """The engine does not answer, or not in time; the work can be resumed."""

    exit_code: ClassVar[int] = 4


class WorkersUnavailable(OwpcLtrError):
    """Dask workers, or their scheduler, cannot be reached or ended; the same again may do it."""

    exit_code: ClassVar[int] = 4


class DiskFault(OwpcLtrError):
    """A file could not be read or written; what was kept before stays good."""

    exit_code: ClassVar[int] = 4


class Refused(OwpcLtrError):
    """The work was done in part or not at all, because going on would give a wrong result."""

    exit_code: ClassVar[int] = 5


class PluginError(OwpcLtrError):
    """A plugin is missing, broken, or breaks its contract; it is named."""

    exit_code: ClassVar[int] = 2


class Stopped(BaseException):
    """A signal to end the command, by its number; nothing but the command line may catch it.

    Libraries turn a KeyboardInterrupt into a silent exit.
    """

    keeps_work: ClassVar[bool] = False
    """Whether this process keeps finished work, which the same command resumes."""


class OwpcLtrWarning(UserWarning):
    """What is done, but should be known: a doubtful figure, input that had to be changed."""


def give_warnings(messages: Iterable[str]) -> None:
    """Warn a caller from Python, at the place of the call into this library."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    for message in messages:
        warnings.warn(redacted(message), OwpcLtrWarning, stacklevel=level)


def give_warning(message: str) -> None:
    """Give a single warning, as `give_warnings` does."""
    give_warnings((message,))


def _is_ours(module: str) -> bool:
    """Whether it is a module of this library, or of its plugins."""
    return module.startswith(("owpc_ltr.", "owpc_ltr_"))


def reason_of(error: BaseException) -> str:
    """Why a plugin failed, in one line."""
    if isinstance(error, PluginError):
        return str(error)
    text = redacted(str(error)).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
