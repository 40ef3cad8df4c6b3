"""Disks that fail, signals, memory and plugins, at every stage: the old or the new, in one line."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.faults.kills import Killer
from tests.faults.local_stages import LOCAL_STAGES
from tests.faults.matrix import cells
from tests.faults.outcomes import record
from tests.faults.stages import STAGES
from tests.faults.system import SYSTEM_FAULTS

STAGE_OF = {stage.name: stage for stage in (*STAGES, *LOCAL_STAGES)}
FAULT_OF = {fault.name: fault for fault in SYSTEM_FAULTS}


@pytest.mark.faults(sample=3)
@pytest.mark.parametrize(
    ("stage", "fault", "seed"),
    list(cells(STAGE_OF.values(), SYSTEM_FAULTS, lambda stage, fault: fault.applies(stage))),
)
def test_a_fault_of_the_system_ends_as_promised(
    killer: Killer,
    record_property: Callable[[str, object], None],
    stage: str,
    fault: str,
    seed: int,
) -> None:
    struck, by, laboratory = STAGE_OF[stage], FAULT_OF[fault], killer.laboratory
    laboratory.clean(struck)
    ended = by.strike(killer, struck, random.Random(f"{stage}:{fault}:{seed}"))  # noqa: S311
    problems = laboratory.problems_of(
        struck, ended, by.expected,
        cut_off=by.abrupt, published=by.published, unsure=by.unsure,
    )  # fmt: skip
    record(record_property, stage, fault, ended.code, held=not problems)
    assert problems == []
