"""Every fault of a network and an engine, at every stage: nothing is lost, mixed or half-done."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from _pytest.mark import ParameterSet

from tests.faults.cells import Laboratory, applies
from tests.faults.known import known
from tests.faults.network import FAULTS
from tests.faults.outcomes import record
from tests.faults.stages import STAGES

STAGE_OF = {stage.name: stage for stage in STAGES}
FAULT_OF = {fault.name: fault for fault in FAULTS}
pytestmark = pytest.mark.node


def cells() -> Iterator[ParameterSet]:
    """Stage by stage, so that each is prepared once."""
    for stage in STAGES:
        for fault in FAULTS:
            if not applies(stage, fault):
                continue
            reason = known(stage.name, fault.name)
            marks = [] if reason is None else [pytest.mark.xfail(strict=True, reason=reason)]
            for seed in range(fault.seeds):
                cell = f"{stage.name}:{fault.name}:{seed}"
                yield pytest.param(stage.name, fault.name, seed, id=cell, marks=marks)


@pytest.mark.faults(sample=8)
@pytest.mark.parametrize(("stage", "fault", "seed"), list(cells()))
def test_a_fault_at_a_stage_ends_as_promised(
    laboratory: Laboratory,
    record_property: Callable[[str, object], None],
    stage: str,
    fault: str,
    seed: int,
) -> None:
    struck, by = STAGE_OF[stage], FAULT_OF[fault]
    ended = laboratory.strike(struck, by, seed)
    problems = laboratory.problems(struck, by, ended)
    record(record_property, stage, fault, ended.code, held=not problems)
    assert problems == []
