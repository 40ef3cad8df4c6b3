"""A thousand kills: the same command again comes to the same bytes, or the same names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.kills import KILL, KILLED, KILLED_STAGES, Killer
from tests.faults.local_stages import LOCAL_STAGES
from tests.faults.outcomes import record
from tests.faults.seeds import Seeds
from tests.faults.stages import STAGES

STRUCK = {stage.name: stage for stage in (*STAGES, *LOCAL_STAGES) if stage.name in KILLED_STAGES}
MOST = 4
"""How often a command is killed before it may come to its end."""


@pytest.mark.faults(sample=4)
@pytest.mark.parametrize("stage", STRUCK)
def test_a_command_that_is_killed_comes_to_the_same_end_when_repeated(
    killer: Killer, seeds: Seeds, record_property: Callable[[str, object], None], stage: str
) -> None:
    kills = 0
    for seed in seeds(sample=1, whole=45):
        struck, problems = killer.round(STRUCK[stage], seed, MOST)
        kills += struck
        assert problems == []
    record(record_property, stage, KILL, KILLED, times=kills)
