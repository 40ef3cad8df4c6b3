"""Evidence: how much was seen of each document, which grades and weights came of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from owpc_ltr_clicks.grading import EffectiveSample
from owpc_ltr_clicks.judgments import ClickJudgments

from owpc_ltr.arrays import Vector
from owpc_ltr_report.blocks import Block, Chart, Facts, Section, Table
from owpc_ltr_report.charts.bars import columns

_BINS = (1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10_000)
_SURE = (0.1, 0.25, 0.5, 0.75, 0.9)
_QUERIES = 10
_LONGEST = 90


def evidence_section(found: ClickJudgments, effective: EffectiveSample | None) -> Section:
    """Impressions a document, grades, weights, and the queries of which most and least is known."""
    counts = found.behaviour.counts
    seen = counts.by_pair(counts.shown)
    sizes = np.bincount(counts.pair_query, minlength=len(counts.queries))
    facts = [
        ("queries", f"{len(sizes):,}"),
        (
            "documents a query",
            f"{sizes.min():,} to {sizes.max():,}, {np.median(sizes):g} in the middle",
        ),
        (
            "impressions a document",
            f"{seen.min():,.0f} to {seen.max():,.0f}, {np.median(seen):g} in the middle",
        ),
        ("documents that were clicked", f"{np.mean(counts.by_pair(counts.clicked) > 0):.1%}"),
    ]
    if effective is not None:
        facts.append(
            (
                "weighted clicks",
                f"{effective.clicks:,}, worth {effective.effective:,.0f} equal ones; "
                f"{effective.clipped:,} were clipped",
            )
        )
    blocks: list[Block] = [
        Facts(tuple(facts)),
        _chart(
            "impressions", "Impressions a document", "impressions", _binned(seen), "{} impressions"
        ),
        _chart("click-grades", "Grades", "grade", _grades(_column(found, "grade")), "grade {}"),
    ]
    if "weight" in found.table.column_names:
        weights = _column(found, "weight")
        sure = bool(weights.max(initial=0.0) <= 1.0)
        rows = _tenths(weights) if sure else _binned(weights)
        blocks.append(_chart("click-weights", "Weights", "weight", rows, "weight {}"))
        if sure:
            blocks.append(_sure(weights))
    blocks += _queries(found, seen, sizes)
    lead = (
        "What was seen often is known well. A weight is the share of a grade that is due to a "
        "document's own clicks; the rest is what all documents have in common."
    )
    return Section("evidence", "Evidence", "What do the judgments rest on?", lead, tuple(blocks))


def _column(found: ClickJudgments, name: str) -> Vector:
    values: Vector = found.table[name].to_numpy()
    return values


def _chart(name: str, title: str, of: str, rows: list[tuple[str, int]], said: str) -> Chart:
    total = max(sum(count for _, count in rows), 1)
    most = max(rows, key=lambda row: row[1])
    return Chart(
        name,
        title,
        columns([(label, float(count)) for label, count in rows], of, "documents"),
        f"Of {total:,} documents most, {most[1] / total:.1%}, have {said.format(most[0])}.",
        Table(
            title,
            (of, "documents", "share"),
            tuple((label, count, f"{count / total:.1%}") for label, count in rows),
        ),
    )


def _binned(values: Vector) -> list[tuple[str, int]]:
    """Counts by size, from the first size that there is to the last."""
    edges = np.array([0.0, *_BINS, np.inf])
    counts = np.histogram(values, edges)[0]
    there = np.flatnonzero(counts)
    first, last = (int(there[0]), int(there[-1])) if len(there) else (0, 0)
    names = [
        "below 1",
        *(_span(a, b) for a, b in pairwise(_BINS)),
        f"{_BINS[-1]:,}+",
    ]
    return [(names[place], int(counts[place])) for place in range(first, last + 1)]


def _span(low: int, end: int) -> str:
    return f"{low:,}" if end - low == 1 else f"{low:,}–{end - 1:,}"


def _tenths(values: Vector) -> list[tuple[str, int]]:
    counts = np.histogram(values, np.linspace(0.0, 1.0, 11))[0]
    return [(f"{n / 10:.1f}–{(n + 1) / 10:.1f}", int(count)) for n, count in enumerate(counts)]


def _grades(values: Vector) -> list[tuple[str, int]]:
    if (values != np.floor(values)).any():
        return _tenths(values)
    return [(f"{n}", int(count)) for n, count in enumerate(np.bincount(values.astype(np.int64)))]


def _sure(weights: Vector) -> Table:
    return Table(
        "Documents whose grade is due to their own clicks by so much",
        ("weight at least", "documents", "share"),
        tuple(
            (f"{at:g}", int((weights >= at).sum()), f"{np.mean(weights >= at):.1%}") for at in _SURE
        ),
    )


def _queries(found: ClickJudgments, seen: Vector, sizes: NDArray[np.int64]) -> list[Block]:
    """Queries by the looks that the mean of their documents had."""
    counts = found.behaviour.counts
    of = counts.pair_query
    looks = np.bincount(of, found.chosen.fit.trials, len(sizes)) / sizes
    shown = np.bincount(of, seen, len(sizes))
    clicks = np.bincount(of, counts.by_pair(counts.clicked), len(sizes))
    order = np.argsort(-looks, kind="stable")

    def table(caption: str, chosen: NDArray[np.int64]) -> Table:
        rows = tuple(
            (
                _short(counts.queries[query].as_py()), int(counts.people[query]), int(sizes[query]),
                int(shown[query]), int(clicks[query]), round(float(looks[query]), 1),
            )
            for query in chosen.tolist()
        )  # fmt: skip
        headers = ("query", "people", "documents", "impressions", "clicks", "looks a document")
        return Table(caption, headers, rows)

    found_tables: list[Block] = [table("Queries with the most evidence", order[:_QUERIES])]
    least = order[_QUERIES:][::-1][:_QUERIES]
    if len(least):
        found_tables.append(table("Queries with the least evidence", least))
    return found_tables


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
