"""The comparison of rankers: the page's verdict, means, differences, and proxy labels.

Its record is a `RankerComparison` in the order of the page: the new ranker first, the baseline last
(None where one ranker was measured alone), with short names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.queries import query_text
from owpc_ltr.evaluation.comparison_table import (
    SYMMETRY,
    ComparedPair,
    ComparedRanker,
    MeanInterval,
    RankerComparison,
    disagreements,
    outcomes_of,
)
from owpc_ltr.evaluation.evaluate import Evaluation
from owpc_ltr.evaluation.options import RESAMPLES, split_in_words
from owpc_ltr.evaluation.prediction_powered import (
    Estimate,
    PredictionPowered,
    strength_in_words,
)
from owpc_ltr.evaluation.resampling import LEVEL, bca_interval
from owpc_ltr.evaluation.significance import Outcome, Verdict, decide, over_metrics
from owpc_ltr_report.blocks import (
    Block,
    Chart,
    Facts,
    PageVerdict,
    Section,
    Table,
    Text,
    Tile,
    amount,
    capital,
    interval,
    p_cell,
    p_words,
    signed,
)
from owpc_ltr_report.chart_style import OUTCOME_LEGEND
from owpc_ltr_report.charts import Difference, forest

if TYPE_CHECKING:
    from owpc_ltr.evaluation.measurement import Measured

_PREFIXES = ("feature:", "live:")


def comparison_of(found: RankerComparison, new: str | None = None) -> RankerComparison:
    """The `new` ranker against the baseline; by default, the pair of the comparison's headline."""
    first, baseline = found.headline
    if new is not None:
        first, baseline = new, found.baseline or baseline
    rankers = sorted(found.rankers, key=lambda one: (one.name == baseline, one.name != first))
    order, names = [one.name for one in rankers], short_names([one.name for one in found.rankers])
    pairs = (
        pair.reversed() if order.index(pair.a) > order.index(pair.b) else pair
        for pair in found.pairs
    )
    return replace(
        found,
        rankers=tuple(replace(one, name=names[one.name]) for one in rankers),
        pairs=tuple(replace(pair, a=names[pair.a], b=names[pair.b]) for pair in pairs),
        baseline=names[baseline],
    )


def evaluation_comparison(found: Evaluation) -> RankerComparison:
    """An evaluation as a comparison of its ranker with the baseline."""
    names = short_names([found.ranker, found.baseline or ""])
    new, baseline = names[found.ranker], names[found.baseline or ""]
    data = found.data
    weighted = found.weighted and isinstance(data, RankingDataset)
    weights = data.query_importance if weighted and isinstance(data, RankingDataset) else None
    rankers = [_measured(new, found.measured, weights)]
    if found.baseline is not None:
        rankers.append(_measured(baseline, found.baseline_measured, weights))
    return RankerComparison(
        rankers=tuple(rankers),
        metrics=tuple(one.metric for one in found.measured),
        pairs=tuple(replace(pair, a=new, b=baseline) for pair in found.pairs),
        query_ids=data.query_ids,
        query_texts=_query_texts(data),
        n_queries=data.n_queries,
        split=found.split,
        weighted=found.weighted,
        unjudged="zero",
        warnings=found.warnings,
        baseline=None if found.baseline is None else baseline,
    )


def _measured(name: str, measured: tuple[Measured, ...], weights: Vector | None) -> ComparedRanker:
    means = {
        str(one.metric): MeanInterval(one.mean, *mean_interval(one.per_query, weights))
        for one in measured
    }
    return ComparedRanker(name, measured, means)


def _query_texts(data: Any) -> pa.StringArray | None:
    """The text of each query; None for a dataset without parameters."""
    params = getattr(data, "query_params", None)
    if params is None:
        return None
    contents = (json.loads(one) if one else None for one in params.to_pylist())
    # Of a dataset of other tools, parameters may be no object.
    return pa.array(query_text(one) if isinstance(one, dict) else "" for one in contents)


def mean_interval(values: Vector, weights: Vector | None = None) -> tuple[float, float]:
    """The 95 % interval of the mean over the queries with a finite value."""
    counted = np.isfinite(values)
    if counted.sum() < 2:
        only = float(values[counted].mean()) if counted.any() else float("nan")
        return only, only
    of_queries = None if weights is None else weights[counted]
    return bca_interval(values[counted], of_queries, LEVEL, RESAMPLES, np.random.default_rng(0))


def short_name(name: str) -> str:
    """A ranker's name without folders, which say nothing to other people.

    >>> short_name("/home/me/models/new.json"), short_name("feature:a/b")
    ('new.json', 'feature:a/b')
    """
    if name.startswith(_PREFIXES):
        return name
    return name.rpartition("/")[2].rpartition("\\")[2] or name


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The short name of each; where two would be equal, both keep their folders.

    >>> short_names(["a/m.json", "b/m.json", "c/n.json"])
    {'a/m.json': 'a/m.json', 'b/m.json': 'b/m.json', 'c/n.json': 'n.json'}
    """
    count = Counter(short_name(name) for name in names)
    return {name: short_name(name) if count[short_name(name)] == 1 else name for name in names}


def query_selection(found: RankerComparison) -> str:
    """The queries that figures are of, in words."""
    return f"{found.n_queries:,} queries ({split_in_words(found.split)})"


def main_pairs(found: RankerComparison) -> tuple[ComparedPair, ...]:
    """The new ranker against the baseline, by each metric."""
    names = found.rankers[0].name, found.baseline
    return tuple(one for one in found.pairs if (one.a, one.b) == names)


def verdict_of(found: RankerComparison) -> PageVerdict:
    """The verdict on the new ranker, never greener than the evidence.

    With human and proxy labels where there are both; proxy labels alone have no influence on it.
    """
    pairs = main_pairs(found)
    if not pairs:
        return _alone(found)
    both = tuple(one for one in pairs if one.prediction_powered is not None)
    decision = over_metrics({one.metric: one.verdict for one in both or pairs})
    if both:
        return _verdict(both[0], decision, *_with_both_labels(found, both))
    return _verdict(pairs[0], decision, *_compared(found, pairs, decision))


def _verdict(
    pair: ComparedPair, decision: Verdict, numbers: str, details: Sequence[str], tiles: list[Tile]
) -> PageVerdict:
    """The sentence by the outcome; where that is unknown, reasons come before all numbers."""
    outcome = decision.outcome
    if outcome is Outcome.CANNOT_TELL:
        advice = "; ".join(dict.fromkeys(doubt.advice for doubt in decision.doubts))
        lines = (f"To settle it: {advice}.", f"The figures alone: {numbers}.", *details)
        return PageVerdict(outcome, f"Cannot tell: {decision.reason}.", lines, tiles)
    claim = f"{pair.a} ranks {outcome} than {pair.b}"
    if outcome is Outcome.NO_DIFFERENCE:
        claim = f"No significant difference between {pair.a} and {pair.b}"
    return PageVerdict(outcome, f"{claim}: {numbers}.", details, tiles)


_Told = tuple[str, list[str], list[Tile]]
"""The numbers, the details and the tiles of a verdict."""


def _compared(
    comparison: RankerComparison, pairs: Sequence[ComparedPair], decision: Verdict
) -> _Told:
    first = pairs[0]
    found = first.comparison
    ends = f"95 % interval {interval(found.low, found.high)}"
    numbers = (
        f"{first.metric} is {amount(found.mean_a)} against {amount(found.mean_b)}, a difference of "
        f"{signed(found.mean_difference)} ({ends}, {p_words(first.p_holm)}, "
        f"{found.n_queries:,} queries)"
    )
    details = [
        f"{first.gained:,} queries get a better ranking, {first.lost:,} a worse "
        f"one, and {found.ties:,} stay as good as they were. Measured on "
        f"{query_selection(comparison)}."
    ]
    if decision.outcome is Outcome.NO_DIFFERENCE:
        details.append(
            f"This does not mean that they are equal: the 95 % interval of the true difference is "
            f"{interval(found.low, found.high)}. The minimum detectable "
            f"difference (80 % power) is {amount(found.detectable)}; more judged queries lower it."
        )
    details += [*_others(pairs), *(f"{capital(line)}." for line in disagreements(pairs))]
    counted = found.wins + found.losses + found.ties
    means = f"{amount(found.mean_b)} → {amount(found.mean_a)}"
    tiles = [
        Tile(first.metric, means, f"{first.b} → {first.a}"),
        Tile("difference", signed(found.mean_difference), ends),
        Tile("queries", f"{first.gained:,} better, {first.lost:,} worse", f"of {counted:,}"),
    ]
    return numbers, [*details, *_corrected(len(comparison.pairs))], tiles


def _with_both_labels(comparison: RankerComparison, pairs: Sequence[ComparedPair]) -> _Told:
    first, found = pairs[0], _labels_of(pairs[0])
    numbers = (
        f"{first.metric} differs by {_estimate(found.by_both)}, {p_words(found.p_holm)}, by "
        f"{found.n_human:,} human-labelled of {found.n_queries:,} proxy-labelled queries"
    )
    details = [
        f"Human labels alone say {_estimate(found.by_human)}; proxy labels alone, which are biased "
        f"and decide nothing, {_estimate(found.by_proxy)}.",
        f"{capital(strength_in_words(found))}.",
        *_others(pairs),
        *_corrected(len(comparison.prediction_powered)),
    ]
    estimates = {
        "human and proxy labels": found.by_both,
        "human labels alone": found.by_human,
        "proxy labels alone, biased": found.by_proxy,
    }
    tiles = [Tile(name, signed(one.mean), _ends(one)) for name, one in estimates.items()]
    return numbers, details, tiles


def _others(pairs: Sequence[ComparedPair]) -> Iterator[str]:
    """Metrics with another outcome than the first."""
    first, *others = pairs
    for one in others:
        if one.verdict.outcome != first.verdict.outcome:
            yield f"{capital(str(one.verdict))} by {one.metric}."


def _corrected(count: int) -> Iterator[str]:
    if count > 1:
        yield f"p is corrected (Holm) for the {count} comparisons on this page."


def _alone(found: RankerComparison) -> PageVerdict:
    """The verdict without a baseline."""
    one = found.rankers[0]
    figures = ", ".join(f"{name} {amount(each.mean)}" for name, each in one.means.items())
    sentence = (
        f"Cannot tell: {one.name} was measured without a baseline: {figures}, "
        f"on {found.n_queries:,} queries."
    )
    advice = "Give a baseline, as in --baseline feature:NAME."
    tiles = [
        Tile(name, amount(each.mean), f"95 % interval {interval(each.low, each.high, plus=False)}")
        for name, each in one.means.items()
    ]
    details = f"Measured on {query_selection(found)}.", advice
    return PageVerdict(Outcome.CANNOT_TELL, sentence, details, tiles)


def _estimate(one: Estimate) -> str:
    return f"{signed(one.mean)} ({_ends(one)})"


def _ends(one: Estimate) -> str:
    return f"95 % interval {interval(one.low, one.high)}"


def comparison_section(found: RankerComparison) -> Section:
    """How good each ranker is, and which differences are significant."""
    blocks: list[Block] = [Text(warning, "warning") for warning in found.warnings]
    blocks += map(Text, found.notes)
    if found.baseline is not None:
        blocks += _forests(found)
    metrics = [str(metric) for metric in found.metrics]
    weighted = ", weighted by their importance" if found.weighted else ""
    caption = f"Means over {found.n_queries:,} queries{weighted}, with 95 % intervals"
    rows = [
        (
            one.name,
            *(
                f"{amount(mean.mean)} ({interval(mean.low, mean.high, plus=False)})"
                for mean in map(one.means.__getitem__, metrics)
            ),
        )
        for one in found.rankers
    ]
    blocks.append(Table(caption, ("ranker", *metrics), rows))
    listed = [(one.name, one.unjudged) for one in found.rankers if one.unjudged is not None]
    if any(shares for _, shares in listed):
        # The more of the ranks that a metric reads are unjudged, the less its value says.
        caption = "Share of unjudged documents among those that a metric reads"
        rows = [
            (name, *(f"{of.get(metric, 0.0):.1%}" for metric in metrics)) for name, of in listed
        ]
        blocks.append(Table(caption, ("ranker", *metrics), rows))
    lead = "How good each ranker is, in the mean over queries."
    pairs = [one.by_human_labels for one in found.pairs]
    if pairs:
        lead = (
            "A dot is the mean difference over all queries; its bar is the 95 % confidence "
            "interval of the true difference. A bar that crosses zero may be chance."
        )
        blocks.append(_pairs(pairs))
        blocks += [Text(f"{capital(line)}.") for line in (*disagreements(pairs), SYMMETRY)]
    conventions = [
        (str(one), one.convention + ("" if one.higher_is_better else "; lower is better"))
        for one in found.metrics
    ]
    blocks.append(Table("What the metrics mean", ("metric", "convention"), conventions))
    title = "Is it better, and how sure is that?"
    return Section("comparison", "Comparison", title, lead, blocks)


def _pairs(pairs: Sequence[ComparedPair]) -> Table:
    headers = (
        "ranker", "against", "metric", "difference", "95 % interval", "p corrected",
        "better", "worse", "same", "verdict",
    )  # fmt: skip
    rows = [
        (
            pair.a, pair.b, pair.metric, signed(pair.comparison.mean_difference),
            interval(pair.comparison.low, pair.comparison.high), p_cell(pair.p_holm),
            pair.gained, pair.lost, pair.comparison.ties, outcome,
        )
        for pair, outcome in zip(pairs, outcomes_of(pairs), strict=True)
    ]  # fmt: skip
    return Table("Pairs of rankers; better, worse and same count queries", headers, rows)


def _forests(found: RankerComparison) -> Iterator[Chart]:
    """One plot for one new ranker; one per metric for several."""
    against = [one.by_human_labels for one in found.pairs if one.b == found.baseline]
    if len({pair.a for pair in against}) == 1:
        yield _forest(against, "comparison-all", f"{against[0].a}", "metric")
        return
    for number, metric in enumerate(map(str, found.metrics)):
        of_metric = [pair for pair in against if pair.metric == metric]
        if of_metric:
            yield _forest(of_metric, f"comparison-{number}", f"{metric}: rankers", "a")


def _forest(pairs: Sequence[ComparedPair], name: str, what: str, label: str) -> Chart:
    rows = [
        Difference(
            getattr(pair, label), pair.comparison.mean_difference, pair.comparison.low,
            pair.comparison.high, pair.verdict.outcome,
        )
        for pair in pairs
    ]  # fmt: skip
    baseline = pairs[0].b
    listed = "; ".join(f"{_in_words(row)}, {row.outcome}" for row in rows)
    sentence = f"Differences from {baseline}, with 95 % intervals: {listed}."
    table = _differences(f"Differences from {baseline}", "of", rows)
    title = f"{what} against {baseline}"
    return Chart(name, title, _drawn(rows, pairs), sentence, table, OUTCOME_LEGEND)


def _drawn(rows: Sequence[Difference], pairs: Sequence[ComparedPair]) -> dict[str, Any]:
    metrics = {pair.metric for pair in pairs}
    return forest(rows, f"difference of {metrics.pop() if len(metrics) == 1 else 'the metric'}")


def _in_words(row: Difference) -> str:
    return f"{row.label} {signed(row.value)} ({interval(row.low, row.high)})"


def _differences(caption: str, labels: str, rows: Iterable[Difference]) -> Table:
    headers = labels, "difference", "95 % low", "95 % high", "verdict"
    cells = [(one.label, *map(signed, (one.value, one.low, one.high)), one.outcome) for one in rows]
    return Table(caption, headers, cells)


def proxy_labels_section(found: RankerComparison) -> Section | None:
    """The pairs with human and proxy labels; None without any. The plot is of the main pair."""
    pairs = found.prediction_powered
    if not pairs:
        return None
    both = [one for one in main_pairs(found) if one.prediction_powered is not None]
    main = both or pairs[:1]
    blocks = (
        _proxy_forest(main, len(pairs)),
        Facts(_proxy_facts(_labels_of(main[0]))),
        _proxy_table(pairs),
        Text(
            "Intervals of this section are Student's, widened where skewness lowers their "
            "coverage; those of the human-labelled sample in the comparison are bootstrapped."
        ),
    )
    lead = (
        "A sample of the queries has human labels, all of them have proxy labels. Estimates with "
        "both are right for human labels, however wrong the proxy labels are, and have narrower "
        "intervals where the two agree."
    )
    return Section("proxy-labels", "Proxy labels", "What do proxy labels add?", lead, blocks)


def _proxy_forest(pairs: Sequence[ComparedPair], count: int) -> Chart:
    """The differences by both kinds of labels and by either, for the pairs of two rankers."""
    rows = []
    for pair in pairs:
        metric = f"{pair.metric}, " if len(pairs) > 1 else ""
        found = _labels_of(pair)
        human = found.by_human
        by_human = decide(
            human.low, human.high, min(1.0, count * human.p), pair.verdict.doubts,
            higher_is_better=pair.higher_is_better,
        )  # fmt: skip
        estimates = (
            ("human and proxy", found.by_both, pair.verdict.outcome),
            ("human alone", human, by_human.outcome),
            # Proxy labels alone are biased: no difference follows from them.
            ("proxy alone (biased)", found.by_proxy, Outcome.CANNOT_TELL),
        )
        rows += [
            Difference(f"{metric}{labels}", one.mean, one.low, one.high, outcome)
            for labels, one, outcome in estimates
        ]
    first = pairs[0]
    sentence = f"Differences with 95 % intervals: {'; '.join(map(_in_words, rows))}."
    table = _differences(f"Differences of {first.a} from {first.b}", "labels", rows)
    title = f"{first.a} against {first.b}, by labels"
    return Chart("proxy-labels", title, _drawn(rows, pairs), sentence, table, OUTCOME_LEGEND)


def _labels_of(pair: ComparedPair) -> PredictionPowered:
    """The figures by human and proxy labels, which all pairs of this section have."""
    assert pair.prediction_powered is not None  # noqa: S101 - for the type checker
    return pair.prediction_powered


def _proxy_facts(found: PredictionPowered) -> list[tuple[str, str]]:
    agreement = found.agreement
    weight = f"{found.strength:.2f}" if found.strength else "0: the proxy labels do not help"
    more = "all of these would not be enough, at this variance"
    if found.n_more is not None:
        more = f"about {found.n_more:,}, at this variance" if found.n_more else "none"
    correlation = "not defined: by one of them, no query differs"
    if agreement.correlation is not None:
        correlation = signed(agreement.correlation, 2).removeprefix("+")
    preferred = (
        f"{agreement.differ:,}; proxy labels prefer the same one in {agreement.same:,}, the "
        f"other in {agreement.opposite:,}"
    )
    return [
        ("human-labelled", f"{found.n_human:,} of {found.n_queries:,} queries"),
        ("ideal ranking (NDCG), relevant documents", "of the human-labelled documents"),
        ("λ, the weight of the proxy labels", weight),
        ("human-labelled queries for as narrow an interval", f"{found.n_worth:,.0f}"),
        ("more human-labelled queries needed", more),
        ("agreement with human labels (correlation of differences)", correlation),
        ("queries in which human labels prefer a ranker", preferred),
    ]


def _proxy_table(pairs: Sequence[ComparedPair]) -> Table:
    headers = (
        "ranker", "against", "metric", "by both", "95 % interval", "p corrected", "human alone",
        "λ", "worth", "to label", "verdict",
    )  # fmt: skip
    rows = [
        (
            pair.a, pair.b, pair.metric, signed(found.by_both.mean),
            interval(found.by_both.low, found.by_both.high), p_cell(found.p_holm),
            interval(found.by_human.low, found.by_human.high),
            round(found.strength, 2), round(found.n_worth), found.n_more, outcome,
        )
        for pair, outcome in zip(pairs, outcomes_of(pairs), strict=True)
        for found in [_labels_of(pair)]
    ]  # fmt: skip
    caption = (
        "Pairs of rankers with human and proxy labels; worth is how many human-labelled queries "
        "alone would give as narrow an interval, to label how many more are needed"
    )
    return Table(caption, headers, rows)
