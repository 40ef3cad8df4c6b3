"""Outcomes of cells, brought together from all processes: the table of docs/reliability.md."""

from __future__ import annotations

from collections.abc import Callable

PROPERTY = "fault"


def record(
    record_property: Callable[[str, object], None], stage: str, fault: str, code: int, *, held: bool
) -> None:
    """Remember how a cell ended; reports carry it to the process that prints."""
    record_property(PROPERTY, [stage, fault, code, held])
