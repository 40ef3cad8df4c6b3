"""What survives between runs, in one JSON file that is replaced as a whole.

Nothing that is guaranteed rests on it: attempts are counted in the cluster, and an experiment that
runs is found there. Without the file a round begins anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.files.output import LockHeld, lock_file, write_output
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.host.project import read_table
from owpc_ltr.redaction import redacted

SKEW = timedelta(hours=1)
"""By which the clocks of two machines may differ."""
FORMAT = 1
_LONGEST_HISTORY, _MOST_UNSENT = 2_000, 100


@dataclass(frozen=True, kw_only=True)
class KeepStep:
    """What was done, and when (ISO 8601); the last step of a run has how it ended."""

    time: str
    step: str
    line: str
    end: str = ""

    def __post_init__(self) -> None:
        # It goes to the history, and to whoever is told.
        object.__setattr__(self, "line", redacted(self.line))


@dataclass(frozen=True, kw_only=True)
class KeepRound:
    """The last round: when it began, of what inputs, and its `model` from the upload on.

    `end` is how it ended, with the `line` of that; a round without one is under way.
    """

    began: str
    inputs: str
    model: str | None = None
    end: str = ""
    line: str = ""


@dataclass(kw_only=True)
class KeepState:
    """The state of one plan: `running` is when a run began that has not ended yet.

    `unsent` are ends of runs that nobody was told of.
    """

    format: int = FORMAT
    running: str | None = None
    round: KeepRound | None = None
    unsent: tuple[KeepStep, ...] = ()
    history: tuple[KeepStep, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> KeepState:
        """The state in a folder, or a new one. Raises BadInput for a file that is no such state."""
        path = folder / "state.json"
        if not path.exists():
            return cls()
        try:
            content = read_json_object(path)
            if content.get("format") != FORMAT:
                raise BadInput(f"{path} is of another version of owpc-ltr")
            state = read_table(cls, content, str(path))
            began = () if state.round is None else (state.round.began,)
            for time in (*began, *(step.time for step in state.history)):
                parse_time(time, f"{path}: ")
        except BadInput as error:
            raise BadInput(f"{error}; put back an earlier {path.name}, or delete it") from error
        state.history = state.history[-_LONGEST_HISTORY:]
        return state

    def save(self, folder: Path) -> None:
        """Replace the file."""
        self.unsent = self.unsent[-_MOST_UNSENT:]
        write_output(folder / "state.json", json.dumps(asdict(self), allow_nan=False).encode())


def as_text(time: datetime) -> str:
    """A time as the state has it, in ISO 8601."""
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def parse_time(text: str, place: str = "") -> datetime:
    """The time of such a text. Raises BadInput for what is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise BadInput(f"{place}'{text[:40]}' is not a time with a zone, as 2027-01-31T03:17:00Z")
    return time


class KeepIsRunning(OwpcLtrError):
    """Another run of the plan is under way."""

    exit_code = 4


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """The folder, for one run at a time. Raises KeepIsRunning, naming the process that has it.

    The lock of a process that was killed is free.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = lock_file(folder / "lock")
    except LockHeld as held:
        raise KeepIsRunning(str(held)) from held
    try:
        yield
    finally:
        os.close(descriptor)
