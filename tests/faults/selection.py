"""Which tests run: those of a commit, the thorough ones too, all faults, or one cell again.

`@pytest.mark.thorough` is for tests that take long: `make test-all` runs them (OWPC_LTR_TESTS=all),
`make test` does not, or only `sample` of a function's cells where the marker says so.
`@pytest.mark.faults` is for tests of which there are many more than a run of all tests has time
for. Of each such function `make test` takes one cell, `make test-all` takes `sample` cells
(default: 1; with 0 neither takes any), always the same; `make test-faults` takes all
(OWPC_LTR_FAULTS=all). A test that loops by itself takes its number from the fixture `seeds`.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

REPLAY = "OWPC_LTR_FAULTS_CELL"


@dataclass(frozen=True)
class Selection:
    """What is asked for by OWPC_LTR_FAULTS, OWPC_LTR_FAULTS_CELL (one cell) and OWPC_LTR_TESTS."""

    whole: bool = False
    cell: str = ""
    thorough: bool = False

    @classmethod
    def asked(cls, environ: Mapping[str, str] = os.environ) -> Selection:
        """The selection that the environment asks for."""
        for name in ("OWPC_LTR_FAULTS", "OWPC_LTR_TESTS"):
            if (given := environ.get(name, "")) not in {"", "all"}:
                raise pytest.UsageError(f"{name} is 'all' or not set, not {given!r}")
        whole = environ.get("OWPC_LTR_FAULTS") == "all"
        cell = environ.get(REPLAY, "")
        return cls(whole, cell, bool(whole or cell or environ.get("OWPC_LTR_TESTS")))

    @property
    def seed(self) -> int | None:
        """The one seed that is asked for, where a cell's is."""
        cell, _, seed = self.cell.rpartition("#")
        return int(seed) if cell and seed.isdecimal() else None

    def chosen(self, cells: Sequence[str], sample: int) -> set[str]:
        """Those of a function's cells that run."""
        if self.cell:
            asked = self.cell if self.seed is None else self.cell.rpartition("#")[0]
            return {cell for cell in cells if cell == asked}
        if self.whole:
            return set(cells)
        if not self.thorough:
            sample = min(sample, 1)
        return set(sample_of(cells, sample))

    def seeds(self, *, sample: int, whole: int) -> Iterator[int]:
        """The seeds that run of those of a test that loops."""
        if self.seed is not None:
            return iter([self.seed])
        return iter(range(whole if self.whole else sample))


def select(items: list[pytest.Item], selection: Selection) -> list[pytest.Item]:
    """Remove from `items` those that do not run, and return them."""
    functions: dict[tuple[str, str], dict[str, pytest.Item]] = defaultdict(dict)
    samples: dict[tuple[str, str], int] = {}
    for item in items:
        for kind, default in (("faults", 1), ("thorough", 0)):
            mark = item.get_closest_marker(kind)
            if mark is not None and not (kind == "thorough" and selection.thorough):
                key = kind, item.nodeid.partition("[")[0]
                functions[key][cell_of(item)] = item
                samples[key] = int(mark.kwargs.get("sample", default))
    gone_ids = set()
    for key, cells in functions.items():
        if key[0] == "faults":
            kept = selection.chosen(list(cells), samples[key])
        else:
            kept = set(sample_of(cells, samples[key]))
        gone_ids |= {id(item) for cell, item in cells.items() if cell not in kept}
    gone = [item for item in items if id(item) in gone_ids]
    items[:] = [item for item in items if id(item) not in gone_ids]
    return gone


def sample_of(cells: Iterable[str], size: int) -> list[str]:
    """So many of the cells, always the same.

    By hash, so that neighbours, which are much alike, are not taken together.
    """
    return sorted(cells, key=lambda cell: hashlib.sha256(cell.encode()).hexdigest())[:size]


def cell_of(item: pytest.Item) -> str:
    """What a cell is called: stage:fault:seed where it is one of a matrix, else the test's name."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.id) if callspec is not None and ":" in callspec.id else item.name


def node_group(item: pytest.Item, selection: Selection) -> str:
    """Which tests share a process, and so a node: all, or of the whole of faults those of a stage.

    Then each process starts a node of its own, and takes one stage after the other.
    """
    if not selection.whole or item.get_closest_marker("faults") is None:
        return "node"
    callspec = getattr(item, "callspec", None)
    stage = getattr(callspec, "params", {}).get("stage")
    return f"node, {stage or item.nodeid.partition('[')[0]}"
