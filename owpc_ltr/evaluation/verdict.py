"""Verdict: what a comparison of two rankers may claim; one rule for every table, page and gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

LEVEL = 0.05
"""Two-sided level of the tests; intervals cover one minus it."""


class Outcome(StrEnum):
    """The four things that a comparison may say of a new ranker."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no significant difference"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Doubt:
    """A reason why queries or judgments cannot support a statement, and what would settle it.

    `check` is the name of the check that found it, `columns` the features that it concerns.
    """

    check: str
    message: str
    advice: str
    columns: tuple[str, ...] = ()
    joint: str = "; "

    @property
    def line(self) -> str:
        """The message and the advice."""
        return f"{self.message}{self.joint}{self.advice}"

    def as_dict(self) -> dict[str, str]:
        """The check, what it found and what would settle it, as JSON."""
        return {"check": self.check, "message": self.message, "advice": self.advice}


@dataclass(frozen=True)
class Verdict:
    """The outcome for the new ranker, and the doubts that make it `cannot tell`."""

    outcome: Outcome
    doubts: tuple[Doubt, ...] = ()

    @property
    def reason(self) -> str:
        """Why it cannot be told, without the advice; empty for the other outcomes."""
        return "; ".join(doubt.message for doubt in self.doubts)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.reason}" if self.doubts else str(self.outcome)

    def as_dict(self) -> dict[str, Any]:
        """The outcome and its reasons as JSON."""
        return {
            "outcome": str(self.outcome),
            "reasons": [doubt.as_dict() for doubt in self.doubts],
        }


def decide(
    low: float,
    high: float,
    p: float,
    doubts: Sequence[Doubt] = (),
    *,
    higher_is_better: bool = True,
) -> Verdict:
    """The verdict on a mean difference, new ranker minus the other one.

    `low` and `high` bound the difference, `p` is corrected for all comparisons made. A difference
    is claimed only if p is below the level **and** the interval excludes 0. Any doubt makes the
    verdict `cannot tell`, whatever the figures say.
    """
    if doubts:
        return Verdict(Outcome.CANNOT_TELL, tuple(doubts))
    if not p < LEVEL or not (low > 0 or high < 0):
        return Verdict(Outcome.NO_DIFFERENCE)
    return Verdict(Outcome.BETTER if (low > 0) == higher_is_better else Outcome.WORSE)


def over_metrics(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The verdict on one pair of rankers by several metrics: that of the first metric.

    It is `cannot tell` where another metric shows the opposite.
    """
    (name, first), *others = verdicts.items()
    opposite = {Outcome.BETTER: Outcome.WORSE, Outcome.WORSE: Outcome.BETTER}.get(first.outcome)
    against = [metric for metric, one in others if one.outcome == opposite]
    if not against:
        return first
    return Verdict(Outcome.CANNOT_TELL, (Doubt(
        "metrics-disagree",
        f"metrics disagree: {first.outcome} by {name}, {opposite} by {' and '.join(against)}",
        "state which metric decides before the comparison, and compare by that one",
    ),))  # fmt: skip
