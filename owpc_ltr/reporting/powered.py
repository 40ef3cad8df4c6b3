"""Powered duels: two rankers by people and by a cheap judge, and the verdict of both together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from owpc_ltr.evaluation.prediction_powered import Estimate, PredictionPowered, strength_in_words
from owpc_ltr.evaluation.sample_randomness import doubts_of_sample
from owpc_ltr.evaluation.verdict import LEVEL
from owpc_ltr.reporting.blocks import Tile
from owpc_ltr.reporting.claims import Mood, claim_of, mood_of
from owpc_ltr.reporting.contest import Measure, Outcome
from owpc_ltr.reporting.figures import interval, p_words, signed
from owpc_ltr.reporting.verdict import Verdict


@dataclass(frozen=True)
class PoweredDuel:
    """A new ranker `a` against `b` by both judges; `p` is corrected for all such pairs."""

    a: str
    b: str
    measure: Measure
    found: PredictionPowered
    p: float

    @property
    def outcome(self) -> Outcome:
        """What may be said: `better` and `worse` need the interval and the corrected p."""
        return self.outcome_of(self.found.powered, self.p)

    def outcome_of(self, one: Estimate, p: float) -> Outcome:
        """What an interval of this metric may say, with this p."""
        if p >= LEVEL or one.low <= 0.0 <= one.high:
            return "not shown"
        return "better" if (one.low > 0) == self.measure.higher_is_better else "worse"


def turned_round(found: PredictionPowered) -> PredictionPowered:
    """The same figures with the other ranker first."""
    return replace(
        found,
        powered=_negative(found.powered),
        by_human=_negative(found.by_human),
        by_cheap=_negative(found.by_cheap),
    )


def powered_verdict(
    duels: tuple[PoweredDuel, ...], of: tuple[PoweredDuel, ...], *, seen: bool
) -> Verdict:
    """The verdict on the new ranker by both judges, by the first metric; `of` are all pairs.

    What the cheap judge says alone has no say in it. Nothing is shown where the ranker learned from
    these queries, or where they are visibly no random sample.
    """
    first = duels[0]
    found, of_all = first.found, len(of)
    mood: Mood = mood_of(duels)
    doubts = tuple(doubts_of_sample(of_all * min(one.found.p_random for one in of)))
    claim = claim_of(duels)
    if (seen or doubts) and mood in {"better", "mixed"}:
        mood = "not shown"
        claim = (
            f"{first.a} learned from these very queries, which shows nothing of others"
            if seen
            else f"People judged no random sample of the queries, which shows nothing of {first.a}"
        )
    numbers = f"{first.measure.name} differs by {_estimate(found.powered)}, {p_words(first.p)}"
    queries = f"{found.n_human:,} human-judged of {found.n_queries:,} cheaply judged queries"
    corrected = f"p is corrected (Holm) for the {of_all} pairs of this page."
    return Verdict(
        mood,
        f"{claim}: {numbers}, by {queries}.",
        (
            *(f"{_capital(doubt)}." for doubt in doubts),
            f"People alone say {_estimate(found.by_human)}; the cheap judge alone, who is biased "
            f"and decides nothing, {_estimate(found.by_cheap)}.",
            f"{_capital(strength_in_words(found))}.",
            *((corrected,) if of_all > 1 else ()),
        ),
        (
            Tile("by both judges", signed(found.powered.mean), _ends(found.powered)),
            Tile("by people alone", signed(found.by_human.mean), _ends(found.by_human)),
            Tile("cheap judge alone, biased", signed(found.by_cheap.mean), _ends(found.by_cheap)),
        ),
    )


def _estimate(one: Estimate) -> str:
    return f"{signed(one.mean)} ({_ends(one)})"


def _ends(one: Estimate) -> str:
    return f"95 % interval {interval(one.low, one.high)}"


def _negative(one: Estimate) -> Estimate:
    return Estimate(-one.mean, -one.high, -one.low, one.p)


def _capital(text: str) -> str:
    return text if text.startswith("λ") else f"{text[:1].upper()}{text[1:]}"
