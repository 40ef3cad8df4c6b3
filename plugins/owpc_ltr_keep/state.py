"""What survives between runs, in one JSON file that is replaced after each step; the ledger.

The ledger has how often a gain was looked for on the same evidence, and what level is left. A test
at 5 % that is made every night finds a gain by chance within weeks. Attempt k therefore has the
level .05 / (k (k + 1)): these add up to .05, so that all attempts together promote a model that is
not better in at most 5 % of cases. An attempt is written down before its result is looked at.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.files.output import Journal, digest_of, lock_file, write_output
from owpc_ltr.files.strict_json import read_json_object

MOST_RESAMPLES = 2_000_000

"""Of a permutation test, for memory and time: attempts that need more are not made."""


@dataclass(frozen=True)
class EvidenceStream:
    """What attempts share: an alias, and the judgments or the experiment that they look at.

    `source` names these, `queries` is a digest of the ids of held-out queries. The same file with
    more queries, and another file with the same queries, are the same evidence.
    """

    alias: str
    source: str
    queries: str = ""

    def shares(self, other: EvidenceStream) -> bool:
        """Whether an attempt on the other evidence counts for this one."""
        same = self.source == other.source or self.queries == other.queries != ""
        return self.alias == other.alias and same


@dataclass(frozen=True)
class Attempt:
    """A look at the evidence for one candidate: the k-th of its stream."""

    number: int

    @property
    def level(self) -> float:
        """The level of its test: what is spent of the 5 % of all attempts."""
        return LEVEL / (self.number * (self.number + 1))

    @property
    def resamples(self) -> int:
        """Permutations with which p can be as small as half of the level."""
        return max(RESAMPLES, math.ceil(2 / self.level))


class Ledger:
    """The attempts in a file. Raises BadInput for a file that is no ledger."""

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)

    def attempt(self, stream: EvidenceStream, candidate: str) -> Attempt:
        """Write an attempt down; of the same candidate on the same evidence it is the same one.

        `candidate` is a digest of all that the result depends on. So a run that was killed goes on
        with its attempt, and a new candidate has the next one. Raises BadInput where no test can be
        fine enough for the level that is left.
        """
        key = digest_of([asdict(stream), candidate])
        if key in self._journal.pieces:
            return Attempt(self._journal.pieces[key].value["attempt"])
        before = sum(
            stream.shares(EvidenceStream(**piece.value["stream"]))
            for piece in self._journal.pieces.values()
        )
        attempt = Attempt(before + 1)
        if attempt.resamples > MOST_RESAMPLES:
            raise BadInput(
                f"{before} candidates were tried on '{stream.source}', and no level is left: judge "
                "other queries, in a file of another name"
            )
        self._journal.append(key, {"attempt": attempt.number, "stream": asdict(stream)})
        return attempt


KeepEnd = Literal["promoted", "refused", "rolled back", "person"]

"""How a round ends; `person`: a person is needed."""

_FORMAT = 1

_LONGEST_HISTORY = 2_000


@dataclass(frozen=True)
class KeepStep:
    """What a step did: a line, facts for later steps, and how it ends the round, if it does.

    A step that `waits` is made again by the next run. A `change` is told to who is notified.
    """

    line: str
    facts: dict[str, Any] = field(default_factory=dict)
    end: KeepEnd | None = None
    waits: bool = False
    change: bool = False


class KeepState:
    """The state of one plan.

    `round` has the steps of the round that is under way, which `began` then, `finished` the inputs
    and the end of the last one, `rollback` one that has begun, `unsent` changes that nobody was
    told of, `warned` what was told last of a trouble that goes on.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._path, self._clock = path, clock
        content: dict[str, Any] = {"format": _FORMAT}
        if path.exists():
            content = read_json_object(path)
        if content.get("format") != _FORMAT:
            raise BadInput(f"{path} is damaged, or of a later version of owpc-ltr: use that one")
        self.round: dict[str, Any] | None = content.get("round")
        self.rounds: int = content.get("rounds", 0)
        self.began: str | None = content.get("began")
        self.finished: dict[str, Any] = content.get("finished", {})
        self.rollback: dict[str, Any] | None = content.get("rollback")
        self.unsent: list[dict[str, Any]] = content.get("unsent", [])
        self.warned: str | None = content.get("warned")
        self.history: list[dict[str, Any]] = content.get("history", [])
        self._this_run: list[dict[str, Any]] = []

    def now(self) -> datetime:
        """The time by the clock of this run."""
        return self._clock()

    @property
    def this_run(self) -> list[dict[str, Any]]:
        """The history since the state was read."""
        return self._this_run

    def begin(self, inputs: str, champion: str) -> None:
        """Begin a round."""
        self.rounds += 1
        self.began = self.now().isoformat()
        self.round = {"inputs": inputs, "champion": champion, "steps": {}}
        self.save()

    def facts(self, step: str) -> dict[str, Any] | None:
        """The facts of a step of this round; None where it is not done."""
        steps: dict[str, dict[str, Any]] = {} if self.round is None else self.round["steps"]
        return steps.get(step)

    def record(self, name: str, step: KeepStep, *, closes: bool | None = None) -> None:
        """Keep what a step did; the file has all of it or nothing.

        Of what is no step of the round, `closes` says whether it ends it.
        """
        time = f"{self.now():%Y-%m-%dT%H:%M:%SZ}"
        entry = {"time": time, "round": self.rounds, "step": name, "line": step.line}
        entry |= {"end": step.end} if step.end else {}
        self.history = [*self.history, entry][-_LONGEST_HISTORY:]
        self._this_run.append(entry)
        if step.change:
            self.unsent.append(entry)
        if self.round is not None and closes is None and not step.waits:
            self.round["steps"][name] = {"time": time, **step.facts}
        if self.round is not None and step.end is not None and closes is not False:
            self.finished = {"inputs": self.round["inputs"], "end": step.end, "line": step.line}
            self.round = None
        self.save()

    def is_new(self, trouble: str | None) -> bool:
        """Whether a trouble is another one than that of the run before; None is the end of one."""
        new, self.warned = trouble != self.warned, trouble
        return new

    def decide(self, start: str, step: KeepStep) -> None:
        """Keep how what a step has started ends, before it is ended."""
        if self.round is not None:
            self.round["steps"][start]["decided"] = asdict(step)
        self.save()

    def save(self) -> None:
        """Replace the file."""
        content = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        text = json.dumps({"format": _FORMAT, **content}, allow_nan=False)
        write_output(self._path, text.encode())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, for one run at a time. Raises LockHeld, naming the process that has it.

    The lock of a process that was killed is free.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = lock_file(folder / "lock")
    try:
        yield
    finally:
        os.close(descriptor)
