"""The tables of the matrix: which cells there are, by the kind of their stage."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.cells import applies
from tests.faults.known import known
from tests.faults.network import FAULTS
from tests.faults.outcomes import Table
from tests.faults.stages import STAGES, Kind, Stage

_TITLES = {
    Kind.WRITES: "Commands that change the cluster, at a broken network or engine",
    Kind.LOGS: "Commands that publish what the engine says, at a broken network or engine",
    Kind.READS: "Commands that ask the cluster, at a broken network or engine",
}


def tables() -> list[Table]:
    """Every table, in the order of the page."""
    return [
        _network(title, [stage for stage in STAGES if stage.kind is kind])
        for kind, title in _TITLES.items()
    ]


def _network(title: str, stages: Sequence[Stage]) -> Table:
    cells = {
        (stage.name, fault.name): known(stage.name, fault.name)
        for stage in stages
        for fault in FAULTS
        if applies(stage, fault)
    }
    return Table(
        title,
        [stage.name for stage in stages],
        [fault.name for fault in FAULTS if any(name == fault.name for _, name in cells)],
        frozenset(cells),
        {cell: reason for cell, reason in cells.items() if reason is not None},
    )
