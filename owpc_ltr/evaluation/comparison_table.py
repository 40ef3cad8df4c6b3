"""A comparison of rankers in tables, text and JSON: means of each, the difference of each pair."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.compared_pair import (
    ComparedPair,
    corrected_over,
    detectable_line,
    difference_of,
    disagreements,
    measured_live_by,
    small_gain_lines,
    verdict_line,
    verdict_lines,
    wins_ties_losses,
)
from owpc_ltr.evaluation.latex import LatexColumn, latex_table
from owpc_ltr.evaluation.measurement import Measured
from owpc_ltr.evaluation.options import WORST_QUERIES
from owpc_ltr.evaluation.prediction_powered import strength_in_words
from owpc_ltr.evaluation.resampling import ROUNDING
from owpc_ltr.evaluation.significance import ResultWarning, Verdict, over_metrics
from owpc_ltr.metrics import Metric
from owpc_ltr.plain_text import REPR_LINES, ShortRepr, printable_lines, text_table, wrapped_text

SYMMETRY = (
    "p is of a permutation test, whose null hypothesis is that differences are symmetric about 0"
)
_UNJUDGED = {
    "zero": "unjudged documents count as irrelevant",
    "skip": "queries with unjudged documents at the top of any ranker's list are left out",
    "condensed": "unjudged documents are removed from the lists (condensed, Sakai 2007)",
}
_SPLITS = {
    "test": "none of which a ranker was trained on",
    "folds": "cross-validated: none of which the model that ranks it was trained on",
    "all": "all of them",
    "unknown": "it is not known whether a ranker was trained on them",
}


@dataclass(frozen=True)
class MeanInterval:
    """A mean over queries, and the 95 % BCa bootstrap interval of it."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class ComparedRanker(ShortRepr):
    """One ranker: each metric's value of every query, its mean by the metric's text, its warnings.

    `unjudged` is the mean share of unjudged documents among those that each metric looks at, by
    its text; None for a ranker that is shown judged documents alone. `drawn` has the means where
    the queries were drawn for all rankers together.
    """

    name: str
    measured: tuple[Measured, ...] = field(repr=False)
    drawn: Mapping[str, MeanInterval] | None = field(default=None, repr=False)
    unjudged: Mapping[str, float] | None = None
    warnings: tuple[str, ...] = ()

    @cached_property
    def means(self) -> Mapping[str, MeanInterval]:
        """Each metric's mean by its text, with its interval."""
        if self.drawn is not None:
            return self.drawn
        return {str(one.metric): MeanInterval(one.mean, *_ends(one)) for one in self.measured}

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "name": self.name,
            "metrics": [
                {
                    **one.as_dict(),
                    "all_tied_baseline": known_number(one.all_tied_baseline),
                    "low": self.means[str(one.metric)].low,
                    "high": self.means[str(one.metric)].high,
                    "unjudged": None if self.unjudged is None else self.unjudged[str(one.metric)],
                }
                for one in self.measured
            ],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, eq=False, repr=False)
class RankerComparison:
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
    looks: int = 0
    """How many comparisons were made on these queries before."""
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
        ordered = sorted(self.rankers, key=lambda one: sign * one.means[str(first)].mean)
        names = [one.name for one in ordered]
        if self.baseline is not None:
            return next(name for name in names if name != self.baseline), self.baseline
        other = self.rankers[0].name
        return names[0], names[1] if other == names[0] else other

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of a comparison, without those that a kind of result adds."""
        return {one.name: getattr(self, one.name) for one in fields(RankerComparison)}

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
            for one in ranker.measured:
                values = pa.array(one.per_query, from_pandas=True)
                columns[f"{one.metric} {ranker.name}"] = values
        return pa.table(columns)

    def ranker(self, name: str) -> ComparedRanker:
        """The ranker of this name. Raises UsageError where there is none."""
        for one in self.rankers:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.rankers)
        raise UsageError(f"no ranker is called '{name}': there are {known}")

    def pair(self, a: str, b: str, metric: Metric | str | None = None) -> ComparedPair:
        """Ranker a against b by a metric, the first one unless it is named."""
        name = str(self.metrics[self._metric_number(metric)])
        found = self._by_metric(a, b).get(name)
        if found is None:
            raise UsageError(f"{a} and {b} were not compared by {name}")
        return found

    def verdicts(self, a: str, b: str) -> dict[str, Verdict]:
        """The verdicts on ranker a against b by metric; empty where the two were not compared."""
        return {metric: one.verdict for metric, one in self._by_metric(a, b).items()}

    def _by_metric(self, a: str, b: str) -> dict[str, ComparedPair]:
        found = (one for one in self.pairs if {one.a, one.b} == {a, b})
        return {one.metric: one if one.a == a else one.reversed() for one in found}

    def verdict(self, a: str | None = None, b: str | None = None) -> Verdict:
        """The verdict on ranker a against b: by the first metric, if no other says the opposite.

        By default, they are those of the headline.
        """
        first, other = self.headline
        return over_metrics(self.verdicts(a or first, b or other))

    def with_doubts(self, doubts: Sequence[ResultWarning], *rankers: str) -> Self:
        """The same figures with doubts about the judgments: of all pairs, or those of `rankers`.

        One ranker means every pair that it is part of, two rankers mean their pair.
        """
        if not doubts:
            return self
        pairs = tuple(
            one.with_doubts(doubts) if {*rankers} <= {one.a, one.b} else one for one in self.pairs
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

    def as_dict(self) -> dict[str, Any]:
        """Every figure but those of most queries, as JSON; `verdict` is that of the headline."""
        a, b = self.headline
        both = {
            "prediction_powered": [one.as_dict() for one in self.prediction_powered],
            "ideal_of": "human-labelled documents",
        }
        return {
            "data": self.data_name,
            "verdict": {"a": a, "b": b, **self.verdict(a, b).as_dict()},
            "n_queries": self.n_queries,
            "on_judged_documents": self.on_judged_documents,
            "n_independent": self.n_independent,
            "earlier_comparisons": self.looks,
            "split": self.split,
            "weighted": self.weighted,
            "unjudged": self.unjudged,
            "baseline": self.baseline,
            "rankers": [one.as_dict() for one in self.rankers],
            "pairs": [one.by_human_labels.as_dict() for one in self.pairs],
            "corrected_over": len(self.pairs),
            **(both if self.prediction_powered else {}),
            "notes": list(self.notes),
            "worst": {
                "a": a,
                "b": b,
                "metric": str(self.metrics[0]),
                "queries": self.worst(a, b, n=self.n_worst),
            },
            "warnings": list(self.warnings),
        }

    def to_frame(self, per_query: bool = False) -> Any:
        """The pairs, or the values of each query, as a pandas DataFrame."""
        import pandas as pd

        if per_query:
            return self.per_query.to_pandas()
        return pd.DataFrame([one.by_human_labels.as_dict() for one in self.pairs])

    def __str__(self) -> str:
        """The verdict first, then means, pairs, and the queries that lose most."""
        return "\n".join(_text_lines(self))

    def __repr__(self) -> str:
        return short_text(self, [_title(self)])

    def _repr_html_(self) -> str:
        """Means as bars, pairs as a table, notes and warnings below."""
        labels = _labels_in_words(self) if self.prediction_powered else []
        return html_of(self, _title(self), [*self.notes, *_closing(self), *labels])

    def to_latex(self) -> str:
        """The means as a LaTeX table (booktabs): rankers × metrics, the best of each bold.

        A dagger marks what is better or worse than the baseline, by the verdict.
        """
        places = {one.name: number for number, one in enumerate(self.rankers)}
        marked: dict[str, set[int]] = {}
        for pair in (one.by_human_labels for one in self.pairs):
            if self.baseline is not None and pair.better is not None:
                other = pair.a if pair.b == self.baseline else pair.b
                marked.setdefault(pair.metric, set()).add(places[other])
        columns = [
            LatexColumn(
                str(metric),
                [one.means[str(metric)].mean for one in self.rankers],
                metric.higher_is_better,
                marked.get(str(metric), set()),
            )
            for metric in self.metrics
        ]
        dagger = (
            f"dagger: better or worse than {self.baseline}, p < .05, corrected (Holm), and the "
            "95 % interval excludes 0"
        )
        notes = [f"{self.n_queries:,} queries", *([dagger] if self.baseline is not None else [])]
        return latex_table([one.name for one in self.rankers], columns, notes)

    def _metric_number(self, metric: Metric | str | None) -> int:
        texts = [str(one) for one in self.metrics]
        if metric is None:
            return 0
        if str(metric) not in texts:
            raise UsageError(f"{metric} was not measured: there are {', '.join(texts)}")
        return texts.index(str(metric))


def short_text(found: RankerComparison, title: Sequence[str]) -> str:
    """The verdict, the lines of the `title`, and a line for each pair, as many as a repr shows."""
    lines = [*([opening(found)] if found.pairs else []), *title]
    lines += [
        f"{pair.metric}  {pair.a} − {pair.b}: {difference_of(pair)}, p = {pair.p_holm:.2g} "
        f"corrected: {pair.verdict.outcome}"
        for pair in found.pairs
    ]
    lines += disagreements([one.by_human_labels for one in found.pairs], found.split)
    if len(lines) > REPR_LINES:
        left = len(lines) - REPR_LINES + 1
        lines = [*lines[: REPR_LINES - 1], f"and {left} more: print the comparison"]
    return printable_lines("\n".join(lines))


def _text_lines(found: RankerComparison) -> Iterator[str]:
    letters = ranker_letters([one.name for one in found.rankers])
    pairs = [one.by_human_labels for one in found.pairs]
    title = f"{_title(found)}, {found.data_name}" if found.data_name else _title(found)
    yield from map(wrapped_text, (opening(found), title, *found.notes))
    yield _mean_table(found, letters)
    yield from (wrapped_text(metric.convention) for metric in found.metrics)
    yield ""
    yield pair_table(pairs, letters)
    yield from map(wrapped_text, _closing(found))
    if found.prediction_powered:
        yield ""
        yield label_table(found.prediction_powered, letters)
        yield from map(wrapped_text, _labels_in_words(found))
    yield from _worst_lines(found, letters)
    yield from map(wrapped_text, warning_lines(found))


def _title(found: RankerComparison) -> str:
    """Which rankers, on what."""
    split = _SPLITS.get(found.split, f"{found.split} split")
    return f"{len(found.rankers)} rankers on {queries_in_words(found)} ({split})"


def warning_lines(found: RankerComparison) -> list[str]:
    """The warnings, a line each."""
    return [f"warning: {message}" for message in found.warnings]


def queries_in_words(found: RankerComparison) -> str:
    """How many queries there are, and how many of them are independent."""
    if found.n_independent in {0, found.n_queries}:
        return f"{found.n_queries:,} queries"
    return f"{found.n_queries:,} queries, {found.n_independent:,} independent"


def opening(found: RankerComparison) -> str:
    """The verdict on the pair that stands for the comparison, which is its first line."""
    a, b = found.headline
    judged = found.on_judged_documents
    return verdict_line(found.verdict(a, b), a, b, str(found.metrics[0]), judged=judged)


def _mean_table(found: RankerComparison, letters: Mapping[str, str]) -> str:
    listed = any(one.unjudged is not None for one in found.rankers)
    rows = []
    for metric in map(str, found.metrics):
        for ranker in found.rankers:
            mean = ranker.means[metric]
            row = [letters[ranker.name], ranker.name, metric, mean.mean, mean.low, mean.high]
            if listed:
                row.append("–" if ranker.unjudged is None else f"{ranker.unjudged[metric]:.0%}")
            rows.append(row)
    headers = ["", "RANKER", "METRIC", "MEAN", "LOW", "HIGH", *(["UNJUDGED"] if listed else [])]
    return text_table(headers, rows)


def pair_table(pairs: Sequence[ComparedPair], letters: Mapping[str, str]) -> str:
    """A row for each pair, its rankers by their letters."""
    headers = ("METRIC", "PAIR", "DIFF", "LOW", "HIGH", "P", "P (T)", "P HOLM", "W/T/L")
    rows = [
        (
            pair.metric,
            f"{letters[pair.a]} − {letters[pair.b]}",
            *map(_signed, (one.mean_difference, one.low, one.high)),
            *map(_p, (one.p_permutation, one.p_t, pair.p_holm)),
            wins_ties_losses(pair),
        )
        for pair in pairs
        for one in [pair.comparison]
    ]
    return text_table(headers, rows)


def label_table(pairs: Sequence[ComparedPair], letters: Mapping[str, str]) -> str:
    """For each pair with proxy labels, a row by both kinds of labels, and one by each alone."""
    rows = [
        (
            pair.metric,
            f"{letters[pair.a]} − {letters[pair.b]}",
            labels,
            *map(_signed, (one.mean, one.low, one.high)),
            _p(one.p),
        )
        for pair in pairs
        for both in [pair.prediction_powered]
        if both is not None
        for labels, one in (
            ("both", both.by_both), ("human", both.by_human), ("proxy, biased", both.by_proxy),
        )
    ]  # fmt: skip
    return text_table(("METRIC", "PAIR", "LABELS", "DIFF", "LOW", "HIGH", "P"), rows)


def _worst_lines(found: RankerComparison, letters: Mapping[str, str]) -> Iterator[str]:
    a, b = found.headline
    worst = found.worst(a, b, n=found.n_worst)
    if not worst:
        return
    yield ""
    yield wrapped_text(f"where {a} loses most to {b}, {found.metrics[0]}:")
    texts = ["TEXT"] if found.query_texts is not None else []
    yield text_table(
        ["QUERY", *texts, letters[a], letters[b]],
        [
            (one["query_id"], *([one["query"]] if texts else []), one["a"], one["b"])
            for one in worst
        ],
    )


def _conventions(found: RankerComparison) -> list[str]:
    """What means are of: weights, unjudged documents, intervals."""
    told = [
        "low and high are 95 % intervals (BCa bootstrap over queries; of differences, widened for "
        "skewness and to ± 3 / queries at least), each for itself",
        SYMMETRY,
    ]
    if found.weighted:
        told.insert(0, "means, differences and tests are weighted by the importance of queries")
    if any(ranker.unjudged is not None for ranker in found.rankers):
        told.append(_UNJUDGED[found.unjudged])
        told.append("judged documents that a list lacks count as not retrieved (trec_eval -c)")
    return told


def _closing(found: RankerComparison) -> list[str]:
    """What figures are of, the verdict on each pair, and what could have been found."""
    pairs = [one.by_human_labels for one in found.pairs]
    by = "by human labels alone, " if found.prediction_powered else ""
    told = [f"{by}{corrected_over(len(pairs), found.looks, found.split)}:", *verdict_lines(pairs)]
    told += [*disagreements(pairs, found.split), *small_gain_lines(pairs), detectable_line(pairs)]
    if found.on_judged_documents:
        told.append(measured_live_by(found.headline))
    return [*_conventions(found), *told]


def _labels_in_words(found: RankerComparison) -> list[str]:
    """What proxy labels of all queries add to human ones: a line for each pair."""
    pairs = found.prediction_powered
    lines = [
        f"{pair.metric} {pair.a} − {pair.b}: {one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}] by "
        f"{both.n_human:,} human-labelled and {both.n_queries:,} proxy-labelled queries; "
        f"{strength_in_words(both)}"
        for pair in pairs
        for both in [pair.prediction_powered]
        if both is not None
        for one in [both.by_both]
    ]
    by = f"by human and proxy labels, {corrected_over(len(pairs))}:"
    return [*lines, by, *verdict_lines(pairs)]


def ranker_letters(names: Sequence[str]) -> dict[str, str]:
    """A short name for each ranker: A to Z, then A2 and so on."""
    return {
        name: chr(65 + n % 26) + (str(n // 26 + 1) if n >= 26 else "")
        for n, name in enumerate(names)
    }


def _signed(value: float) -> str:
    return f"{value:+.4f}"


def _p(value: float) -> str:
    """A p-value; one that would round to 0 is never 0."""
    return f"{value:.4f}" if value >= 0.00005 else "<.0001"


def html_of(found: RankerComparison, title: str, lines: Sequence[str]) -> str:
    """The title, the verdict, means as bars, pairs as a table, and lines below."""
    from owpc_ltr.data import html

    means = [
        (f"{metric} {ranker.name}", ranker.means[str(metric)].mean)
        for metric in found.metrics
        for ranker in found.rankers
    ]
    parts = [html.bars(means, "{:.4f}")]
    if found.pairs:
        headers = ["metric", "difference", "mean and 95 % interval", "p", "p corrected", "w/t/l"]
        rows = [
            (
                pair.metric,
                f"{pair.a} − {pair.b}",
                difference_of(pair),
                f"{pair.comparison.p_permutation:.2g}",
                f"{pair.p_holm:.2g}",
                wins_ties_losses(pair),
            )
            for pair in found.pairs
        ]
        parts = [html.line(opening(found)), *parts, html.table(headers, rows)]
    return html.block(title, *parts, *map(html.line, [*lines, *warning_lines(found)]))


def _ends(found: Measured) -> tuple[float, float]:
    """The interval of a mean; of a single query its value."""
    try:
        return found.interval
    except Refused:
        return found.mean, found.mean


def known_number(value: float) -> float | None:
    """The value as JSON has it, which knows neither NaN nor infinity."""
    return value if math.isfinite(value) else None
