"""A comparison of rankers in tables, text and JSON: means of each, the difference of each pair."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector, pandas_for
from owpc_ltr.data.blocks import Block, BlockResult, Latex, Table, latex_of
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.attempts import earlier_words
from owpc_ltr.evaluation.compared_pair import (
    ComparedPair,
    corrected_over,
    disagreements,
    measured_live_by,
    outcome_in_words,
    small_gain_lines,
    strength_in_words,
    verdict_line,
    verdict_lines,
)
from owpc_ltr.evaluation.measurement import Measured
from owpc_ltr.evaluation.options import WORST_QUERIES, split_in_words
from owpc_ltr.evaluation.segments import FEWEST
from owpc_ltr.evaluation.significance import (
    ROUNDING,
    ResultWarning,
    Verdict,
    difference_words,
    over_metrics,
)
from owpc_ltr.files.output import finite_json
from owpc_ltr.metrics import Metric
from owpc_ltr.text import ShortRepr, printable_lines, shortened

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import PartitionedDataset

_UNJUDGED = {
    "zero": "unjudged documents count as irrelevant",
    "skip": "queries with unjudged documents at the top of any ranker's list are left out",
    "condensed": "unjudged documents are removed from the lists (condensed, Sakai 2007)",
}


@dataclass(frozen=True, eq=False, repr=False)
class ComparedRanker(ShortRepr):
    """One ranker: its figures by each metric, and its warnings.

    `unjudged` is the mean share of unjudged documents among those that each metric looks at, by
    its text; None for a ranker that is shown judged documents alone.
    """

    name: str
    measured: tuple[Measured, ...] = field(repr=False)
    unjudged: Mapping[str, float] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def means(self) -> Mapping[str, Measured]:
        """The figures by the metric's text."""
        return {str(measure.metric): measure for measure in self.measured}

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "name": self.name,
            "metrics": [
                {
                    **measure.as_dict(),
                    "all_tied_baseline": finite_json(measure.all_tied_baseline),
                    "low": measure.low,
                    "high": measure.high,
                    "unjudged": None
                    if self.unjudged is None
                    else self.unjudged[str(measure.metric)],
                }
                for measure in self.measured
            ],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, eq=False, repr=False)
class RankerComparison(BlockResult):
    """Rankers side by side on the same queries.

    `pairs` are all pairs, or each ranker against the `baseline`, of every metric. `split` says
    which queries of the data these are, `notes` why. Where it is `weighted`, means, differences and
    their tests weigh each query by its importance. `unjudged` is what unjudged documents were taken
    for: `zero` (irrelevant), `skip` (their queries left out), `condensed` (removed from the lists).
    `query_texts` are what users typed, where the data know it. With proxy labels of all queries,
    these are the queries with human labels, and pairs have prediction-powered figures.
    """

    rankers: tuple[ComparedRanker, ...]
    metrics: tuple[Metric, ...]
    pairs: tuple[ComparedPair, ...]
    query_ids: pa.StringArray
    query_texts: pa.StringArray | None
    n_queries: int
    split: str
    weighted: bool
    unjudged: str
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    baseline: str | None = None
    importance: Vector | None = None
    data_name: str = ""
    """The file of the data."""
    n_independent: int = 0
    """How many of the queries are independent: spellings of one request are one."""
    on_judged_documents: bool = False
    """Whether the rankers were shown judged documents alone, and not what users get."""
    earlier_comparisons: int = 0
    """How many comparisons were made on these queries before."""
    counted_in: str = ""
    """Where these are counted."""
    by_segments: bool = False
    """Whether segments were asked for."""
    n_worst: int = WORST_QUERIES
    """How many of the queries that lose most the text shows."""

    @property
    def headline(self) -> tuple[str, str]:
        """The best ranker by the first metric but the one it is compared with, and that one.

        That is the baseline, or the ranker named first; without a baseline, the best of all stands
        first, against the next best where it was named first itself.
        """
        if len(self.rankers) == 1:
            raise UsageError("one ranker was measured alone: give a baseline to compare it with")
        first = self.metrics[0]
        sign = -1.0 if first.higher_is_better else 1.0
        ordered = sorted(self.rankers, key=lambda ranker: sign * ranker.means[str(first)].mean)
        names = [ranker.name for ranker in ordered]
        if self.baseline is not None:
            return next(name for name in names if name != self.baseline), self.baseline
        other = self.rankers[0].name
        return names[0], names[1] if other == names[0] else other

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of a comparison, without those that a kind of result adds."""
        return {part.name: getattr(self, part.name) for part in fields(RankerComparison)}

    @property
    def prediction_powered(self) -> tuple[ComparedPair, ...]:
        """The pairs with human and proxy labels."""
        return tuple(pair for pair in self.pairs if pair.prediction_powered is not None)

    @cached_property
    def per_query(self) -> pa.Table:
        """One row a query: its id, text and importance, and `METRIC RANKER` for each value.

        A query that a metric leaves out has none.
        """
        columns: dict[str, Any] = {"query_id": self.query_ids}
        if self.query_texts is not None:
            columns["query"] = self.query_texts
        if self.importance is not None:
            columns["importance"] = self.importance
        for ranker in self.rankers:
            for measure in ranker.measured:
                values = pa.array(measure.per_query, from_pandas=True)
                columns[f"{measure.metric} {ranker.name}"] = values
        return pa.table(columns)

    def ranker(self, name: str) -> ComparedRanker:
        """The ranker of this name. Raises UsageError where there is none."""
        for ranker in self.rankers:
            if ranker.name == name:
                return ranker
        names = ", ".join(ranker.name for ranker in self.rankers)
        raise UsageError(f"no ranker is called '{name}': there are {names}")

    def pair(self, a: str, b: str, metric: Metric | str | None = None) -> ComparedPair:
        """Ranker a against b by a metric, the first one unless it is named."""
        name = str(self.metrics[self._metric_number(metric)])
        pair = self._by_metric(a, b).get(name)
        if pair is None:
            raise UsageError(f"{a} and {b} were not compared by {name}")
        return pair

    def verdicts(self, a: str, b: str) -> dict[str, Verdict]:
        """The verdicts on ranker a against b by metric; empty where the two were not compared."""
        return {metric: pair.verdict for metric, pair in self._by_metric(a, b).items()}

    def _by_metric(self, a: str, b: str) -> dict[str, ComparedPair]:
        pairs = (pair for pair in self.pairs if {pair.a, pair.b} == {a, b})
        return {pair.metric: pair if pair.a == a else pair.reversed() for pair in pairs}

    def verdict(self, a: str | None = None, b: str | None = None) -> Verdict:
        """The verdict on ranker a against b: by the first metric, if no other says the opposite.

        By default, they are those of the headline.
        """
        first, other = self.headline
        return over_metrics(self.verdicts(a or first, b or other))

    def with_warnings(self, warnings: Sequence[ResultWarning], *rankers: str) -> Self:
        """The same figures with warnings about the judgments: of all pairs, or those of `rankers`.

        One ranker means every pair that it is part of, two rankers mean their pair.
        """
        pairs = tuple(
            replace(pair, warnings=(*pair.warnings, *warnings))
            if {*rankers} <= {pair.a, pair.b}
            else pair
            for pair in self.pairs
        )
        return replace(self, pairs=pairs)

    def worst(
        self, a: str, b: str, metric: Metric | str | None = None, n: int = 10
    ) -> list[dict[str, Any]]:
        """The queries in which ranker `a` loses most to `b`, the worst first, and no others.

        Each has its id, its text where that is known, and both values. By the first metric unless
        one is named.
        """
        number = self._metric_number(metric)
        mine, theirs = (self.ranker(name).measured[number].per_query for name in (a, b))
        sign = 1.0 if self.metrics[number].higher_is_better else -1.0
        gains = np.nan_to_num(sign * (mine - theirs))
        texts = self.query_texts
        return [
            {
                "query_id": self.query_ids[query].as_py(),
                "query": None if texts is None else texts[query].as_py(),
                "a": float(mine[query]),
                "b": float(theirs[query]),
            }
            for query in np.argsort(gains, kind="stable")[:n].tolist()
            if gains[query] < -ROUNDING
        ]

    @property
    def _earlier(self) -> str:
        """Comparisons on the same queries, in words; empty where this is the first one."""
        number, n_queries = self.earlier_comparisons, len(self.query_ids)
        return earlier_words(number, self.counted_in, n_queries) if number else ""

    def correction(self, *, always: bool = True) -> list[str]:
        """How p is corrected, in a line; unless `always`, for more than these pairs alone."""
        corrected = always or self.earlier_comparisons or self.split == "folds"
        line = corrected_over(len(self.pairs), self.split, self._earlier)
        return [line] if corrected else []

    def as_dict(self) -> dict[str, Any]:
        """Every figure but those of most queries, as JSON; `verdict` is that of the headline."""
        both: dict[str, Any] = {}
        verdict: dict[str, Any] = {}
        worst: dict[str, Any] = {}
        if self.prediction_powered:
            both["prediction_powered"] = [pair.as_dict() for pair in self.prediction_powered]
            both["ideal_of"] = "human-labelled documents"
        if self.pairs:
            a, b = self.headline
            verdict["verdict"] = {"a": a, "b": b, **self.verdict(a, b).as_dict()}
            queries = self.worst(a, b, n=self.n_worst)
            worst["worst"] = {"a": a, "b": b, "metric": str(self.metrics[0]), "queries": queries}
        return {
            "data": self.data_name,
            **verdict,
            "n_queries": self.n_queries,
            "on_judged_documents": self.on_judged_documents,
            "n_independent": self.n_independent,
            "earlier_comparisons": self.earlier_comparisons,
            "split": self.split,
            "weighted": self.weighted,
            "unjudged": self.unjudged,
            "baseline": self.baseline,
            "rankers": [ranker.as_dict() for ranker in self.rankers],
            "pairs": [pair.as_dict() for pair in self._by_human_labels],
            "corrected_over": len(self.pairs),
            **both,
            "notes": list(self.notes),
            **worst,
            "warnings": list(self.warnings),
        }

    def to_frame(self, per_query: bool = False) -> Any:
        """The pairs, or the values of each query, as a pandas DataFrame.

        Of one ranker alone its means.
        """
        pd = pandas_for("to_frame()")
        if per_query:
            return self.per_query.to_pandas()
        content = self.as_dict()
        return pd.DataFrame(content["pairs"] or content["rankers"][0]["metrics"])

    def __repr__(self) -> str:
        """The verdict, the first lines, and a line for each pair, as many as a repr shows."""
        lines = [*([self._opening] if self.pairs else []), *self._first_lines]
        lines += [
            f"{pair.metric}  {pair.a} − {pair.b}: {difference_words(pair.comparison)}, p = "
            f"{pair.p_holm:.2g} corrected: {outcome_in_words(pair.verdict, pair.smallest_gain)}"
            for pair in self.pairs
        ]
        lines += disagreements(self._by_human_labels, self.split)
        return shortened(printable_lines("\n".join(lines)))

    @property
    def _title(self) -> str:
        """Which rankers, on what."""
        return f"{len(self.rankers)} rankers on {self._queries} ({split_in_words(self.split)})"

    @property
    def _first_lines(self) -> list[str]:
        """What a short text has between the verdict and the pairs."""
        return [self._title]

    def _blocks(self) -> Iterator[Block]:
        """The verdict first, then figures and what they are of; warnings last."""
        letters = ranker_letters([ranker.name for ranker in self.rankers])
        of = f", {self.data_name}" if self.data_name else ""
        yield from (self._opening, f"{self._title}{of}", *self.notes)
        yield from self.figure_blocks(letters)
        yield from self._live_lines
        if self.prediction_powered:
            yield from ("", *self.label_blocks(letters))
        yield from _worst_lines(self, letters)
        yield from self._warning_lines

    def figure_blocks(self, letters: Mapping[str, str] | None = None) -> Iterator[Block]:
        """Means and their conventions, and pairs with what can be said of them.

        Pairs name rankers by their `letters`; without these, by their names.
        """
        yield _mean_table(self, letters)
        yield from (
            metric.convention + ("" if metric.higher_is_better else "; lower is better")
            for metric in self.metrics
        )
        if not self.pairs:
            return
        yield ""
        yield pair_table(self._by_human_labels, letters)
        if self.weighted:
            yield "means, differences and tests are weighted by the importance of queries"
        yield (
            "low and high are 95 % intervals (BCa bootstrap over queries; of differences, widened "
            "for skewness and for queries that the sample lacks), each for itself"
        )
        yield (
            "p is of a permutation test, whose null hypothesis is that differences are symmetric "
            "about 0"
        )
        if any(ranker.unjudged is not None for ranker in self.rankers):
            yield _UNJUDGED[self.unjudged]
            yield "judged documents that a list lacks count as not retrieved (trec_eval -c)"
        by = "by human labels alone, " if self.prediction_powered else ""
        yield from (f"{by}{line}:" for line in self.correction())
        yield from self._verdict_lines
        yield _detectable_line(self.pairs)
        yield from self._segment_blocks

    def label_blocks(self, letters: Mapping[str, str] | None = None) -> Iterator[Block]:
        """The pairs by human and proxy labels, and what each kind of labels adds."""
        yield _label_table(self.prediction_powered, letters)
        yield from _label_lines(self.prediction_powered, self._earlier)

    @property
    def _opening(self) -> str:
        """The verdict on the pair that stands for the comparison, which is its first line."""
        a, b = self.headline
        first, judged = str(self.metrics[0]), self.on_judged_documents
        return verdict_line(
            self.verdict(a, b),
            a,
            b,
            first,
            judged=judged,
            weighted=self.weighted,
            smallest_gain=self.pair(a, b).smallest_gain,
        )

    @property
    def _queries(self) -> str:
        """How many queries there are, and how many of them are independent."""
        if self.n_independent in {0, self.n_queries}:
            return f"{self.n_queries:,} queries"
        return f"{self.n_queries:,} queries, {self.n_independent:,} independent"

    @property
    def _by_human_labels(self) -> list[ComparedPair]:
        return [pair.by_human_labels for pair in self.pairs]

    @property
    def _verdict_lines(self) -> list[str]:
        """The verdict on each pair, and what it does not say."""
        pairs = self._by_human_labels
        return [*verdict_lines(pairs), *disagreements(pairs, self.split), *small_gain_lines(pairs)]

    @property
    def _segment_blocks(self) -> Iterator[Block]:
        """The headline in segments: where these were asked for, or one loses; else a line."""
        pair = self.pair(*self.headline)
        tested = [each.name for each in pair.segments if each.comparison is not None]
        if self.by_segments or pair.lost_segments:
            yield ""
            yield _segment_table(pair)
            few = f" of {FEWEST} independent queries or more"
            yield f"p is corrected over the segments{few} (Holm): {len(tested)}"
        elif tested:
            kinds = dict.fromkeys(name.partition(":")[0] for name in tested)
            yield f"no segment loses: {', '.join(kinds)}"

    @property
    def _live_lines(self) -> list[str]:
        """How to measure what users get, where the rankers were shown judged documents alone."""
        return [measured_live_by(self.headline)] if self.on_judged_documents else []

    @property
    def _warning_lines(self) -> list[str]:
        return [f"warning: {message}" for message in self.warnings]

    def to_latex(self) -> str:
        """The means as a LaTeX table (booktabs): rankers × metrics, the best of each bold.

        A dagger marks what is better or worse than the baseline, by the verdict.
        """
        marked = {
            (pair.metric, name)
            for pair in self._by_human_labels
            for name in (pair.a, pair.b)
            if pair.better is not None and self.baseline not in {None, name}
        }
        names = [ranker.name for ranker in self.rankers]
        columns = [
            latex_cells(
                [ranker.means[metric].mean for ranker in self.rankers],
                {n for n, name in enumerate(names) if (metric, name) in marked},
                higher_is_better=higher_is_better,
            )
            for metric, higher_is_better in (
                (str(metric), metric.higher_is_better) for metric in self.metrics
            )
        ]
        dagger = (
            f"dagger: better or worse than {self.baseline}, p < .05, corrected (Holm), and the "
            "95 % interval excludes 0"
        )
        notes = [f"{self.n_queries:,} queries", *([dagger] if self.baseline is not None else [])]
        rows = list(zip(names, *columns, strict=True))
        return latex_of(Table(["", *map(str, self.metrics)], rows), notes)

    def _metric_number(self, metric: Metric | str | None) -> int:
        texts = [str(each) for each in self.metrics]
        if metric is None:
            return 0
        if str(metric) not in texts:
            raise UsageError(f"{metric} was not measured: there are {', '.join(texts)}")
        return texts.index(str(metric))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Evaluation(RankerComparison):
    """The figures of a ranker on some queries, and its comparison with a baseline, if any.

    `evaluation["map"]` has those of one metric, `evaluation["map"].interval` the 95 % interval of
    its mean. `scores` has one score a document of `data`, NaN where a run did not retrieve it; None
    where these are a folder of parts.
    """

    data: RankingDataset | PartitionedDataset
    scores: Vector | None

    @property
    def measured(self) -> tuple[Measured, ...]:
        """The ranker's figures, by metric."""
        return self.rankers[0].measured

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row a metric: its value, all-tied baseline, convention, and how many queries."""
        return [measure.as_dict() for measure in self.measured]

    def __getitem__(self, metric: Metric | str) -> Measured:
        """The figures of a metric: its mean, and each query's value."""
        means = self.rankers[0].means
        if str(metric) not in means:
            raise KeyError(f"{metric} was not measured: there are {', '.join(means)}")
        return means[str(metric)]

    @property
    def _title(self) -> str:
        of = f" of {self.data_name}" if self.data_name else ""
        name, split = self.rankers[0].name, split_in_words(self.split)
        weighted = ", weighted by the importance of queries" if self.weighted else ""
        return f"{name} on {self._queries}{of} ({split}){weighted}"

    @property
    def _first_lines(self) -> list[str]:
        means = [
            f"{measure.metric!s:<12} {measure.mean:.4f}  "
            f"(all-tied baseline {measure.all_tied_baseline:.4f})"
            for measure in self.measured
        ]
        return [self._title, *means, *self._warning_lines]

    def _blocks(self) -> Iterator[Block]:
        if self.pairs:
            yield self._opening
        yield self._title
        yield Table(
            ["METRIC", "VALUE", *("OTHER" for _ in self.rankers[1:]), "ALL TIED"],
            [
                (
                    str(measure.metric),
                    *(ranker.measured[n].mean for ranker in self.rankers),
                    measure.all_tied_baseline,
                )
                for n, measure in enumerate(self.measured)
            ],
        )
        yield "  all tied: the baseline of scoring all documents the same"
        yield from (f"  {metric.convention}" for metric in self.metrics)
        if self.pairs:
            a, b = self.headline
            compared = self.pairs[0].comparison.n_queries
            yield ""
            yield f"A {a} against B {b}, on the same {compared:,} queries:"
            yield pair_table(self.pairs, ranker_letters((a, b)))
            yield from (*self._verdict_lines, *self._segment_blocks, *self._live_lines)
            yield from self.correction(always=False)
        yield from self._warning_lines


def ranker_letters(names: Sequence[str]) -> dict[str, str]:
    """A short name for each ranker: A to Z, then A2 and so on."""
    return {
        name: chr(65 + n % 26) + (str(n // 26 + 1) if n >= 26 else "")
        for n, name in enumerate(names)
    }


def _mean_table(comparison: RankerComparison, letters: Mapping[str, str] | None) -> Table:
    listed = any(each.unjudged is not None for each in comparison.rankers)
    rows = []
    for metric in map(str, comparison.metrics):
        for ranker in comparison.rankers:
            mean = ranker.means[metric]
            row: list[Any] = [] if letters is None else [letters[ranker.name]]
            row += [ranker.name, metric, mean.mean, mean.low, mean.high]
            if listed:
                row.append("–" if ranker.unjudged is None else f"{ranker.unjudged[metric]:.0%}")
            rows.append(row)
    headers = ["RANKER", "METRIC", "MEAN", "LOW", "HIGH", *(["UNJUDGED"] if listed else [])]
    headers = headers if letters is None else ["", *headers]
    weighted = ", weighted by their importance" if comparison.weighted else ""
    caption = f"Means over {comparison.n_queries:,} queries{weighted}, with 95 % intervals"
    return Table(headers, rows, caption)


def _pair(pair: ComparedPair, letters: Mapping[str, str] | None) -> str:
    a, b = (name if letters is None else letters[name] for name in (pair.a, pair.b))
    return f"{a} − {b}"


def pair_table(pairs: Sequence[ComparedPair], letters: Mapping[str, str] | None = None) -> Table:
    """A row for each pair, its rankers by their letters, or names."""
    headers = ("METRIC", "PAIR", "DIFF", "LOW", "HIGH", "P", "P (T)", "P HOLM", "W/T/L")
    rows = [
        (
            pair.metric,
            _pair(pair, letters),
            *map("{:+.4f}".format, (comparison.mean_difference, comparison.low, comparison.high)),
            *map(_p, (comparison.p_permutation, comparison.p_t, pair.p_holm)),
            f"{pair.gained}/{comparison.ties}/{pair.lost}",
        )
        for pair in pairs
        for comparison in [pair.comparison]
    ]
    caption = "Pairs of rankers; w/t/l: queries in which the first one wins, ties, loses"
    return Table(headers, rows, caption)


def _segment_table(pair: ComparedPair) -> Table:
    """A row for each segment; of one that is not tested, its size alone."""
    rows = []
    for each in pair.segments:
        cells, compared = ["–"] * 4, each.comparison
        if compared is not None:
            figures = compared.mean_difference, compared.low, compared.high
            cells = [*map("{:+.4f}".format, figures), _p(each.p_holm)]
        name = f"{each.name} (accepted)" if each.accepted else each.name
        rows.append((name, each.n_queries, *cells))
    by = " by human labels" * (pair.prediction_powered is not None)
    caption = f"{pair.a} − {pair.b} by {pair.metric} in segments of the queries{by}"
    return Table(("SEGMENT", "QUERIES", "DIFF", "LOW", "HIGH", "P HOLM"), rows, caption)


def _label_table(pairs: Sequence[ComparedPair], letters: Mapping[str, str] | None) -> Table:
    """For each pair with proxy labels, a row by both kinds of labels, and one by each alone."""
    rows = [
        (
            pair.metric,
            _pair(pair, letters),
            labels,
            *map("{:+.4f}".format, (interval.mean, interval.low, interval.high)),
            _p(interval.p),
        )
        for pair in pairs
        for both in [pair.prediction_powered]
        if both is not None
        for labels, interval in (
            ("both", both.by_both),
            ("human", both.by_human),
            ("proxy, biased", both.by_proxy),
        )
    ]
    caption = "Pairs of rankers by human and proxy labels, with 95 % intervals"
    return Table(("METRIC", "PAIR", "LABELS", "DIFF", "LOW", "HIGH", "P"), rows, caption)


def _label_lines(pairs: Sequence[ComparedPair], earlier: str) -> list[str]:
    """What proxy labels of all queries add to human ones: a line for each pair."""
    lines = [
        f"{pair.metric} {pair.a} − {pair.b}: {interval.mean:+.4f} [{interval.low:+.4f}, "
        f"{interval.high:+.4f}] by {both.n_human:,} human-labelled and {both.n_queries:,} "
        f"proxy-labelled queries; {strength_in_words(both)}"
        for pair in pairs
        for both in [pair.prediction_powered]
        if both is not None
        for interval in [both.by_both]
    ]
    by = f"by human and proxy labels, {corrected_over(len(pairs), earlier=earlier)}:"
    return [*lines, by, *verdict_lines(pairs)]


def _p(value: float) -> str:
    """A p-value; one that would round to 0 is never 0."""
    return f"{value:.4f}" if value >= 0.00005 else "<.0001"


def _worst_lines(comparison: RankerComparison, letters: Mapping[str, str]) -> Iterator[Block]:
    a, b = comparison.headline
    worst = comparison.worst(a, b, n=comparison.n_worst)
    if not worst:
        return
    yield ""
    yield f"where {a} loses most to {b}, {comparison.metrics[0]}:"
    texts = ["TEXT"] if comparison.query_texts is not None else []
    yield Table(
        ["QUERY", *texts, letters[a], letters[b]],
        [
            (query["query_id"], *([query["query"]] if texts else []), query["a"], query["b"])
            for query in worst
        ],
    )


def _detectable_line(pairs: Sequence[ComparedPair]) -> str:
    """How large a true difference would probably be found, by metric."""
    sizes: dict[str, list[float]] = {}
    for pair in pairs:
        sizes.setdefault(pair.metric, []).append(pair.comparison.detectable)
    parts = []
    for metric, of_pairs in sizes.items():
        low, high = f"{min(of_pairs):.4f}", f"{max(of_pairs):.4f}"
        parts.append(f"{metric} {low}" if low == high else f"{metric} {low} to {high}, by pair")
    return f"minimum detectable difference (80 % power, each pair alone): {'; '.join(parts)}"


def latex_cells(
    values: Sequence[float], marked: Collection[int] = (), *, higher_is_better: bool = True
) -> list[Latex]:
    """A column: bold are values that print as the best one does; `marked` ones have a dagger."""
    texts = [f"{value:.4f}" for value in values]
    numbers = [float(text) for text in texts if text != "nan"]
    best = (max if higher_is_better else min)(numbers, default=None)
    return [
        Latex(
            (rf"\textbf{{{text}}}" if float(text) == best else text)
            + (r"$^{\dagger}$" if row in marked else "")
        )
        for row, text in enumerate(texts)
    ]
