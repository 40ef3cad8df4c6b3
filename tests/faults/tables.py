"""The tables of the matrix: which cells there are, by the kind of their stage."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.cells import applies
from tests.faults.kills import KILL, KILLED_STAGES
from tests.faults.local_stages import LOCAL_STAGES
from tests.faults.network import FAULTS
from tests.faults.outcomes import Table
from tests.faults.stage import Kind, Stage
from tests.faults.stages import STAGES
from tests.faults.system import SYSTEM_FAULTS

_TITLES = {
    Kind.WRITES: "Commands that change the cluster, at a broken network or engine",
    Kind.LOGS: "Commands that publish what the engine says, at a broken network or engine",
    Kind.READS: "Commands that ask the cluster, at a broken network or engine",
}


def tables() -> list[Table]:
    """Every table, in the order of the page."""
    return [
        *(
            _network(title, [stage for stage in STAGES if stage.kind is kind])
            for kind, title in _TITLES.items()
        ),
        _system("Commands that use a cluster, on a machine in trouble", STAGES),
        _system("Commands that use files alone, on a machine in trouble", LOCAL_STAGES),
    ]


def _network(title: str, stages: Sequence[Stage]) -> Table:
    cells = {
        (stage.name, fault.name) for stage in stages for fault in FAULTS if applies(stage, fault)
    }
    return Table(
        title,
        [stage.name for stage in stages],
        [fault.name for fault in FAULTS if any(name == fault.name for _, name in cells)],
        frozenset(cells),
    )


def _system(title: str, stages: Sequence[Stage]) -> Table:
    cells = {
        (stage.name, fault.name)
        for stage in stages
        for fault in SYSTEM_FAULTS
        if fault.applies(stage)
    }
    cells |= {(stage.name, KILL) for stage in stages if stage.name in KILLED_STAGES}
    faults = [*(fault.name for fault in SYSTEM_FAULTS), KILL]
    return Table(
        title,
        [stage.name for stage in stages],
        [fault for fault in faults if any(name == fault for _, name in cells)],
        frozenset(cells),
    )
