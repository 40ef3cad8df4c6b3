"""Seeds for tests that loop, and the line that runs a failed one again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.faults.selection import REPLAY, Selection, cell_of

_RUNNING = pytest.StashKey["Seeds"]()


@dataclass
class Seeds:
    """Gives a test its seeds, and knows which of them it has come to.

    `for seed in seeds(sample=20, whole=1000):` is 20 rounds, and 1,000 in
    `make test-faults`.
    """

    selection: Selection
    running: int | None = field(default=None, init=False)

    def __call__(self, *, sample: int, whole: int) -> Iterator[int]:
        """Each seed in its turn."""
        for seed in self.selection.seeds(sample=sample, whole=whole):
            self.running = seed
            yield seed
        self.running = None


def seeds_for(item: pytest.Item) -> Seeds:
    """The seeds of a test, remembered for what is printed if it fails."""
    item.stash[_RUNNING] = Seeds(Selection.asked())
    return item.stash[_RUNNING]


def replay_command(item: pytest.Item) -> str:
    """The line by which the cell that has just failed runs again."""
    seeds = item.stash.get(_RUNNING, None)
    seed = "" if seeds is None or seeds.running is None else f"#{seeds.running}"
    return f"{REPLAY}='{cell_of(item)}{seed}' make test-faults"
