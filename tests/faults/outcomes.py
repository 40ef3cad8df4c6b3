"""Outcomes of cells, brought together from all processes and printed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

_PROPERTY = "fault"


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

    def __init__(self) -> None:
        self.codes: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.broken: set[tuple[str, str]] = set()
        self.times = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the outcomes out of a test's report."""
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == _PROPERTY:
                self._add(*value)  # type: ignore[misc]

    def _add(self, stage: str, fault: str, code: int, held: bool, times: int) -> None:
        self.codes[stage, fault].add(code)
        self.times += times
        if not held:
            self.broken.add((stage, fault))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print how many cells kept their promise, their exit codes, and those that did not."""
        if len(self.codes) < 2:
            return
        write = terminalreporter.write_line
        terminalreporter.section("faults")
        good = len(self.codes.keys() - self.broken)
        write(
            f"{len(self.codes):,} cells, struck {self.times:,} times: {good:,} keep every promise, "
            f"{len(self.broken)} do not."
        )
        endings = Counter(code for codes in self.codes.values() for code in codes)
        write(", ".join(f"exit code {code}: {count:,}" for code, count in sorted(endings.items())))
        for stage, fault in sorted(self.broken):
            write(f"does not keep its promise: {stage} × {fault}: {self.codes[stage, fault]}")
