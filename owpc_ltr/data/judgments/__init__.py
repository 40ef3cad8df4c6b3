"""Judgment lists, and what their formats share.

The formats are plugins, which `owpc_ltr.host.judgment_lists.read_judgments` chooses from. A list
has grades; the dataset that is logged for it has labels.

- lines: judgments as they stand in a file, and their columns; grouping: Judgments, JudgedQuery, who
  judged, lines grouped by query, with weights
- tables: delimited text with a header, and qrels; pools: queries to judge, and grading sheets;
  workbench: its documents
"""

from owpc_ltr.data.judgments.grouping import JudgedQuery, Judgments
from owpc_ltr.data.judgments.lines import JudgmentLines, TypedColumn
from owpc_ltr.data.judgments.tables import write_judgments

__all__ = [
    "JudgedQuery",
    "JudgmentLines",
    "Judgments",
    "TypedColumn",
    "write_judgments",
]
