"""Cells of faults × stages as the parameters of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import pytest
from _pytest.mark import ParameterSet

from tests.faults.stage import Stage


class Fault(Protocol):
    """What strikes a stage: each seed is a cell of its own."""

    @property
    def name(self) -> str:
        """As the tables and the cells have it."""

    @property
    def seeds(self) -> int:
        """How many cells it has at each stage."""


F = TypeVar("F", bound=Fault)


def cells(
    stages: Iterable[Stage], faults: Iterable[F], applies: Callable[[Stage, F], bool]
) -> Iterator[ParameterSet]:
    """Stage by stage, so that each is prepared once."""
    faults = list(faults)
    for stage in stages:
        for fault in faults:
            if not applies(stage, fault):
                continue
            for seed in range(fault.seeds):
                cell = f"{stage.name}:{fault.name}:{seed}"
                yield pytest.param(stage.name, fault.name, seed, id=cell)
