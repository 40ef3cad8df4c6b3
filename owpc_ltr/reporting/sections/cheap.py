"""Cheap judgments beside people's: what each says of two rankers, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr.evaluation.judge_agreement import Agreement
from owpc_ltr.evaluation.prediction_powered import Estimate
from owpc_ltr.reporting.blocks import Block, Chart, Facts, Section, Table, Text
from owpc_ltr.reporting.charts.forest import Interval
from owpc_ltr.reporting.contest import Outcome
from owpc_ltr.reporting.figures import interval, p_words, signed
from owpc_ltr.reporting.powered import PoweredDuel
from owpc_ltr.reporting.sections.differences import differences_chart


def cheap_section(duels: Sequence[PoweredDuel], a: str, b: str | None) -> Section | None:
    """The pairs by both judges; None without any. The plot is of rankers a and b."""
    if not duels:
        return None
    main = [duel for duel in duels if (duel.a, duel.b) == (a, b)] or list(duels[:1])
    blocks: list[Block] = [_forest(main, len(duels)), Facts(_facts(main[0]))]
    blocks += [_table(duels), Text(_INTERVALS)]
    lead = (
        "People judged a sample of the queries, somebody cheap all of them. What the cheap judge "
        "adds in one place is taken away in another: figures by both are right for people's "
        "judgments, however wrong he is, and narrower where he is not."
    )
    return Section("cheap", "Cheap judgments", "What do cheap judgments add?", lead, tuple(blocks))


_INTERVALS = (
    "Intervals of this section are Student's, widened by what skewness takes from their coverage; "
    "those of people's sample in the comparison are bootstrapped."
)


def _forest(duels: Sequence[PoweredDuel], pairs: int) -> Chart:
    rows = []
    for duel in duels:
        metric = f"{duel.measure.name}, " if len(duels) > 1 else ""
        found = duel.found
        rows += [
            _row(f"{metric}both judges", found.powered, duel.outcome),
            _row(f"{metric}people alone", found.by_human,
                 duel.outcome_of(found.by_human, pairs * found.by_human.p)),
            # Biased: whatever it says, nothing is shown by it.
            _row(f"{metric}cheap alone (biased)", found.by_cheap, "not shown"),
        ]  # fmt: skip
    first = duels[0]
    what = first.measure.name if len(duels) == 1 else "the metric"
    told = "; ".join(
        f"{row.label} {signed(row.value)} ({interval(row.low, row.high)})" for row in rows
    )
    title = f"{first.a} against {first.b}, by each judge"
    words = f"Differences with 95 % intervals: {told}."
    caption = f"Differences of {first.a} from {first.b}"
    return differences_chart("cheap-judgments", title, rows, what, words, caption, "by")


def _row(label: str, one: Estimate, outcome: Outcome) -> Interval:
    return Interval(label, one.mean, one.low, one.high, outcome)


def _facts(duel: PoweredDuel) -> tuple[tuple[str, str], ...]:
    found, agreed = duel.found, duel.found.agreement
    help_ = f"{found.strength:.2f}" if found.strength else "0: the cheap judgments do not help"
    return (
        ("judged by people", f"{found.n_human:,} of {found.n_queries:,} queries"),
        ("λ, how much the cheap judge is heard", help_),
        ("as narrow an interval needs, by people alone", f"{found.n_worth:,.0f} queries"),
        ("more human-judged queries to decide", _more(found.n_more)),
        ("agreement with people (correlation of differences)", _correlation(agreed)),
        (
            "queries in which people prefer a ranker",
            f"{agreed.differ:,}; the cheap judge prefers the same one in {agreed.same:,}, the "
            f"other in {agreed.opposite:,}",
        ),
    )


def _more(n_more: int | None) -> str:
    if n_more is None:
        return "not even all of these would, at this spread"
    return "none: it is decided" if n_more == 0 else f"some {n_more:,}, at this spread"


def _correlation(agreed: Agreement) -> str:
    if agreed.correlation is None:
        return "none to be told: one of them sees no difference"
    return signed(agreed.correlation, 2).removeprefix("+")


def _table(duels: Sequence[PoweredDuel]) -> Table:
    headers = (
        "ranker", "against", "metric", "by both", "95 % interval", "p corrected", "by people",
        "λ", "worth", "to judge", "verdict",
    )  # fmt: skip
    rows = tuple(
        (
            duel.a, duel.b, duel.measure.name, signed(duel.found.powered.mean),
            interval(duel.found.powered.low, duel.found.powered.high),
            p_words(duel.p).removeprefix("p ").removeprefix("= "),
            interval(duel.found.by_human.low, duel.found.by_human.high),
            round(duel.found.strength, 2), round(duel.found.n_worth), duel.found.n_more,
            duel.outcome,
        )
        for duel in duels
    )  # fmt: skip
    caption = (
        "Pairs of rankers by both judges; worth is how many human-judged queries alone would give "
        "as narrow an interval, to judge how many more would decide"
    )
    return Table(caption, headers, rows)
