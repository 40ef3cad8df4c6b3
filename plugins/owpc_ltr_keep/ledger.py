"""The ledger: how often a gain was looked for on the same evidence, and what level is left.

A test at 5 % that is made every night finds a gain by chance within weeks. Attempt k therefore has
the level .05 / (k (k + 1)): these add up to .05, so that all attempts together promote a model that
is not better in at most 5 % of cases. An attempt is written down before its result is looked at.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.files.output import Journal, digest_of

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
