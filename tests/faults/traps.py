"""Traps in a child process: it kills itself at a counted step, as a power cut would."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any

from tests.faults.cells import small_chunks
from tests.faults.running import run

STEPS = ("request", "answer", "file", "call")
"""Before a request, after its answer, before a change of a file, at a call of a function."""
_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass
class Trap:
    """Strikes at the `place`-th step of a kind, counted from 1; with place 0 it only counts."""

    step: str
    place: int = 0
    signals: tuple[int, ...] = (signal.SIGKILL,)
    """What this process gets then; where there is none, its memory is at an end."""
    count: int = field(default=0, init=False)

    def set(self, folder: Path) -> None:
        """Watch this process; files are those of the folder."""
        if self.step in {"request", "answer"}:
            self._watch_requests(before=self.step == "request")
        elif self.step == "file":
            self._watch_files(folder)
        else:
            self._watch_calls()

    def _stepped(self, *, may_raise: bool = True) -> None:
        self.count += 1
        if self.count == self.place and not self.signals and not may_raise:
            self.place += 1
        elif self.count == self.place:
            for number in self.signals:
                os.kill(os.getpid(), number)
            if not self.signals:
                raise MemoryError

    def _watch_requests(self, *, before: bool) -> None:
        from owpc_ltr.engine.client.connection import BoundedConnection

        exchange = BoundedConnection._exchange

        def watched(connection: BoundedConnection, *given: Any) -> Any:
            if before:
                self._stepped()
            answer = exchange(connection, *given)
            if not before:
                self._stepped()
            return answer

        BoundedConnection._exchange = watched  # type: ignore[method-assign,assignment]

    def _watch_files(self, folder: Path) -> None:
        for name in ("write", "fsync", "replace"):
            self._watch_function(name)

        def hook(event: str, given: tuple[Any, ...]) -> None:
            opened = event == "open" and isinstance(given[2], int) and given[2] & _WRITING
            changes = (opened or event in _CHANGES) and isinstance(given[0], str | Path)
            if changes and str(Path.cwd() / given[0]).startswith(str(folder)):
                self._stepped()

        sys.addaudithook(hook)

    def _watch_function(self, name: str) -> None:
        true = getattr(os, name)

        def watched(*given: Any, **named: Any) -> Any:
            self._stepped()
            return true(*given, **named)

        setattr(os, name, watched)

    def _watch_calls(self) -> None:
        def look(frame: FrameType, event: str, _given: Any) -> None:
            if event == "call" and "/owpc_ltr" in frame.f_code.co_filename:
                # What a generator raises while it is closed, the interpreter prints and drops.
                self._stepped(may_raise=not frame.f_code.co_flags & CO_GENERATOR)

        threading.setprofile(look)
        sys.setprofile(look)


def trapped(
    words: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    traps: Sequence[Trap],
    pipe: Any = None,
) -> None:
    """Run a command with traps, in a child: the steps of each are told where it gets so far."""
    with small_chunks():
        for trap in traps:
            trap.set(folder)
        ended = run(words, folder, environ)
    sys.setprofile(None)
    if pipe is not None:
        pipe.send((ended, {trap.step: trap.count for trap in traps}))
    os._exit(ended.code)
