"""The data: sizes, grades, and the findings of the data checks."""

from __future__ import annotations

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.inspection.result import Inspection, LearningCurve
from owpc_ltr_report.blocks import (
    NEUTRAL,
    Block,
    Chart,
    Facts,
    PageVerdict,
    Section,
    Table,
    Text,
    amount,
    interval,
)
from owpc_ltr_report.charts import bars, learning_curve
from owpc_ltr_report.comparison import short_name

_GRADES_IN_CHART = 12


def data_section(data: RankingDataset | PartitionedDataset, measured_on: str | None) -> Section:
    """The sizes of the data, and the number of documents by grade."""
    rows = [
        ("queries", f"{data.n_queries:,}"),
        ("documents", f"{data.n_documents:,}"),
        ("features", f"{data.n_features:,}"),
    ]
    blocks: list[Block] = []
    if isinstance(data, RankingDataset):
        low, middle, high = np.percentile(np.diff(data.offsets), [0, 50, 100])
        rows.append(("documents per query", f"{low:.0f} to {high:.0f}, median {middle:.0f}"))
        rows.append(("missing values", f"{data.missing_share:.2%}"))
        blocks.append(_grades(data))
        blocks += [Text(note) for note in data.notes]
    title, lead = "What are the data?", "Nothing on this page is measured on these data."
    if measured_on is not None:
        title, lead = "What was it measured on?", f"The figures of this page are of {measured_on}."
    return Section("data", "Data", title, lead, (Facts(tuple(rows)), *blocks))


def _grades(data: RankingDataset) -> Chart | Table:
    grades = data.label_counts.items()
    rows = tuple(
        (f"grade {grade:g}", count, f"{count / data.n_documents:.1%}") for grade, count in grades
    )
    title = "Documents by grade"
    table = Table(title, ("grade", "documents", "share"), rows[: 10 * _GRADES_IN_CHART])
    if len(grades) > _GRADES_IN_CHART:
        return table
    relevant = sum(count for grade, count in grades if grade > 0) / max(data.n_documents, 1)
    return Chart(
        "grades",
        title,
        bars([(name, float(count)) for name, count, _ in rows], "documents", digits=","),
        f"{relevant:.1%} of the judged documents are relevant (graded above 0).",
        table,
    )


def inspection_section(found: Inspection) -> Section:
    """The findings, the worst first; the learning curve and the test with shuffled labels."""
    blocks: list[Block] = [Text("No check found anything.", "good")]
    if found.findings:
        rows = tuple(
            (one.severity, (one.message, one.advice) if one.advice else one.message)
            for one in found.findings
        )
        headers = "severity", "finding, and what to do"
        blocks = [Table("Findings, the worst first", headers, rows)]
    if found.canary is not None:
        canary = found.canary
        gains = (
            (f"gain of {canary.metric} with true labels", canary.true),
            ("gain with shuffled labels (should be about 0)", canary.shuffled),
        )
        blocks.append(
            Facts(
                tuple(
                    (name, f"{amount(one.mean)} ({interval(one.low, one.high)})")
                    for name, one in gains
                )
            )
        )
    if found.learning_curve is not None and len(found.learning_curve.points) > 1:
        blocks.append(_learning_curve(found.learning_curve))
    count = len(found.warnings)
    lead = "No finding that affects figures or models."
    if count:
        lead = f"{count} warning{'s' if count != 1 else ''} that may affect figures or models."
    title = "Can the data be trusted?"
    return Section("inspection", "Data checks", title, lead, tuple(blocks))


def inspection_verdict(found: Inspection) -> PageVerdict:
    """The verdict of a page of an inspection alone."""
    data, names = found.data, ", ".join(map(short_name, found.data.names))
    sizes = f"{data.queries:,} queries and {data.documents:,} documents"
    if not found.warnings:
        sentence = f"The {sizes} of {names} have no finding that affects figures or models."
        return PageVerdict(NEUTRAL, sentence, heading="No warnings")
    more = f" {len(found.warnings) - 1:,} more are below." if len(found.warnings) > 1 else ""
    sentence = f"In the {sizes} of {names}: {found.warnings[0].line}.{more}"
    return PageVerdict("worse", sentence, heading="Fix the data first")


def _learning_curve(curve: LearningCurve) -> Chart:
    rows = tuple((one.queries, one.mean, one.low, one.high) for one in curve.points)
    return Chart(
        "learning-curve",
        "Are there enough judgments?",
        learning_curve(rows, "queries to train on", curve.metric),
        curve.told,
        Table(
            f"{curve.metric} on {curve.held_out:,} held-out queries",
            ("training queries", "mean", "95 % low", "95 % high"),
            rows,
        ),
    )
