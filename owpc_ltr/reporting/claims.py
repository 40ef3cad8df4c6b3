"""Claims: what may be said of two rankers, by the first metric, and what others say against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from owpc_ltr.reporting.contest import Measure, Outcome

Mood = Literal["better", "not shown", "worse", "mixed", "unknown"]


class Decided(Protocol):
    """A new ranker `a` against `b` by one metric, and what was shown."""

    @property
    def a(self) -> str:
        """The new ranker."""
        ...

    @property
    def b(self) -> str:
        """What it is compared with."""
        ...

    @property
    def measure(self) -> Measure:
        """The metric."""
        ...

    @property
    def outcome(self) -> Outcome:
        """What may be said."""
        ...


def mood_of(duels: Sequence[Decided]) -> Mood:
    """The outcome by the first metric, unless another metric says the opposite."""
    return "mixed" if _against(duels) else duels[0].outcome


def claim_of(duels: Sequence[Decided]) -> str:
    """The outcome by the first metric as words, with the metrics that say the opposite."""
    first = duels[0]
    words = {
        "better": f"{first.a} ranks better than {first.b}",
        "worse": f"{first.a} ranks worse than {first.b}",
        "not shown": f"{first.a} is not shown to be better than {first.b}",
    }
    claim = words[first.outcome]
    against = _against(duels)
    if not against:
        return claim
    named = " and ".join(one.measure.name for one in against)
    return f"{claim} by {first.measure.name}, but {against[0].outcome} by {named}"


def _against(duels: Sequence[Decided]) -> list[Decided]:
    opposite = {"better": "worse", "worse": "better"}.get(duels[0].outcome)
    return [one for one in duels[1:] if one.outcome == opposite]
