"""Single queries: each before and after, and examples of documents that changed ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.explanations.explanation import ExplainedHit, Explanation
from owpc_ltr.metrics import Metric
from owpc_ltr_report.blocks import (
    NEUTRAL,
    Block,
    Cell,
    Chart,
    PageVerdict,
    QueryList,
    Section,
    Table,
    Text,
    amount,
    shortened,
    signed,
)
from owpc_ltr_report.charts import QueryRow, changes, dumbbells
from owpc_ltr_report.comparison import main_pairs

MAX_QUERIES = 10_000
"""Queries on a page: of more, those that changed most."""
QUERIES_AT_ONCE = 20
"""Queries that the list shows at a time."""
TOP_DOCUMENTS = 4
"""Documents of an example from the top of each of the two rankings."""
REASONS = 3
"""Features that explain the place of a document."""
_DROPPED_DOCUMENTS = 2
_ROUNDING = 1e-12
_STEPS = (0.0, 0.05, 0.2, 0.5)
_HEADERS: tuple[str, ...] = ("rank", "before", "change", "grade", "document")
Contribute = Callable[[Matrix], Vector]
"""The contribution of each feature to the score of each document (n_documents, n_features)."""


def queries_section(found: RankerComparison) -> Section | None:
    """Each query before and after; None without a baseline."""
    if found.baseline is None or not main_pairs(found):
        return None
    metric, new, baseline = found.metrics[0], found.rankers[0].name, found.baseline
    name, higher_is_better = str(metric), metric.higher_is_better
    after, before = (found.ranker(one).measured[0].per_query for one in (new, baseline))
    counted = np.flatnonzero(np.isfinite(after) & np.isfinite(before))
    if not len(counted):
        return None
    # Equal rankings summed in another order are equal.
    after = np.where(np.abs(after - before) <= _ROUNDING, before, after)
    gains = (after - before)[counted]
    gains = gains if higher_is_better else -gains
    order = counted[np.argsort(gains, kind="stable")]
    if len(order) > MAX_QUERIES:
        order = np.concatenate([order[: MAX_QUERIES // 2], order[-(MAX_QUERIES // 2) :]])
    ids, words = found.query_ids.to_pylist(), found.query_texts
    texts = [""] * len(ids) if words is None else words.to_pylist()
    rows = tuple(
        QueryRow(
            ids[place], shortened(texts[place] or ""),
            float(before[place]), float(after[place]),
        )
        for place in order.tolist()
    )  # fmt: skip
    spec = dumbbells(
        rows[:QUERIES_AT_ONCE], name, higher_is_better=higher_is_better, domain=metric.value_range
    )
    queries = QueryList(
        "per-query", name, baseline, new, higher_is_better, rows, len(counted), spec
    )
    lead = f"Each query's {name} before ({baseline}) and after ({new}), the largest losses first."
    title = "Where does it win, and where does it lose?"
    return Section("queries", "Queries", title, lead, (_changes(metric, gains), queries))


def _changes(metric: Metric, gains: Vector) -> Chart:
    """The number of queries by size of change."""
    low, high = metric.value_range
    steps = np.array(_STEPS) * (high - low)
    size = np.sign(gains) * np.searchsorted(steps, np.abs(gains), side="left")
    places = range(-len(_STEPS), len(_STEPS) + 1)
    rows = [
        (_change(place, steps), int((size == place).sum()), int(np.sign(place))) for place in places
    ]
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    same = len(gains) - better - worse
    title = f"How many queries change, and by how much ({metric})"
    sentence = f"{better:,} queries get better, {worse:,} worse, {same:,} do not change."
    table = Table("Queries by their change", ("change", "queries"), [row[:2] for row in rows])
    return Chart("changes", title, changes(rows), sentence, table)


def _change(place: int, steps: Vector) -> str:
    """A step in words."""
    if not place:
        return "same"
    low = steps[abs(place) - 1]
    side = "better" if place > 0 else "worse"
    if abs(place) == len(steps):
        return f"{side} by > {low:g}"
    high = steps[abs(place)]
    return f"{side} by {low:g} to {high:g}" if low else f"{side} by ≤ {high:g}"


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
    grade: float | None
    reasons: tuple[tuple[str, float], ...] = ()

    @property
    def reasons_in_words(self) -> str:
        """The features with their amounts."""
        return ", ".join(f"{name} {signed(value, 2)}" for name, value in self.reasons)

    @property
    def row(self) -> tuple[Cell, ...]:
        """The cells of its row: rank, rank before, change, grade, document."""
        steps = 0 if self.rank is None or self.before is None else self.before - self.rank
        change = f"{'▲' if steps > 0 else '▼'} {abs(steps)}" if steps else "–"
        name = f"{self.title} ({self.doc_id})" if self.title else self.doc_id
        document = (name, self.reasons_in_words) if self.reasons else name
        return (self.rank, self.before, change, self.grade, document)


@dataclass(frozen=True)
class Example:
    """A query, its value of a metric before and after (None: not measured), its documents."""

    query: str
    metric: str
    before: float | None
    after: float | None
    n_documents: int
    documents: tuple[ExampleDocument, ...]


def extremes(gains: Vector, count: int) -> tuple[list[int], list[int]]:
    """The queries with the largest losses, and those with the largest gains."""
    known = np.nan_to_num(gains, nan=0.0)
    order = np.argsort(known, kind="stable")
    losses = [int(place) for place in order[:count] if known[place] < 0]
    best = [int(place) for place in order[::-1][:count] if known[place] > 0]
    return losses, best


def example_documents(
    data: RankingDataset,
    query: int,
    scores: tuple[Vector, Vector],
    contribute: Contribute | None = None,
) -> tuple[ExampleDocument, ...]:
    """The top documents of a query by the scores after, and relevant ones that dropped from there.

    `scores` are those before and after of all documents of the dataset, NaN where a run did not
    retrieve the document.
    """
    start, end = int(data.offsets[query]), int(data.offsets[query + 1])
    before, after = (_ranks(one[start:end]) for one in scores)
    grades = data.labels[start:end]
    was, now = (~np.isnan(one[start:end]) for one in scores)
    top = np.flatnonzero((after <= TOP_DOCUMENTS) & now)
    dropped = np.flatnonzero((before <= TOP_DOCUMENTS) & was & ((after > TOP_DOCUMENTS) | ~now))
    dropped = dropped[np.lexsort((before[dropped], -grades[dropped]))][:_DROPPED_DOCUMENTS]
    places = np.concatenate([top, dropped])
    titles = (data.document_fields or {}).get("title")
    amounts = None if contribute is None else contribute(data.features[start:end])
    apart = None if amounts is None else amounts - amounts.mean(axis=0)
    return tuple(
        ExampleDocument(
            f"document {place + 1}" if data.document_ids is None
            else str(data.document_ids[start + place].as_py()),
            "" if titles is None else str(titles[start + place].as_py() or ""),
            int(after[place]) if now[place] else None,
            int(before[place]) if was[place] else None,
            float(grades[place]),
            () if apart is None else _largest(data.feature_names, apart[place]),
        )
        for place in places[np.argsort(after[places])].tolist()
    )  # fmt: skip


def _ranks(scores: Vector) -> NDArray[np.int64]:
    """The rank of each document, from 1; of equal scores the first one is higher."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


def _largest(names: Sequence[str], amounts: Vector) -> tuple[tuple[str, float], ...]:
    """The largest amounts by absolute value, without zeros."""
    order = np.argsort(-np.abs(amounts), kind="stable")[:REASONS]
    return tuple((names[n], float(amounts[n])) for n in order.tolist() if amounts[n] != 0)


def explanation_example(found: Explanation) -> Example:
    """The query of an explanation with its best hits, as far as they were explained."""
    documents = tuple(_hit_document(hit, found) for hit in found.hits)
    return Example(found.query, "", None, None, found.documents, documents)


def _hit_document(hit: ExplainedHit, found: Explanation) -> ExampleDocument:
    reasons = _largest(hit.feature_names, hit.contributions - found.mean_contributions)
    reasons += tuple((part.name, part.amount) for part in hit.parts if part.amount != 0)
    title = "" if hit.title == hit.document_id else hit.title
    return ExampleDocument(
        hit.document_id, title, hit.rank, hit.rank_before, None, reasons[:REASONS]
    )


def explanation_verdict(found: Explanation) -> PageVerdict:
    """The verdict of a page of an explanation alone: the reasons for the first document."""
    hit = found.hits[0]
    name = f"{hit.title} ({hit.document_id})" if hit.title != hit.document_id else hit.title
    reasons = _hit_document(hit, found).reasons_in_words
    before = f", and was at {hit.rank_before} without the model" if hit.rank_before else ""
    why = f" Against the mean of the list, {reasons} add most to its score." if reasons else ""
    sentence = (
        f"For “{found.query}”, {name} is at rank {hit.rank} of {found.documents} by "
        f"{found.model}{before}.{why}"
    )
    return PageVerdict(NEUTRAL, sentence, found.warnings, heading="Why this rank")


def examples_section(examples: Sequence[Example], before: str, after: str) -> Section | None:
    """Each query with its documents before and after; None without any."""
    if not examples:
        return None
    blocks: list[Block] = []
    for example in examples:
        blocks.append(Text(example.query, "heading"))
        if example.before is not None and example.after is not None:
            values = f"{amount(example.before)} → {amount(example.after)}"
            blocks.append(Text(f"{example.metric} {values}"))
        blocks.append(_documents(example))
    lead = "The top documents of a list."
    if any(example.metric for example in examples):
        lead = (
            "The queries with the largest losses and the largest gains: their top documents by "
            f"{after}, and relevant documents that dropped from the top of {before}."
        )
    if any(one.reasons for example in examples for one in example.documents):
        lead += (
            " Below each document are the features that set it apart from the mean of its list, "
            "with their contributions to its score."
        )
    title = "Which documents change ranks, and why?"
    return Section("examples", "Examples", title, lead, blocks)


def _documents(example: Example) -> Table:
    headers, rows = _HEADERS, [one.row for one in example.documents]
    if all(one.grade is None for one in example.documents):
        headers, rows = (*headers[:3], *headers[4:]), [(*row[:3], *row[4:]) for row in rows]
    caption = f"Documents of “{example.query}” ({example.n_documents} in all)"
    return Table(caption, headers, rows)
