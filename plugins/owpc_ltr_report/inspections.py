"""The data: sizes, grades, and the findings of the data checks."""

from __future__ import annotations

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.inspection.result import Inspection
from owpc_ltr_report.charts import Chart, Table, drawing
from owpc_ltr_report.comparison import query_selection, short_name
from owpc_ltr_report.page import PageVerdict, Section, told_verdict

_GRADES_IN_CHART = 12


def data_section(
    data: RankingDataset | PartitionedDataset, measured: RankerComparison | None
) -> Section:
    """The sizes of the data, and the number of documents by grade."""
    charts, grades, sizes = [], None, None
    if isinstance(data, RankingDataset):
        sizes = np.percentile(np.diff(data.offsets), [0, 50, 100]).tolist()
        n, counts, title = data.n_documents, data.label_counts, "Documents by grade"
        rows = [(f"grade {g:g}", count, f"{count / n:.1%}") for g, count in counts.items()]
        grades = rows[: 10 * _GRADES_IN_CHART]
        if len(rows) <= _GRADES_IN_CHART:
            share = sum(count for grade, count in counts.items() if grade > 0) / max(n, 1)
            sentence = f"{share:.1%} of the judged documents are relevant (graded above 0)."
            spec = drawing("bars", [row[:2] for row in rows], title="documents", digits=",")
            table = Table(title, ("grade", "documents", "share"), grades)
            charts = [Chart("grades", title, spec, sentence, table)]
    measured_on = None if measured is None else query_selection(measured)
    words = {"data": data, "sizes": sizes, "grades": grades, "measured_on": measured_on}
    return Section("data", charts, words)


def inspection_section(found: Inspection) -> Section:
    """The findings, the worst first; the learning curve and the test with shuffled labels."""
    charts, curve = [], found.learning_curve
    findings = [
        (one.severity, (one.message, one.advice) if one.advice else one.message)
        for one in found.findings
    ]
    if curve is not None and len(curve.points) > 1:
        points = [(one.queries, one.mean, one.low, one.high) for one in curve.points]
        caption = f"{curve.metric} on {curve.held_out:,} held-out queries"
        table = Table(caption, ("training queries", "mean", "95 % low", "95 % high"), points)
        spec = drawing("learning_curve", points, x="queries to train on", y=curve.metric)
        title = "Are there enough judgments?"
        charts = [Chart("learning-curve", title, spec, curve.told, table)]
    words = {"findings": findings, "canary": found.canary, "n_warnings": len(found.warnings)}
    return Section("inspection", charts, words)


def inspection_verdict(found: Inspection) -> PageVerdict:
    """The verdict of a page of an inspection alone."""
    names = ", ".join(map(short_name, found.data.names))
    return told_verdict("inspection", found=found, names=names)
