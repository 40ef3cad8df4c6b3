"""What ended a command, as one line and an exit code."""

from __future__ import annotations

import errno
import traceback

from owpc_ltr.cli.crash import EXIT_CODE, crash_message
from owpc_ltr.cli.stops import Interrupted
from owpc_ltr.errors import DiskFault, OwpcLtrError, PluginError, Refused

_OF_THE_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.EFBIG, errno.ENAMETOOLONG, errno.ENOMEM),
}
"""Faults of files that no program of ours can mend."""


def fault_of(error: BaseException) -> tuple[str, int]:
    """The message and the exit code for whatever a command was ended by."""
    if isinstance(error, OwpcLtrError):
        return str(error), error.exit_code
    if isinstance(error, MemoryError):
        return (
            "there is not enough memory for this: use fewer documents, features or --jobs, or a "
            "machine with more",
            Refused.exit_code,
        )
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        where = f" {error.filename}" if error.filename else ""
        why = (error.strerror or "it failed").lower()
        return f"cannot read or write{where}: {why}; mend that and try again", DiskFault.exit_code
    return _usage(error) or _ended_by_a_plugin(error) or (crash_message(error), EXIT_CODE)


def _usage(error: BaseException) -> tuple[str, int] | None:
    """What the command-line library refuses in one line, as everything else."""
    import typer

    if isinstance(error, typer.Abort):
        return "interrupted", 130
    # Its usage errors are told by their method: their class has moved between versions.
    describe = getattr(error, "format_message", None)
    if describe is None:
        return None
    message = " ".join(describe().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return message[:1].lower() + message[1:] + hint, 2


def _ended_by_a_plugin(error: BaseException) -> tuple[str, int] | None:
    """What only a stranger's code raises: nothing of ours ends the process from within."""
    cause = error.__cause__ if isinstance(error, Interrupted) else error
    if cause is None or isinstance(cause, Exception):
        return None
    frames = traceback.extract_tb(cause.__traceback__)
    place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "a plugin"
    what = f"{type(cause).__name__}({', '.join(map(repr, cause.args))})"
    return (
        f"{place}: a plugin ends the process by {what}, which only the command may: raise an "
        "error that says what is wrong",
        PluginError.exit_code,
    )
