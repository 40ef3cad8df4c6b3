"""Files that were changed at random are read, or refused in one line: nothing else.

`OWPC_LTR_FAULTS=all` reads 20,000 of each kind; `python -m tests.faults.mutated` tells of them.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from owpc_ltr.errors import BadInput
from tests.faults import mutated
from tests.faults.selection import Selection

MOST_MEMORY = 1 << 30
SEEDS = mutated.seeds()


@pytest.mark.filterwarnings("ignore:.*the last line is torn")
@pytest.mark.parametrize("kind", SEEDS)
def test_changed_files_are_read_or_refused(kind: str) -> None:
    number = 20_000 if Selection.asked().whole else 20
    tally = mutated.run(kind, SEEDS[kind], range(number))
    assert not tally.faults, tally.faults
    assert sum(tally.outcomes.values()) == number
    assert tally.outcomes["refused"] > number / 10, tally.outcomes
    assert tally.grown < MOST_MEMORY


def test_a_file_that_ends_the_process_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> None:
        content = path.read_bytes()
        if content == b"3":
            os.kill(os.getpid(), signal.SIGKILL)
        if content == b"5":
            raise StopIteration
        if content == b"6":
            raise BadInput("x" * 2000)

    monkeypatch.setattr(mutated, "readers", lambda: {"made": read})
    monkeypatch.setattr(mutated, "mutated", lambda _kind, _content, number: f"{number}".encode())
    tally = mutated.run("made", b"whole", range(8))
    assert tally.outcomes["read"] == 5
    assert tally.faults == {"ended by -9": 3, "raised StopIteration: ": 5,
                            "told in 2000 characters": 6}  # fmt: skip
