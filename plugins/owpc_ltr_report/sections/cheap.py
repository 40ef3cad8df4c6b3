"""Proxy labels beside human ones: what each says of two rankers, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr.evaluation.comparing.figures import PoweredPair
from owpc_ltr.evaluation.comparing.shown import outcomes_of
from owpc_ltr.evaluation.judge_agreement import Agreement
from owpc_ltr.evaluation.prediction_powered import Estimate
from owpc_ltr.evaluation.verdict import Outcome, decide
from owpc_ltr_report.blocks import Block, Chart, Facts, Section, Table, Text
from owpc_ltr_report.charts.forest import Interval
from owpc_ltr_report.contest import Contest
from owpc_ltr_report.figures import interval, p_words, signed
from owpc_ltr_report.sections.differences import differences_chart


def cheap_section(contest: Contest) -> Section | None:
    """The pairs with human and proxy labels; None without any. The plot is of the main pair."""
    pairs = contest.powered
    if not pairs:
        return None
    main = contest.main_powered or pairs[:1]
    blocks: list[Block] = [_forest(main, len(pairs)), Facts(_facts(main[0]))]
    blocks += [_table(pairs), Text(_INTERVALS)]
    lead = (
        "A sample of the queries has human labels, all of them have proxy labels. Estimates with "
        "both are right for human labels, however wrong the proxy labels are, and have narrower "
        "intervals where these agree with them."
    )
    return Section("cheap", "Proxy labels", "What do proxy labels add?", lead, tuple(blocks))


_INTERVALS = (
    "Intervals of this section are Student's, widened by what skewness takes from their coverage; "
    "those of the human-labelled sample in the comparison are bootstrapped."
)


def _forest(pairs: Sequence[PoweredPair], count: int) -> Chart:
    rows = []
    for pair in pairs:
        metric = f"{pair.metric}, " if len(pairs) > 1 else ""
        found = pair.found
        by_human = decide(
            found.by_human.low, found.by_human.high, min(1.0, count * found.by_human.p),
            pair.verdict.doubts, higher_is_better=pair.higher_is_better,
        )  # fmt: skip
        rows += [
            _row(f"{metric}human and proxy", found.powered, pair.verdict.outcome),
            _row(f"{metric}human alone", found.by_human, by_human.outcome),
            # Biased: whatever it says, nothing can be told by it.
            _row(f"{metric}proxy alone (biased)", found.by_cheap, Outcome.CANNOT_TELL),
        ]
    first = pairs[0]
    what = first.metric if len(pairs) == 1 else "the metric"
    told = "; ".join(
        f"{row.label} {signed(row.value)} ({interval(row.low, row.high)})" for row in rows
    )
    title = f"{first.a} against {first.b}, by labels"
    words = f"Differences with 95 % intervals: {told}."
    caption = f"Differences of {first.a} from {first.b}"
    return differences_chart("cheap-judgments", title, rows, what, words, caption, "labels")


def _row(label: str, one: Estimate, outcome: Outcome) -> Interval:
    return Interval(label, one.mean, one.low, one.high, outcome)


def _facts(pair: PoweredPair) -> tuple[tuple[str, str], ...]:
    found, agreed = pair.found, pair.found.agreement
    help_ = f"{found.strength:.2f}" if found.strength else "0: the proxy labels do not help"
    return (
        ("human-labelled", f"{found.n_human:,} of {found.n_queries:,} queries"),
        ("ideal ranking (NDCG), relevant documents", "of the human-labelled documents"),
        ("λ, the weight of the proxy labels", help_),
        ("as narrow an interval needs, by human labels alone", f"{found.n_worth:,.0f} queries"),
        ("more human-labelled queries needed", _more(found.n_more)),
        ("agreement with human labels (correlation of differences)", _correlation(agreed)),
        (
            "queries in which human labels prefer a ranker",
            f"{agreed.differ:,}; proxy labels prefer the same one in {agreed.same:,}, the "
            f"other in {agreed.opposite:,}",
        ),
    )


def _more(n_more: int | None) -> str:
    if n_more is None:
        return "all of these would not be enough, at this spread"
    return "none" if n_more == 0 else f"some {n_more:,}, at this spread"


def _correlation(agreed: Agreement) -> str:
    if agreed.correlation is None:
        return "not defined: by one of them, no query differs"
    return signed(agreed.correlation, 2).removeprefix("+")


def _table(pairs: Sequence[PoweredPair]) -> Table:
    headers = (
        "ranker", "against", "metric", "by both", "95 % interval", "p corrected", "human alone",
        "λ", "worth", "to label", "verdict",
    )  # fmt: skip
    rows = tuple(
        (
            pair.a, pair.b, pair.metric, signed(pair.found.powered.mean),
            interval(pair.found.powered.low, pair.found.powered.high),
            p_words(pair.p_holm).removeprefix("p ").removeprefix("= "),
            interval(pair.found.by_human.low, pair.found.by_human.high),
            round(pair.found.strength, 2), round(pair.found.n_worth), pair.found.n_more,
            outcome,
        )
        for pair, outcome in zip(pairs, outcomes_of(pairs), strict=True)
    )  # fmt: skip
    caption = (
        "Pairs of rankers with human and proxy labels; worth is how many human-labelled queries "
        "alone would give as narrow an interval, to label how many more are needed"
    )
    return Table(caption, headers, rows)
