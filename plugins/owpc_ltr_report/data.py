"""The data: sizes, grades, and the findings of the data checks."""

from __future__ import annotations

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.inspection.result import Inspection
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
    facts = [
        ("queries", f"{data.n_queries:,}"),
        ("documents", f"{data.n_documents:,}"),
        ("features", f"{data.n_features:,}"),
    ]
    blocks: list[Block] = [Facts(facts)]
    if isinstance(data, RankingDataset):
        low, middle, high = np.percentile(np.diff(data.offsets), [0, 50, 100])
        facts.append(("documents per query", f"{low:.0f} to {high:.0f}, median {middle:.0f}"))
        facts.append(("missing values", f"{data.missing_share:.2%}"))
        blocks += [_grades(data), *map(Text, data.notes)]
    title, lead = "What are the data?", "Nothing on this page is measured on these data."
    if measured_on is not None:
        title, lead = "What was it measured on?", f"The figures of this page are of {measured_on}."
    return Section("data", "Data", title, lead, blocks)


def _grades(data: RankingDataset) -> Chart | Table:
    counts, title = data.label_counts, "Documents by grade"
    rows = [(f"grade {g:g}", n, f"{n / data.n_documents:.1%}") for g, n in counts.items()]
    table = Table(title, ("grade", "documents", "share"), rows[: 10 * _GRADES_IN_CHART])
    if len(rows) > _GRADES_IN_CHART:
        return table
    relevant = sum(count for grade, count in counts.items() if grade > 0)
    share = relevant / max(data.n_documents, 1)
    sentence = f"{share:.1%} of the judged documents are relevant (graded above 0)."
    spec = bars([(name, float(count)) for name, count, _ in rows], "documents", digits=",")
    return Chart("grades", title, spec, sentence, table)


def inspection_section(found: Inspection) -> Section:
    """The findings, the worst first; the learning curve and the test with shuffled labels."""
    blocks: list[Block] = [Text("No check found anything.", "good")]
    if found.findings:
        rows = [
            (one.severity, (one.message, one.advice) if one.advice else one.message)
            for one in found.findings
        ]
        blocks = [Table("Findings, the worst first", ("severity", "finding, and what to do"), rows)]
    if found.canary is not None:
        canary = found.canary
        gains = {
            f"gain of {canary.metric} with true labels": canary.true,
            "gain with shuffled labels (should be about 0)": canary.shuffled,
        }
        facts = [
            (name, f"{amount(one.mean)} ({interval(one.low, one.high)})")
            for name, one in gains.items()
        ]
        blocks.append(Facts(facts))
    curve = found.learning_curve
    if curve is not None and len(curve.points) > 1:
        points = [(one.queries, one.mean, one.low, one.high) for one in curve.points]
        caption = f"{curve.metric} on {curve.held_out:,} held-out queries"
        table = Table(caption, ("training queries", "mean", "95 % low", "95 % high"), points)
        spec = learning_curve(points, "queries to train on", curve.metric)
        title = "Are there enough judgments?"
        blocks.append(Chart("learning-curve", title, spec, curve.told, table))
    lead, count = "No finding that affects figures or models.", len(found.warnings)
    if count:
        lead = f"{count} warning{'s' if count != 1 else ''} that may affect figures or models."
    return Section("inspection", "Data checks", "Can the data be trusted?", lead, blocks)


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
