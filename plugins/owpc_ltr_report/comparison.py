"""The comparison of rankers: their means, differences with intervals, and proxy labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.comparison import RankerComparison
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.evaluation.pairs import SYMMETRY, ComparedPair, disagreements, outcomes_of
from owpc_ltr.evaluation.prediction_powered import Agreement, Estimate, PredictionPowered
from owpc_ltr.evaluation.resampling import bca_interval
from owpc_ltr.evaluation.verdict import LEVEL, Outcome, decide
from owpc_ltr.metrics import Metric
from owpc_ltr_report.blocks import (
    Block,
    Chart,
    Facts,
    Section,
    Table,
    Text,
    amount,
    capital,
    interval,
    p_cell,
    signed,
)
from owpc_ltr_report.charts import OUTCOME_LEGEND, DifferenceRow, forest

_PREFIXES = ("feature:", "live:")


@dataclass(frozen=True, eq=False)
class RankerFigures:
    """A ranker: by metric its value for each query, its mean, and the mean's 95 % interval."""

    name: str
    per_query: dict[str, Vector]
    means: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    unjudged: dict[str, float] | None = None


@dataclass(frozen=True, eq=False)
class ReportComparison:
    """Rankers on the same queries: the new one first, the baseline last.

    `pairs` have short names, the ranker that comes first as `a`; `powered` are those with human
    and proxy labels.
    """

    metrics: tuple[Metric, ...]
    rankers: tuple[RankerFigures, ...]
    pairs: tuple[ComparedPair, ...]
    baseline: str | None
    query_ids: tuple[str, ...]
    query_texts: tuple[str, ...]
    query_selection: str
    weighted: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    powered: tuple[ComparedPair, ...] = ()

    @property
    def new(self) -> RankerFigures:
        """The ranker that the page is about."""
        return self.rankers[0]

    @property
    def main_pairs(self) -> tuple[ComparedPair, ...]:
        """The new ranker against the baseline, by each metric."""
        return tuple(one for one in self.pairs if (one.a, one.b) == (self.new.name, self.baseline))

    @property
    def main_powered(self) -> tuple[ComparedPair, ...]:
        """The same with human and proxy labels."""
        names = self.new.name, self.baseline
        return tuple(one for one in self.powered if (one.a, one.b) == names)

    def ranker(self, name: str) -> RankerFigures:
        """The ranker of this name."""
        return next(one for one in self.rankers if one.name == name)


def comparison_of(
    found: RankerComparison, in_words: Callable[[str], str], new: str | None = None
) -> ReportComparison:
    """The `new` ranker against the baseline; by default, the pair of the comparison's headline."""
    names = short_names([one.name for one in found.rankers])
    first, baseline = found.headline
    if new is not None:
        first, baseline = new, found.baseline or baseline
    rankers = sorted(found.rankers, key=lambda one: (one.name == baseline, one.name != first))
    order = [one.name for one in rankers]
    return ReportComparison(
        metrics=tuple(found.metrics),
        rankers=tuple(
            RankerFigures(
                names[one.name],
                {str(each.metric): each.per_query for each in one.measured},
                {metric: mean.mean for metric, mean in one.means.items()},
                {metric: (mean.low, mean.high) for metric, mean in one.means.items()},
                None if one.unjudged is None else dict(one.unjudged),
            )
            for one in rankers
        ),
        pairs=tuple(_ordered(pair.by_human_labels, order, names) for pair in found.pairs),
        baseline=names[baseline],
        query_ids=tuple(found.query_ids.to_pylist()),
        query_texts=() if found.query_texts is None else tuple(found.query_texts.to_pylist()),
        query_selection=f"{found.n_queries:,} queries ({in_words(found.split)})",
        weighted=found.weighted,
        warnings=tuple(found.warnings),
        notes=tuple(found.notes),
        powered=tuple(_ordered(pair, order, names) for pair in found.prediction_powered),
    )


def _ordered(pair: ComparedPair, order: Sequence[str], names: Mapping[str, str]) -> ComparedPair:
    """The pair with the ranker as `a` that comes first in the order, and with short names."""
    if order.index(pair.a) > order.index(pair.b):
        pair = pair.reversed()
    return replace(pair, a=names[pair.a], b=names[pair.b])


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


def comparison_section(comparison: ReportComparison) -> Section:
    """How good each ranker is, and which differences are significant."""
    blocks: list[Block] = [Text(warning, "warning") for warning in comparison.warnings]
    blocks += [Text(note) for note in comparison.notes]
    if comparison.baseline is not None:
        blocks += _forests(comparison)
    blocks.append(_means(comparison))
    if any(one.unjudged for one in comparison.rankers):
        blocks.append(_unjudged(comparison))
    if comparison.pairs:
        blocks.append(_pairs(comparison))
        blocks += [Text(f"{capital(line)}.") for line in disagreements(comparison.pairs)]
        blocks.append(Text(f"{capital(SYMMETRY)}."))
    blocks.append(_conventions(comparison))
    lead = (
        "A dot is the mean difference over all queries; its bar is the 95 % confidence interval of "
        "the true difference. A bar that crosses zero may be chance."
        if comparison.pairs
        else "How good each ranker is, in the mean over queries."
    )
    title = "Is it better, and how sure is that?"
    return Section("comparison", "Comparison", title, lead, tuple(blocks))


def _forests(comparison: ReportComparison) -> list[Chart]:
    """One plot for one new ranker; one per metric for several."""
    against = [pair for pair in comparison.pairs if pair.b == comparison.baseline]
    rankers = list(dict.fromkeys(pair.a for pair in against))
    if len(rankers) == 1:
        return [_forest(against, "comparison-all", [pair.metric for pair in against])]
    charts = []
    for number, metric in enumerate(map(str, comparison.metrics)):
        of_metric = [pair for pair in against if pair.metric == metric]
        if of_metric:
            labels = [pair.a for pair in of_metric]
            charts.append(_forest(of_metric, f"comparison-{number}", labels))
    return charts


def _forest(pairs: Sequence[ComparedPair], name: str, labels: Sequence[str]) -> Chart:
    rows = [
        DifferenceRow(
            label,
            pair.comparison.mean_difference,
            pair.comparison.low,
            pair.comparison.high,
            pair.verdict.outcome,
        )
        for label, pair in zip(labels, pairs, strict=True)
    ]
    metrics = list(dict.fromkeys(pair.metric for pair in pairs))
    rankers = list(dict.fromkeys(pair.a for pair in pairs))
    baseline = pairs[0].b
    title = f"{rankers[0] if len(rankers) == 1 else f'{metrics[0]}: rankers'} against {baseline}"
    listed = "; ".join(f"{_in_words(row)}, {row.outcome}" for row in rows)
    return Chart(
        name,
        title,
        forest(rows, f"difference of {metrics[0] if len(metrics) == 1 else 'the metric'}"),
        f"Differences from {baseline}, with 95 % intervals: {listed}.",
        _differences(f"Differences from {baseline}", "of", rows),
        OUTCOME_LEGEND,
    )


def _in_words(row: DifferenceRow) -> str:
    return f"{row.label} {signed(row.value)} ({interval(row.low, row.high)})"


def _differences(caption: str, labels: str, rows: Sequence[DifferenceRow]) -> Table:
    return Table(
        caption,
        (labels, "difference", "95 % low", "95 % high", "verdict"),
        tuple(
            (row.label, signed(row.value), signed(row.low), signed(row.high), row.outcome)
            for row in rows
        ),
    )


def _means(comparison: ReportComparison) -> Table:
    names = [str(metric) for metric in comparison.metrics]
    return Table(
        f"Means over {len(comparison.query_ids):,} queries"
        f"{', weighted by their importance' if comparison.weighted else ''}, with 95 % intervals",
        ("ranker", *names),
        tuple((one.name, *(_mean(one, name) for name in names)) for one in comparison.rankers),
    )


def _mean(one: RankerFigures, name: str) -> str:
    if name not in one.intervals:
        return amount(one.means[name])
    return f"{amount(one.means[name])} ({interval(*one.intervals[name], plus=False)})"


def _unjudged(comparison: ReportComparison) -> Table:
    """The more of the ranks that a metric reads are unjudged, the less its value says."""
    names = [str(metric) for metric in comparison.metrics]
    return Table(
        "Share of unjudged documents among those that a metric reads",
        ("ranker", *names),
        tuple(
            (one.name, *(f"{one.unjudged.get(name, 0.0):.1%}" for name in names))
            for one in comparison.rankers
            if one.unjudged is not None
        ),
    )


def _pairs(comparison: ReportComparison) -> Table:
    headers = (
        "ranker", "against", "metric", "difference", "95 % interval", "p corrected",
        "better", "worse", "same", "verdict",
    )  # fmt: skip
    rows = tuple(
        (
            pair.a, pair.b, pair.metric, signed(pair.comparison.mean_difference),
            interval(pair.comparison.low, pair.comparison.high), p_cell(pair.p_holm),
            pair.gained, pair.lost, pair.comparison.ties, outcome,
        )
        for pair, outcome in zip(comparison.pairs, outcomes_of(comparison.pairs), strict=True)
    )  # fmt: skip
    return Table("Pairs of rankers; better, worse and same count queries", headers, rows)


def _conventions(comparison: ReportComparison) -> Table:
    rows = tuple(
        (str(one), one.convention + ("" if one.higher_is_better else "; lower is better"))
        for one in comparison.metrics
    )
    return Table("What the metrics mean", ("metric", "convention"), rows)


def proxy_labels_section(comparison: ReportComparison) -> Section | None:
    """The pairs with human and proxy labels; None without any. The plot is of the main pair."""
    pairs = comparison.powered
    if not pairs:
        return None
    main = comparison.main_powered or pairs[:1]
    blocks = (
        _proxy_forest(main, len(pairs)),
        Facts(_proxy_facts(main[0])),
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
        by_human = decide(
            found.by_human.low, found.by_human.high, min(1.0, count * found.by_human.p),
            pair.verdict.doubts, higher_is_better=pair.higher_is_better,
        )  # fmt: skip
        rows += [
            _estimate_row(f"{metric}human and proxy", found.by_both, pair.verdict.outcome),
            _estimate_row(f"{metric}human alone", found.by_human, by_human.outcome),
            # Proxy labels alone are biased: no difference follows from them.
            _estimate_row(f"{metric}proxy alone (biased)", found.by_proxy, Outcome.CANNOT_TELL),
        ]
    first = pairs[0]
    return Chart(
        "proxy-labels",
        f"{first.a} against {first.b}, by labels",
        forest(rows, f"difference of {first.metric if len(pairs) == 1 else 'the metric'}"),
        f"Differences with 95 % intervals: {'; '.join(map(_in_words, rows))}.",
        _differences(f"Differences of {first.a} from {first.b}", "labels", rows),
        OUTCOME_LEGEND,
    )


def _labels_of(pair: ComparedPair) -> PredictionPowered:
    """The figures by human and proxy labels, which all pairs of this section have."""
    assert pair.prediction_powered is not None  # noqa: S101 - for the type checker
    return pair.prediction_powered


def _estimate_row(label: str, one: Estimate, outcome: Outcome) -> DifferenceRow:
    return DifferenceRow(label, one.mean, one.low, one.high, outcome)


def _proxy_facts(pair: ComparedPair) -> tuple[tuple[str, str], ...]:
    found = _labels_of(pair)
    agreement = found.agreement
    weight = f"{found.strength:.2f}" if found.strength else "0: the proxy labels do not help"
    return (
        ("human-labelled", f"{found.n_human:,} of {found.n_queries:,} queries"),
        ("ideal ranking (NDCG), relevant documents", "of the human-labelled documents"),
        ("λ, the weight of the proxy labels", weight),
        ("human-labelled queries for as narrow an interval", f"{found.n_worth:,.0f}"),
        ("more human-labelled queries needed", _more(found.n_more)),
        ("agreement with human labels (correlation of differences)", _correlation(agreement)),
        (
            "queries in which human labels prefer a ranker",
            f"{agreement.differ:,}; proxy labels prefer the same one in {agreement.same:,}, the "
            f"other in {agreement.opposite:,}",
        ),
    )


def _more(n_more: int | None) -> str:
    if n_more is None:
        return "all of these would not be enough, at this variance"
    return "none" if n_more == 0 else f"about {n_more:,}, at this variance"


def _correlation(agreement: Agreement) -> str:
    if agreement.correlation is None:
        return "not defined: by one of them, no query differs"
    return signed(agreement.correlation, 2).removeprefix("+")


def _proxy_table(pairs: Sequence[ComparedPair]) -> Table:
    headers = (
        "ranker", "against", "metric", "by both", "95 % interval", "p corrected", "human alone",
        "λ", "worth", "to label", "verdict",
    )  # fmt: skip
    rows = tuple(
        (
            pair.a, pair.b, pair.metric, signed(found.by_both.mean),
            interval(found.by_both.low, found.by_both.high), p_cell(found.p_holm),
            interval(found.by_human.low, found.by_human.high),
            round(found.strength, 2), round(found.n_worth), found.n_more, outcome,
        )
        for pair, outcome in zip(pairs, outcomes_of(pairs), strict=True)
        for found in [_labels_of(pair)]
    )  # fmt: skip
    caption = (
        "Pairs of rankers with human and proxy labels; worth is how many human-labelled queries "
        "alone would give as narrow an interval, to label how many more are needed"
    )
    return Table(caption, headers, rows)
