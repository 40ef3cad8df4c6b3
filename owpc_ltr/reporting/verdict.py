"""The verdict: one sentence with its numbers, never greener than the statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass

from owpc_ltr.reporting.blocks import Tile
from owpc_ltr.reporting.claims import Mood, claim_of, mood_of
from owpc_ltr.reporting.contest import Contest, Duel
from owpc_ltr.reporting.figures import amount, interval, p_words, signed

_TITLES = {
    "better": "Better",
    "worse": "Worse",
    "not shown": "Not shown to be better",
    "mixed": "Better by one metric, worse by another",
    "unknown": "Nothing to compare with",
}


@dataclass(frozen=True)
class Verdict:
    """What the first screen says: the sentence, what belongs to it, and a few figures."""

    mood: Mood
    sentence: str
    details: tuple[str, ...]
    tiles: tuple[Tile, ...] = ()
    heading: str = ""

    @property
    def title(self) -> str:
        """What stands above the sentence, in few words."""
        return self.heading or _TITLES[self.mood]


def verdict_of(contest: Contest) -> Verdict:
    """The verdict on the new ranker by the first metric, and what others say against it."""
    duels = contest.main_duels
    if not duels:
        return _alone(contest)
    first = duels[0]
    mood = mood_of(duels)
    if contest.seen and mood in {"better", "mixed"}:
        return Verdict("not shown", _seen(first), _details(contest, duels), _tiles(contest, first))
    sentence = f"{claim_of(duels)}: {_numbers(first)}."
    return Verdict(mood, sentence, _details(contest, duels), _tiles(contest, first))


def _numbers(duel: Duel) -> str:
    """The means, the difference and how sure it is."""
    found, name = duel.comparison, duel.measure.name
    means = f"{name} is {amount(found.mean_a)} against {amount(found.mean_b)}"
    difference = f"a difference of {signed(found.mean_difference)}"
    sure = f"95 % interval {interval(found.low, found.high)}, {p_words(duel.p)}"
    return f"{means}, {difference} ({sure}, {found.n_queries:,} queries)"


def _seen(duel: Duel) -> str:
    return (
        f"{duel.a} learned from these very queries, which shows nothing of others: "
        f"{_numbers(duel)}."
    )


def _details(contest: Contest, duels: tuple[Duel, ...]) -> tuple[str, ...]:
    first = duels[0]
    found = first.comparison
    told = [
        f"{first.better_queries:,} queries get a better ranking, {first.worse_queries:,} a worse "
        f"one, and {found.ties:,} stay as good as they were. Measured on "
        f"{contest.queries_in_words}."
    ]
    if first.outcome == "not shown":
        told.append(
            f"Not shown does not mean equal: the true difference lies most probably between "
            f"{signed(found.low)} and {signed(found.high)}. More judged queries narrow that."
        )
        known = first.shown_from
        if known is not None and abs(found.mean_difference) < known < math.inf:
            told.append(f"A difference of {amount(known)} would have been shown by these queries.")
    unsure = [duel.measure.name for duel in duels[1:] if duel.outcome == "not shown"]
    if unsure and first.outcome != "not shown":
        told.append(f"By {' and '.join(unsure)} no difference is shown.")
    if contest.corrected_over > 1:
        told.append(
            f"p is corrected (Holm) for the {contest.corrected_over} comparisons on this page."
        )
    return tuple(told)


def _tiles(contest: Contest, duel: Duel) -> tuple[Tile, ...]:
    found = duel.comparison
    counted = found.wins + found.losses + found.ties
    return (
        Tile(
            duel.measure.name,
            f"{amount(found.mean_b)} → {amount(found.mean_a)}",
            f"{contest.baseline} → {duel.a}",
        ),
        Tile(
            "difference",
            signed(found.mean_difference),
            f"95 % interval {interval(found.low, found.high)}",
        ),
        Tile(
            "queries",
            f"{duel.better_queries:,} better, {duel.worse_queries:,} worse",
            f"of {counted:,}",
        ),
    )


def _alone(contest: Contest) -> Verdict:
    """The verdict where there is nothing to compare with."""
    one = contest.new
    figures = ", ".join(f"{name} {amount(mean)}" for name, mean in one.means.items())
    n = len(contest.query_ids)
    return Verdict(
        "unknown",
        f"{one.name} was measured alone, so whether it is better than what is there cannot be "
        f"told: {figures}, on {n:,} queries.",
        (
            f"Measured on {contest.queries_in_words}.",
            "Name what it should beat, as in --baseline feature:NAME.",
        ),
        tuple(
            Tile(name, amount(mean), f"95 % interval {interval(*one.intervals[name], plus=False)}")
            for name, mean in one.means.items()
            if name in one.intervals
        ),
    )
