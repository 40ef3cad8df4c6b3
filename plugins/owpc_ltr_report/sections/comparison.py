"""The comparison: each ranker's means, and their differences with intervals."""

from __future__ import annotations

from owpc_ltr.evaluation.comparing.figures import ComparedPair
from owpc_ltr.evaluation.comparing.shown import SYMMETRY, at_the_border, outcomes_of
from owpc_ltr_report.blocks import Block, Chart, Section, Table, Text
from owpc_ltr_report.charts.forest import Interval
from owpc_ltr_report.contest import Contest, Contestant
from owpc_ltr_report.figures import amount, interval, p_words, signed
from owpc_ltr_report.sections.differences import differences_chart
from owpc_ltr_report.verdict import capital


def comparison_section(contest: Contest) -> Section:
    """How good each ranker is, and which differences are significant."""
    blocks: list[Block] = [Text(warning, "warning") for warning in contest.warnings]
    blocks += [Text(note) for note in contest.notes]
    if contest.baseline is not None:
        blocks += _forests(contest)
    blocks.append(_means(contest))
    if any(one.unjudged for one in contest.contestants):
        blocks.append(_unjudged(contest))
    if contest.pairs:
        blocks.append(_pairs(contest))
        blocks += [Text(f"{capital(line)}.") for line in at_the_border(contest.pairs)]
        blocks.append(Text(f"{capital(SYMMETRY)}."))
    blocks.append(_conventions(contest))
    lead = (
        "A dot is the mean difference over all queries; its bar is where the true difference lies "
        "with 95 % confidence. A bar that crosses zero may be chance."
        if contest.pairs
        else "How good each ranker is, in the mean over queries."
    )
    return Section(
        "comparison", "Comparison", "Is it better, and how sure is that?", lead, tuple(blocks)
    )


def _forests(contest: Contest) -> list[Chart]:
    """One plot where there is one new ranker; else one a metric, with all rankers."""
    against = [pair for pair in contest.pairs if pair.b == contest.baseline]
    rankers = list(dict.fromkeys(pair.a for pair in against))
    if len(rankers) == 1:
        return [_forest(against, "comparison-all", [pair.metric for pair in against])]
    charts = []
    for number, measure in enumerate(contest.measures):
        of_metric = [pair for pair in against if pair.metric == measure.name]
        if of_metric:
            labels = [pair.a for pair in of_metric]
            charts.append(_forest(of_metric, f"comparison-{number}", labels))
    return charts


def _forest(pairs: list[ComparedPair], name: str, labels: list[str]) -> Chart:
    rows = [
        Interval(
            label,
            pair.comparison.mean_difference,
            pair.comparison.low,
            pair.comparison.high,
            pair.verdict.outcome,
        )
        for label, pair in zip(labels, pairs, strict=True)
    ]
    metrics = list(dict.fromkeys(pair.metric for pair in pairs))
    a = list(dict.fromkeys(pair.a for pair in pairs))
    what = metrics[0] if len(metrics) == 1 else "the metric"
    title = f"{a[0] if len(a) == 1 else f'{metrics[0]}: rankers'} against {pairs[0].b}"
    told = "; ".join(
        f"{row.label} {signed(row.value)} ({interval(row.low, row.high)}), {row.outcome}"
        for row in rows
    )
    words = f"Differences from {pairs[0].b}, with 95 % intervals: {told}."
    return differences_chart(name, title, rows, what, words, f"Differences from {pairs[0].b}", "of")


def _means(contest: Contest) -> Table:
    names = [measure.name for measure in contest.measures]
    return Table(
        f"Means over {len(contest.query_ids):,} queries"
        f"{', weighted by their importance' if contest.weighted else ''}, with 95 % intervals",
        ("ranker", *names),
        tuple((one.name, *(_mean(one, name) for name in names)) for one in contest.contestants),
    )


def _unjudged(contest: Contest) -> Table:
    """How much of what metrics look at nobody has judged: of such figures less can be said."""
    names = [measure.name for measure in contest.measures]
    return Table(
        "Share of unjudged documents among those that a metric looks at",
        ("ranker", *names),
        tuple(
            (one.name, *(f"{one.unjudged.get(name, 0.0):.1%}" for name in names))
            for one in contest.contestants
            if one.unjudged is not None
        ),
    )


def _mean(one: Contestant, name: str) -> str:
    if name not in one.intervals:
        return amount(one.means[name])
    low, high = one.intervals[name]
    return f"{amount(one.means[name])} ({amount(low)} to {amount(high)})"


def _pairs(contest: Contest) -> Table:
    headers = (
        "ranker", "against", "metric", "difference", "95 % interval", "p corrected",
        "better", "worse", "same", "verdict",
    )  # fmt: skip
    rows = tuple(
        (
            pair.a,
            pair.b,
            pair.metric,
            signed(pair.comparison.mean_difference),
            interval(pair.comparison.low, pair.comparison.high),
            p_words(pair.p_holm).removeprefix("p ").removeprefix("= "),
            pair.gained,
            pair.lost,
            pair.comparison.ties,
            outcome,
        )
        for pair, outcome in zip(contest.pairs, outcomes_of(contest.pairs), strict=True)
    )
    return Table("Pairs of rankers; better, worse and same count queries", headers, rows)


def _conventions(contest: Contest) -> Table:
    return Table(
        "What the metrics mean",
        ("metric", "convention"),
        tuple(
            (
                measure.name,
                measure.convention + ("" if measure.higher_is_better else "; less is better"),
            )
            for measure in contest.measures
        ),
    )
