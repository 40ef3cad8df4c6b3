"""`main`, and what surrounds every command: signals, streams, warnings, errors and exit codes.

The traceback of a bug goes to a file that only the user can read, without secrets.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import Any, NoReturn

from owpc_ltr.cli.signals import Interrupted, Stops
from owpc_ltr.cli.terminal import standard_streams
from owpc_ltr.errors import DiskFault, OwpcLtrError, OwpcLtrWarning, PluginError, Refused, Stopped
from owpc_ltr.files.input import state_folder
from owpc_ltr.redaction import redacted_trace, secrets_of
from owpc_ltr.text import message_line, printable
from owpc_ltr.version import VERSION

_OF_THE_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.EFBIG, errno.ENAMETOOLONG, errno.ENOMEM),
}

"""Errors of files that only the user can fix."""


_OF_MEMORY = re.compile(
    "failed to map segment|cannot allocate memory|can't start new thread|bad_alloc|"
    "unable to allocate",
    re.IGNORECASE,
)


EXIT_CODE = 70

"""What sysexits.h calls EX_SOFTWARE."""


KEPT = 20

"""How many logs stay; older ones are removed."""


_LONGEST = 200


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


def fault_of(error: BaseException) -> tuple[str, int]:
    """The message and the exit code for whatever a command was ended by."""
    if isinstance(error, OwpcLtrError):
        return str(error), error.exit_code
    if _lacks_memory(error):
        return (
            "there is not enough memory for this: use fewer documents, features or --jobs, raise "
            "the limits of ulimit, or take a machine with more",
            Refused.exit_code,
        )
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        where = f" {error.filename}" if error.filename else ""
        why = (error.strerror or "it failed").lower()
        return f"cannot read or write{where}: {why}; fix that and try again", DiskFault.exit_code
    return _usage(error) or _ended_by_a_plugin(error) or _crashed(error)


def _lacks_memory(error: BaseException) -> bool:
    """Whether it, or what it was raised from, says that memory or threads were refused.

    Libraries that cannot be loaded, threads and extensions each have a message of their own.
    """
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if isinstance(cause, MemoryError) or _OF_MEMORY.search(str(cause)):
            return True
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, SystemError):
        with suppress(ImportError):
            import resource

            return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return False


def _crashed(error: BaseException) -> tuple[str, int]:
    from owpc_ltr.host.registry import place_in_plugin

    place = place_in_plugin(error)
    if place:
        what = crash_message(error, f"a plugin failed: {place}", "fix the plugin")
        return what, PluginError.exit_code
    return crash_message(error), EXIT_CODE


def crash_message(
    error: BaseException, cause: str = "this is a bug of ours", advice: str = "please report it"
) -> str:
    """The message of a bug; its traceback is written, or with OWPC_LTR_TRACEBACK=1 printed."""
    hidden = hidden_texts()
    words = redacted_trace(" ".join(str(error).split()), hidden)
    short = words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
    what = f"{cause}: {type(error).__name__}: {printable(short)}"
    # No values of variables, and of a long traceback its end.
    lines = traceback.TracebackException.from_exception(error, limit=-100, compact=True).format()
    trace = redacted_trace("".join(lines), hidden)
    if os.environ.get("OWPC_LTR_TRACEBACK") == "1":
        sys.stderr.write(trace)
        return f"{what}; the traceback is above: {advice}"
    path = _written(f"{_about()}\n{trace}")
    if path is None:
        return f"{what}; OWPC_LTR_TRACEBACK=1 prints the traceback: {advice}"
    return f"{what}; the traceback is in {path}: {advice}"


def _usage(error: BaseException) -> tuple[str, int] | None:
    """What the command-line library refuses in one line, as everything else."""
    import typer

    if isinstance(error, typer.Abort):
        return "interrupted", 130
    # Usage errors are recognised by this method, since their class has moved between versions.
    describe = getattr(error, "format_message", None)
    if describe is None:
        return None
    message = " ".join(describe().split()).rstrip(".").replace("Value error, ", "")
    if "unexpected extra argument" in message:
        message += ": put a text of several words in quotes, and commas between values"
    context = getattr(error, "ctx", None)
    if "such option" in message and context is not None and context.parent is None:
        message += ": options stand after the command"
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return message[:1].lower() + message[1:] + hint, 2


def _ended_by_a_plugin(error: BaseException) -> tuple[str, int] | None:
    """What only third-party code raises: owpc-ltr itself never ends the process from within."""
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


def _about() -> str:
    # The values of options can be secrets, and the other words are what somebody searches for.
    words = [word for word in sys.argv[1:2] if re.fullmatch(r"[a-z-]+", word)]
    options = [match[0] for word in sys.argv[2:] if (match := re.match(r"--?[a-z-]+", word))]
    return (
        f"owpc-ltr {VERSION}, Python {platform.python_version()}, {platform.platform()}\n"
        f"owpc-ltr {' '.join([*words, *options])}\n"
    )


def hidden_texts() -> list[str]:
    """What may be a secret in the environment and on the command line, whether read or not."""
    addresses = [word.partition("=")[2] or word for word in sys.argv[1:] if "@" in word]
    return [*secrets_of(), *addresses]


def _written(content: str) -> Path | None:
    """The file with the content, which only its owner can read."""
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.log"
    with suppress(OSError, RuntimeError):
        folder = state_folder() / "crashes"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in sorted(folder.glob("*.log"))[: -KEPT + 1]:
            old.unlink(missing_ok=True)
        return _write(os.open(folder / name, _NEW, 0o600), folder / name, content)
    with suppress(OSError):
        descriptor, path = tempfile.mkstemp(prefix="owpc-ltr-", suffix=".log")
        return _write(descriptor, Path(path), content)
    return None


def _write(descriptor: int, path: Path, content: str) -> Path:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode("utf-8", "backslashreplace"))
    return path


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
        with suppress(MemoryError):  # The process ends, and what handles its signals with it.
            stops.end()
    sys.exit(code)


def _with_streams(stops: Stops) -> int:
    # More BLAS threads than free cores make small products many times slower.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    alone = "--json" in sys.argv and "--help" not in sys.argv
    with standard_streams(results_alone=alone) as out, ExitStack() as quiet:
        if COMPLETION in os.environ:
            # The user is typing on the terminal: nothing is printed there.
            quiet.enter_context(redirect_stderr(quiet.enter_context(Path(os.devnull).open("w"))))
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
        from owpc_ltr.compiling import before_compiling

        before_compiling[:] = [_tell_compiling]
        with _reported_warnings():
            code: object = app(prog_name="owpc-ltr", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - the one place that reports whatever is left
        # A process that completes a line, or installs the completion, ends so.
        installs = "".join(sys.argv[1:2]).startswith(("--install-comp", "--show-comp"))
        if isinstance(error, SystemExit) and (COMPLETION in os.environ or installs):
            stops.done = True
            return int(error.code or 0)
        if isinstance(error, Stopped) or (stops.number and not isinstance(error, OwpcLtrError)):
            return _tell_stop(stops)

        return _tell(*fault_of(error))
    stops.done = True
    return code if isinstance(code, int) else 0


def _tell_stop(stops: Stops) -> int:
    """Report a signal once, wherever the command was; its exit code."""
    if not stops.reported:
        stops.reported = True
        how = "interrupted: run the same command again"
        if Stopped.keeps_work:
            how = "interrupted; finished work is kept: run the same command again to resume"
        _tell("interrupted after the work was complete" if stops.done else how, stops.exit_code)
    return stops.exit_code


@contextmanager
def _reported_warnings() -> Iterator[None]:
    """The library's warnings go to standard error at once, a line each."""
    from owpc_ltr.cli.wording import as_typed

    with warnings.catch_warnings():
        warnings.simplefilter("always", OwpcLtrWarning)
        default = warnings.showwarning

        def report(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if issubclass(category, OwpcLtrWarning):
                print(f"warning: {message_line(as_typed(str(message)))}", file=sys.stderr)
            else:
                default(message, category, *place, **more)

        warnings.showwarning = report
        yield


def _tell_compiling() -> None:
    if sys.stderr.isatty():
        print(
            "compiling what this command needs: some seconds now, none the next time",
            file=sys.stderr,
        )


def _tell(message: str, code: int) -> int:
    """Print an error message, which may hold foreign names; its exit code."""
    if message:
        print(f"owpc-ltr: {message_line(message)}", file=sys.stderr)
    return code
