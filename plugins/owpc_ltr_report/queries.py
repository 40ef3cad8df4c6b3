"""Single queries: each before and after, and examples of documents that changed ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.blocks import Row, Table
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.explanations.contributions import contributions
from owpc_ltr.host.report_parts import signed
from owpc_ltr.metrics import Metric
from owpc_ltr_report.comparison import main_pairs
from owpc_ltr_report.page import (
    Chart,
    Section,
    amount,
    drawing,
    dumbbells,
    shortened,
)

TOP_DOCUMENTS = 4
"""Documents of an example from the top of each of the two rankings."""
_MAX_QUERIES = 10_000
_QUERIES_AT_ONCE = 20
_DROPPED_DOCUMENTS = 2
_REASONS = 3
_ROUNDING = 1e-12
_STEPS = (0.05, 0.2, 0.5)


def queries_section(comparison: RankerComparison) -> Section | None:
    """Each query before and after; None without a baseline."""
    if comparison.baseline is None or not main_pairs(comparison):
        return None
    metric, baseline = comparison.metrics[0], comparison.baseline
    ranker = comparison.rankers[0].name
    name, higher = str(metric), metric.higher_is_better
    after, before = (comparison.ranker(of).measured[0].per_query for of in (ranker, baseline))
    counted = np.flatnonzero(np.isfinite(after) & np.isfinite(before))
    if not len(counted):
        return None
    # Equal rankings summed in another order are equal.
    after = np.where(np.abs(after - before) <= _ROUNDING, before, after)
    gains = (after - before)[counted] * (1.0 if higher else -1.0)
    order = counted[np.argsort(gains, kind="stable")]
    if len(order) > _MAX_QUERIES:
        order = np.concatenate([order[: _MAX_QUERIES // 2], order[-(_MAX_QUERIES // 2) :]])
    texts = comparison.query_ids if comparison.query_texts is None else comparison.query_texts
    columns = comparison.query_ids.take(order), texts.take(order), before[order], after[order]
    rows = [
        (query_id, "" if text == query_id else text, old, new)
        for query_id, typed, old, new in zip(*(column.tolist() for column in columns), strict=True)
        for text in [shortened(typed or "")]
    ]
    first = [(text or query_id, old, new) for query_id, text, old, new in rows[:_QUERIES_AT_ONCE]]
    spec = dumbbells(first, name, higher_is_better=higher, domain=metric.value_range)
    words = {
        "metric": name,
        "before": baseline,
        "after": ranker,
        "higher": higher,
        "rows": rows,
        "total": len(counted),
        "at_once": _QUERIES_AT_ONCE,
        "spec": spec,
    }
    return Section("queries", [_changes(metric, gains)], words, macro="queries")


def _changes(metric: Metric, gains: Vector) -> Chart:
    """The number of queries by size of change."""
    low, high = metric.value_range
    a, b, c = steps = np.array(_STEPS) * (high - low)
    sizes = f"≤ {a:g}", f"{a:g} to {b:g}", f"{b:g} to {c:g}", f"> {c:g}"
    labels = [("worse", f"worse by {size}") for size in reversed(sizes)]
    labels += [("same", "same"), *(("better", f"better by {size}") for size in sizes)]
    places = np.sign(gains) * (np.searchsorted(steps, np.abs(gains)) + 1) + len(sizes)
    counts = np.bincount(places.astype(np.int64), minlength=len(labels)).tolist()
    rows = [(label, count, side) for (side, label), count in zip(labels, counts, strict=True)]
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    same = len(gains) - better - worse
    title = f"How many queries change, and by how much ({metric})"
    sentence = f"{better:,} queries get better, {worse:,} worse, {same:,} do not change."
    table = Table(("change", "queries"), [row[:2] for row in rows], "Queries by their change")
    return Chart("changes", title, drawing("changes", rows), sentence, table)


@dataclass(frozen=True)
class ExampleDocument:
    """A document: its rank now and before, its grade, and the features that explain its score.

    Ranks count from 1; None where a run did not retrieve the document. `reasons` are features
    with their contribution's distance from the mean of the list, the largest first.
    """

    doc_id: str
    title: str
    rank: int | None
    before: int | None
    grade: float
    reasons: Sequence[tuple[str, float]] = ()

    @property
    def reasons_in_words(self) -> str:
        """The features with their amounts."""
        return ", ".join(f"{name} {signed(value, 2)}" for name, value in self.reasons)

    @property
    def row(self) -> Row:
        """The cells of its row: rank, rank before, change, grade, document."""
        steps = 0 if self.rank is None or self.before is None else self.before - self.rank
        change = f"{'▲' if steps > 0 else '▼'} {abs(steps)}" if steps else "–"
        name = f"{self.title} ({self.doc_id})" if self.title else self.doc_id
        document = (name, self.reasons_in_words) if self.reasons else name
        return (self.rank, self.before, change, self.grade, document)


@dataclass(frozen=True)
class Example:
    """A query, its values before and after in words, and its documents."""

    query: str
    values: str
    n_documents: int
    documents: Sequence[ExampleDocument]


def changed_examples(
    comparison: RankerComparison,
    data: RankingDataset,
    scores: tuple[Vector, Vector],
    names: tuple[str, str],
    ranker: Any,
    count: int,
) -> list[Example]:
    """The queries that lose most and gain most by the first metric, with their documents.

    `scores` and `names` are those of the baseline and of the new ranker.
    """
    metric = comparison.metrics[0]

    def contribute(features: Matrix) -> Vector:
        return contributions(ranker, features).amounts

    before, after = (comparison.ranker(name).measured[0].per_query for name in names)
    losses, gains = extremes((after - before) * (1.0 if metric.higher_is_better else -1.0), count)
    texts = data.query_ids if comparison.query_texts is None else comparison.query_texts
    return [
        Example(
            texts[query].as_py() or str(data.query_ids[query].as_py()),
            f"{metric} {amount(before[query])} → {amount(after[query])}",
            int(data.offsets[query + 1] - data.offsets[query]),
            example_documents(data, query, scores, contribute),
        )
        for query in (*losses, *gains)
    ]


def extremes(gains: Vector, count: int) -> tuple[list[int], list[int]]:
    """The queries with the largest losses, and those with the largest gains."""
    finite_gains = np.nan_to_num(gains, nan=0.0)
    order = np.argsort(finite_gains, kind="stable").tolist()
    losses = [place for place in order[:count] if finite_gains[place] < 0]
    return losses, [place for place in order[::-1][:count] if finite_gains[place] > 0]


def example_documents(
    data: RankingDataset,
    query: int,
    scores: tuple[Vector, Vector],
    contribute: Callable[[Matrix], Vector] | None = None,
) -> list[ExampleDocument]:
    """The top documents of a query by the scores after, and relevant ones that dropped from there.

    `scores` are those before and after of all documents of the dataset, NaN where a run did not
    retrieve the document. `contribute` gives the contribution of each feature to each score.
    """
    start, end = int(data.offsets[query]), int(data.offsets[query + 1])
    # Of equal scores the first one is higher.
    pair = [of_ranker[start:end] for of_ranker in scores]
    before, after = (np.argsort(-of_query, kind="stable").argsort() + 1 for of_query in pair)
    was, now = (~np.isnan(of_query) for of_query in pair)
    grades = data.labels[start:end]
    top = np.flatnonzero((after <= TOP_DOCUMENTS) & now)
    dropped = np.flatnonzero((before <= TOP_DOCUMENTS) & was & ((after > TOP_DOCUMENTS) | ~now))
    dropped = dropped[np.lexsort((before[dropped], -grades[dropped]))][:_DROPPED_DOCUMENTS]
    places = np.concatenate([top, dropped])
    ids, titles = data.doc_ids, (data.document_fields or {}).get("title")
    apart = np.zeros(data.features[start:end].shape)
    # A ranker of another kind has no contributions.
    with suppress(Refused):
        amounts = apart if contribute is None else contribute(data.features[start:end])
        apart = amounts - amounts.mean(axis=0)
    return [
        ExampleDocument(
            f"document {place + 1}" if ids is None else str(ids[start + place].as_py()),
            "" if titles is None else str(titles[start + place].as_py() or ""),
            int(after[place]) if now[place] else None,
            int(before[place]) if was[place] else None,
            grade=float(grades[place]),
            reasons=_largest(data.feature_names, apart[place]),
        )
        for place in places[np.argsort(after[places])].tolist()
    ]


def _largest(names: Sequence[str], amounts: Vector) -> list[tuple[str, float]]:
    """The features of the largest amounts by absolute value, without zeros."""
    order = np.argsort(-np.abs(amounts), kind="stable")[:_REASONS]
    return [(names[n], float(amounts[n])) for n in order.tolist() if amounts[n] != 0]


def examples_section(
    examples: Sequence[Example], comparison: RankerComparison | None
) -> Section | None:
    """Each query with its documents before and after; None without any."""
    if not examples:
        return None
    before, after = "the ranking before", "the new ranking"
    if comparison is not None and comparison.baseline is not None:
        before, after = comparison.baseline, comparison.rankers[0].name
    words = {"examples": examples, "before": before, "after": after}
    return Section("examples", [], words, macro="examples")
