"""The comparison of rankers: the page's verdict, means, differences, proxy labels, and fusion.

Its record is a `RankerComparison` in the order of the page: the new ranker first, the baseline last
(None where one ranker was measured alone), with short names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from owpc_ltr.data.blocks import WARNING, FactList, Table
from owpc_ltr.evaluation.compared_pair import (
    JUDGED,
    ComparedPair,
    PredictionPowered,
    disagreements,
    measured_live_by,
    strength_in_words,
)
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.evaluation.options import split_in_words
from owpc_ltr.evaluation.significance import Comparison, Outcome, decide, over_metrics
from owpc_ltr.fusion.evaluation import LEARNED, Fusion
from owpc_ltr.host.report_parts import capital, signed
from owpc_ltr_report.page import (
    OUTCOME_LEGEND,
    Chart,
    PageBlock,
    PageVerdict,
    Section,
    amount,
    drawing,
    interval,
    kind_verdict,
    p_words,
    result_blocks,
    section_of,
    short_names,
)

Difference = tuple[str, float, float, float, Outcome]
"""A row of a forest plot: a label, a difference, its ends, and the outcome."""


def comparison_of(comparison: RankerComparison, new: str | None = None) -> RankerComparison:
    """The `new` ranker against the baseline; by default, the pair of the comparison's headline."""
    names = short_names([ranker.name for ranker in comparison.rankers])
    first, baseline = (*names, None) if len(names) == 1 else comparison.headline
    if new is not None:
        first, baseline = new, comparison.baseline or baseline
    rankers = sorted(
        comparison.rankers, key=lambda ranker: (ranker.name == baseline, ranker.name != first)
    )
    order = [ranker.name for ranker in rankers]
    changes: dict[str, Any] = {
        "rankers": tuple(replace(ranker, name=names[ranker.name]) for ranker in rankers),
        "pairs": tuple(
            replace(pair, a=names[pair.a], b=names[pair.b])
            for pair in comparison.pairs
            for pair in [pair if order.index(pair.a) < order.index(pair.b) else pair.reversed()]
        ),
        "baseline": None if baseline is None else names[baseline],
    }
    return RankerComparison(**comparison.facts | changes)


def query_selection(comparison: RankerComparison) -> str:
    """The queries that figures are of, in words."""
    return f"{comparison.n_queries:,} queries ({split_in_words(comparison.split)})"


def main_pairs(comparison: RankerComparison) -> list[ComparedPair]:
    """The new ranker against the baseline, by each metric."""
    names = comparison.rankers[0].name, comparison.baseline
    return [pair for pair in comparison.pairs if (pair.a, pair.b) == names]


def verdict_of(comparison: RankerComparison) -> PageVerdict:
    """The verdict on the new ranker, never greener than the evidence.

    With human and proxy labels where there are both; proxy labels alone have no influence on it.
    Where the outcome is unknown, the reasons are the sentence, and no numbers.
    """
    pairs = main_pairs(comparison)
    if not pairs:
        return kind_verdict("alone", comparison, selection=query_selection(comparison))
    pairs = [pair for pair in pairs if pair.prediction_powered is not None] or pairs
    first, verdict = pairs[0], over_metrics({pair.metric: pair.verdict for pair in pairs})
    outcome, figures, labels = verdict.outcome, first.comparison, first.prediction_powered
    words: dict[str, Any] = {"pairs": pairs, "verdict": verdict, "live": ""}
    if labels is not None:
        numbers = (
            f"{first.metric} differs by {signed(labels.by_both.mean)} (95 % interval "
            f"{interval(labels.by_both)}), {p_words(labels.p_holm)}, by {labels.n_human:,} "
            f"human-labelled of {labels.n_queries:,} proxy-labelled queries"
        )
        words |= {"found": labels, "strength": strength_in_words(labels)}
    else:
        numbers = (
            f"{first.metric} is {amount(figures.mean_a)} against {amount(figures.mean_b)}, a "
            f"difference of {signed(figures.mean_difference)} (95 % interval {interval(figures)}, "
            f"{p_words(first.p_holm)}, {figures.n_queries:,} queries)"
        )
        words["selection"] = query_selection(comparison)
        words["disagreements"] = disagreements(pairs, comparison.split)
    judged = f" {JUDGED}" if comparison.on_judged_documents else ""
    sentence = f"{first.a} ranks {outcome} than {first.b}{judged}: {numbers}."
    if outcome is Outcome.NO_DIFFERENCE:
        sentence = f"No significant difference between {first.a} and {first.b}: {numbers}."
    elif outcome is Outcome.CANNOT_TELL:
        sentence = f"Cannot tell: {verdict.reason}."
    heading, kind = f"{first.a} against {first.b}", "by_both" if labels else "by_human"
    words |= {"numbers": numbers, "count": len(comparison.prediction_powered or comparison.pairs)}
    mood, title = str(outcome), capital(outcome)
    if outcome is Outcome.BETTER and comparison.on_judged_documents:
        # What users get is more than what is judged: this is no green light.
        words["live"] = capital(measured_live_by((first.a, first.b)))
        mood, title = "neutral", f"Better {JUDGED}"
    return PageVerdict(mood, title, sentence, heading, kind=kind, words=words)


def comparison_section(comparison: RankerComparison) -> Section:
    """How good each ranker is, and which differences are significant."""
    pairs = [pair.by_human_labels for pair in comparison.pairs]
    lead = "How good each ranker is, in the mean over queries."
    if pairs:
        lead = (
            "A dot is the mean difference over all queries; its bar is the 95 % confidence "
            "interval of the true difference. A bar that crosses zero may be chance."
        )
    blocks: list[PageBlock] = [
        *(f"{WARNING}{message}" for message in comparison.warnings),
        *comparison.notes,
        *_forests(comparison, pairs),
        *result_blocks(comparison.figure_blocks()),
    ]
    return section_of("comparison", "Is it better, and how sure is that?", lead, blocks)


def _forests(comparison: RankerComparison, pairs: Sequence[ComparedPair]) -> list[Chart]:
    """One plot for one new ranker; one per metric for several."""
    drawn = [pair for pair in pairs if pair.b == comparison.baseline]
    alone = len({pair.a for pair in drawn}) == 1
    plots = (
        {"all": drawn}
        if alone
        else {
            number: [pair for pair in drawn if pair.metric == str(metric)]
            for number, metric in enumerate(comparison.metrics)
        }
    )
    return [
        forest_plot(
            f"comparison-{number}",
            f"{plot[0].a if alone else f'{plot[0].metric}: rankers'} against {comparison.baseline}",
            {pair.metric for pair in plot},
            [
                _difference(pair.metric if alone else pair.a, pair.comparison, pair.verdict.outcome)
                for pair in plot
            ],
            caption=f"Differences from {comparison.baseline}",
            labels="of",
        )
        for number, plot in plots.items()
        if plot
    ]


def _difference(label: str, figures: Comparison, outcome: Outcome) -> Difference:
    return label, figures.mean_difference, figures.low, figures.high, outcome


def forest_plot(
    name: str,
    title: str,
    metrics: set[str],
    rows: Sequence[Difference],
    caption: str,
    labels: str,
    *,
    outcomes: bool = True,
) -> Chart:
    """A forest plot whose sentence lists all differences; `labels` is the header of its labels."""
    metric = next(iter(metrics)) if len(metrics) == 1 else "the metric"
    spec = drawing("forest", rows, title=f"difference of {metric}")
    cells = [(label, *map(signed, figures), outcome) for label, *figures, outcome in rows]
    listed = "; ".join(
        f"{label} {value} ({low} to {high}){f', {outcome}' if outcomes else ''}"
        for label, value, low, high, outcome in cells
    )
    beginning = f"{caption}, with" if outcomes else "Differences with"
    headers = labels, "difference", "95 % low", "95 % high", "verdict"
    table = Table(headers, cells, caption)
    sentence = f"{beginning} 95 % intervals: {listed}."
    return Chart(name, title, spec, sentence, table=table, legend=OUTCOME_LEGEND)


def proxy_labels_section(comparison: RankerComparison) -> Section | None:
    """The pairs with human and proxy labels; None without any. The plot is of the main pair."""
    pairs = comparison.prediction_powered
    if not pairs:
        return None
    main = [pair for pair in main_pairs(comparison) if pair.prediction_powered] or pairs[:1]
    lead = (
        "A sample of the queries has human labels, all of them have proxy labels. Estimates with "
        "both are right for human labels, however wrong the proxy labels are, and have narrower "
        "intervals where the two agree."
    )
    blocks = [
        _proxy_forest(main, len(pairs)),
        *_agreement(main[0].prediction_powered),
        *result_blocks(comparison.label_blocks()),
        "Intervals of this section are Student's, widened where skewness lowers their coverage; "
        "those of the human-labelled sample in the comparison are bootstrapped.",
    ]
    return section_of("proxy-labels", "What do proxy labels add?", lead, blocks)


def _agreement(labels: PredictionPowered | None) -> Iterator[FactList]:
    """How far human and proxy labels agree on two rankers."""
    if labels is None:
        return
    agreement = labels.agreement
    correlation = "not defined: by one of them, no query differs"
    if agreement.correlation is not None:
        correlation = signed(agreement.correlation, 2).removeprefix("+")
    yield FactList(
        [
            ("ideal ranking (NDCG), relevant documents", "of the human-labelled documents"),
            ("agreement with human labels (correlation of differences)", correlation),
            (
                "queries in which human labels prefer a ranker",
                f"{agreement.differ:,}; proxy labels prefer the same one in {agreement.same:,}, "
                f"the other in {agreement.opposite:,}",
            ),
        ]
    )


def _proxy_forest(pairs: Sequence[ComparedPair], count: int) -> Chart:
    """The differences by both kinds of labels and by either, for the pairs of two rankers."""
    rows: list[Difference] = []
    for pair in pairs:
        if (labels := pair.prediction_powered) is None:
            continue
        metric, human = f"{pair.metric}, " if len(pairs) > 1 else "", labels.by_human
        by_human = decide(
            human.low,
            human.high,
            min(1.0, count * human.p),
            pair.verdict.warnings,
            higher_is_better=pair.higher_is_better,
        )
        estimates = (
            ("human and proxy", labels.by_both, pair.verdict.outcome),
            ("human alone", human, by_human.outcome),
            # Proxy labels alone are biased: no difference follows from them.
            ("proxy alone (biased)", labels.by_proxy, Outcome.CANNOT_TELL),
        )
        rows += [
            (f"{metric}{name}", estimate.mean, estimate.low, estimate.high, outcome)
            for name, estimate, outcome in estimates
        ]
    title = f"{pairs[0].a} against {pairs[0].b}, by labels"
    caption, metrics = f"Differences of {pairs[0].a} from {pairs[0].b}", {p.metric for p in pairs}
    return forest_plot(
        "proxy-labels", title, metrics, rows, caption=caption, labels="labels", outcomes=False
    )


def fusion_section(fusion: Fusion) -> Section:
    """Every ranker against the best leg, and what limits fusion."""
    recall, metric, versus = fusion.recall, fusion.metric, fusion.best_leg
    rows = [
        # For the learned weights, the comparison that decides.
        _difference(LEARNED, fusion.decision, fusion.verdict.outcome)
        if pair.a == LEARNED
        else _difference(pair.a, pair.comparison, pair.verdict.outcome)
        for pair in fusion.comparison.pairs
    ]
    title, caption = f"{metric}: rankers against {versus} alone", f"Differences from {versus} alone"
    forest = forest_plot("fusion", title, {metric}, rows, caption=caption, labels="ranker")
    found_by = [
        *recall.legs.items(),
        ("all legs", recall.union),
        ("the one request", recall.request),
    ]
    sentence = (
        f"{recall.unreachable:,} of {recall.relevant:,} relevant documents are in none, and no "
        "fusion brings them."
    )
    title = "The share of the relevant documents that are candidates"
    table = Table(("found by", "recall"), found_by, "Recall of the candidates")
    spec = drawing("bars", found_by, title="recall", digits=".2f")
    lead = (
        f"A dot is the mean difference from {versus} alone, the best single search; its bar is the "
        "95 % confidence interval. A bar that crosses zero may be chance."
    )
    recalled = Chart("recall", title, spec, sentence, table)
    blocks = [forest, recalled, *result_blocks(fusion.blocks)]
    question = "What does each search bring, and what does fusing them?"
    return section_of("fusion", question, lead, blocks)
