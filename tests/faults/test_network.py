"""Every fault of a network and an engine, at every stage: nothing is lost, mixed or half-done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.cells import Laboratory, applies
from tests.faults.matrix import cells
from tests.faults.network import FAULTS
from tests.faults.outcomes import record
from tests.faults.stages import STAGES

STAGE_OF = {stage.name: stage for stage in STAGES}
FAULT_OF = {fault.name: fault for fault in FAULTS}


@pytest.mark.faults(sample=8)
@pytest.mark.parametrize(("stage", "fault", "seed"), list(cells(STAGES, FAULTS, applies)))
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
