"""Outcomes of cells, brought together from all processes: printed, and kept in docs/operations.md.

A cell of the table has the exit codes of its seeds. The page is written only where every cell of
every table has run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
BEGIN = "<!-- The outcomes: made by make test-faults; do not edit. -->\n"
END = "<!-- The end of the outcomes. -->\n"
_PROPERTY = "fault"
Cell = tuple[str, str]
"""A stage and a fault."""


@dataclass(frozen=True)
class Table:
    """Faults by stages, with the cells that there are."""

    title: str
    stages: Sequence[str]
    faults: Sequence[str]
    cells: frozenset[Cell]


def record(
    record_property: Callable[[str, object], None],
    stage: str,
    fault: str,
    code: int,
    *,
    held: bool = True,
    times: int = 1,
) -> None:
    """Remember how a cell ended; reports carry it to the process that prints."""
    record_property(_PROPERTY, [stage, fault, code, held, times])


class Outcomes:
    """A plugin of pytest that collects what `record` has remembered, in all processes."""

    def __init__(self, tables: Callable[[], Sequence[Table]], page: Path = PAGE) -> None:
        self._tables, self._page = tables, page
        self.codes: dict[Cell, list[int]] = defaultdict(list)
        self.broken: set[Cell] = set()
        self.times = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the outcomes out of a test's report."""
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == _PROPERTY:
                self.add(*value)  # type: ignore[misc]

    def add(self, stage: str, fault: str, code: int, held: bool, times: int) -> None:
        """One outcome; `times` is how often it was seen."""
        self.codes[stage, fault].append(code)
        self.times += times
        if not held:
            self.broken.add((stage, fault))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the tables, and keep them where they are whole."""
        if len(self.codes) < 2:
            return
        tables = self._tables()
        write = terminalreporter.write_line
        terminalreporter.section("faults")
        # Of a sample the tables would be empty but for a few cells.
        whole = {cell for table in tables for cell in table.cells} <= self.codes.keys()
        for line in self.lines(tables if whole else []):
            write(line)
        for stage, fault in sorted(self.broken):
            write(f"does not keep its promise: {stage} × {fault}")
        if self.is_whole(tables) and self._page.exists():
            write_block(self._page, "\n".join(self.lines(tables)) + "\n")
            write(f"kept in {self._page.name}")

    def is_whole(self, tables: Sequence[Table]) -> bool:
        """Whether every cell has an outcome, and none has failed."""
        cells = {cell for table in tables for cell in table.cells}
        return cells <= self.codes.keys() and not self.broken

    def lines(self, tables: Sequence[Table]) -> Iterator[str]:
        """The outcomes as Markdown."""
        good = len(self.codes.keys() - self.broken)
        yield (
            f"{len(self.codes):,} cells, struck {self.times:,} times: {good:,} keep every promise, "
            f"{len(self.broken)} do not."
        )
        for table in tables:
            if not table.cells & self.codes.keys():
                continue
            yield from ("", f"### {table.title}", "")
            yield f"| fault | {' | '.join(table.stages)} |"
            yield "|---" * (len(table.stages) + 1) + "|"
            rows: dict[str, list[str]] = defaultdict(list)
            for fault in table.faults:
                cells = (self._shown(table, (stage, fault)) for stage in table.stages)
                rows[" | ".join(cells)].append(fault)
            yield from (f"| {together(faults)} | {row} |" for row, faults in rows.items())

    def _shown(self, table: Table, cell: Cell) -> str:
        if cell not in table.cells:
            return ""
        codes = " ".join(str(code) for code in sorted(set(self.codes.get(cell, []))))
        return f"{codes or '?'} ✗" if cell in self.broken else codes or "?"


def together(faults: Sequence[str]) -> str:
    """Faults of one outcome in one cell; those that differ in their first number alone, once.

    >>> together(["401", "cut at 1 of 16", "cut at 2 of 16", "cut at 3 of 16", "cut at 5 of 16"])
    '401; cut at 1 to 3, 5 of 16'
    """
    numbers: dict[tuple[str, str], list[str]] = defaultdict(list)
    for fault in faults:
        words = fault.split(" ")
        place = next((n for n, word in enumerate(words) if n and word.isdecimal()), len(words))
        key = " ".join(words[:place]), " ".join(words[place + 1 :])
        numbers[key] += words[place : place + 1]
    return "; ".join(
        " ".join(filter(None, [first, ", ".join(_runs(found)), last]))
        for (first, last), found in numbers.items()
    )


def _runs(numbers: Sequence[str]) -> list[str]:
    """Ascending numbers, of which three or more in a row are `1 to 3`."""
    runs: list[list[int]] = []
    for number in map(int, numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [
        text
        for run in runs
        for text in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))
    ]


def write_block(page: Path, block: str) -> None:
    """Put a block between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no place for the outcomes")
    page.write_text(f"{head}{BEGIN}\n{block}\n{END}{tail}", encoding="utf-8")
