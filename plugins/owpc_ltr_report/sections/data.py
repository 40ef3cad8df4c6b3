"""The data: queries, documents and grades that the figures of the page are of."""

from __future__ import annotations

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr_report.blocks import Block, Chart, Facts, Section, Table, Text
from owpc_ltr_report.charts.bars import bars

_GRADES = 12


def data_section(data: RankingDataset | PartitionedDataset, measured_on: str | None) -> Section:
    """The sizes of the data, and how many documents have which grade."""
    rows = [
        ("queries", f"{data.n_queries:,}"),
        ("documents", f"{data.n_documents:,}"),
        ("features", f"{data.n_features:,}"),
    ]
    blocks: list[Block] = []
    if isinstance(data, RankingDataset):
        sizes = np.diff(data.offsets)
        low, middle, high = np.percentile(sizes, [0, 50, 100])
        rows.append(("documents a query", f"{low:.0f} to {high:.0f}, {middle:.0f} in the middle"))
        rows.append(("missing values", f"{data.missing_share:.2%}"))
        blocks.append(_grades(data))
        blocks += [Text(note) for note in data.notes]
    title, lead = (
        "What are the data?",
        "Nothing is measured on this page: these data are given.",
    )
    if measured_on is not None:
        title, lead = "What was it measured on?", f"The figures of this page are of {measured_on}."
    return Section("data", "Data", title, lead, (Facts(tuple(rows)), *blocks))


def _grades(data: RankingDataset) -> Chart | Table:
    grades = data.label_counts.items()
    rows = tuple(
        (f"grade {grade:g}", count, f"{count / data.n_documents:.1%}") for grade, count in grades
    )
    table = Table("Documents by grade", ("grade", "documents", "share"), rows[: 10 * _GRADES])
    if len(grades) > _GRADES:
        return table
    relevant = sum(count for grade, count in grades if grade > 0) / max(data.n_documents, 1)
    return Chart(
        "grades",
        "Documents by grade",
        bars([(name, float(count)) for name, count, _ in rows], "documents", digits=","),
        f"{relevant:.1%} of the judged documents are relevant (graded above 0).",
        table,
    )
