"""Commands run in this process as a user's shell would see them: exit code and what was printed."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

LONGEST = 240
"""Seconds after which a command counts as hanging: far more than any cell may need, and enough for
a machine that has to compile everything first."""
CANARY = "c4n4ry-0f-th3-faults"
CREDENTIALS = {"OWPC_LTR_USER": "anna", "OWPC_LTR_PASSWORD": CANARY}
TRACEBACK = 1
"""What the interpreter ends with where a command does not catch an error."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The last line on standard error, which says what happened."""
        return self.err.splitlines()[-1] if self.err else ""

    def faults(self) -> list[str]:
        """What a user must never see, whatever goes wrong."""
        errors = [
            line
            for line in self.err.splitlines()
            if not line.startswith(("warning: ", "cluster: "))
        ]
        seen = []
        if "Traceback" in self.err + self.out:
            seen.append(f"a traceback: {self.line}")
        elif self.code and (len(errors) != 1 or not errors[0].startswith("owpc-ltr: ")):
            seen.append(f"not one line on standard error: {self.err!r}")
        elif not self.code and errors:
            seen.append(f"words on standard error after success: {self.err!r}")
        if CANARY in self.out + self.err or "YW5uYTpj" in self.out + self.err:
            seen.append("a password")
        return seen


class Hangs(BaseException):
    """A command has not ended in time."""


def run(words: Sequence[str], folder: Path, environ: Mapping[str, str] | None = None) -> Ended:
    """Run `owpc-ltr WORDS` in a folder, with nothing of the user's own settings."""
    from owpc_ltr import cli

    out, err = _stream(), _stream()
    with _as_started_by_a_shell(words, folder, environ or {}), _watched():
        stdout, stderr = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0) if isinstance(ended.code, int | None) else 1
        except Hangs:
            raise
        except BaseException:  # noqa: BLE001 - printed as the interpreter would
            code = TRACEBACK
            err.write(traceback.format_exc())
        finally:
            sys.stdout, sys.stderr = stdout, stderr
    return Ended(code, _text(out), _text(err))


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8", "replace")


@contextlib.contextmanager
def _as_started_by_a_shell(
    words: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Iterator[None]:
    kept = dict(os.environ)
    before, argv = Path.cwd(), sys.argv
    for name in [name for name in os.environ if name.startswith("OWPC_LTR_")]:
        del os.environ[name]
    own = {
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_STATE_HOME": str(folder.with_name(f"{folder.name}-state")),
    }
    os.environ.update({**own, **CREDENTIALS, **environ})
    os.chdir(folder)
    sys.argv = ["owpc-ltr", *words]
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.argv = argv
        os.chdir(before)
        os.environ.clear()
        os.environ.update(kept)


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """Hangs is raised in a command that does not end, and after it where it was swallowed."""
    rung = False

    def ring(_number: int, _frame: FrameType | None) -> None:
        nonlocal rung
        rung = True
        raise Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if rung:
            raise Hangs(f"the command had not ended after {LONGEST} s")
