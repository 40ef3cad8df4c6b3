"""Judgment lists, and what their formats share.

The formats are plugins, which `owpc_ltr.host.judgment_lists.read_judgments` chooses from. A list
has grades; the dataset that is logged for it has labels.

- types: Judgments, JudgedQuery, who judged; lines: judgments as they stand in a file; grouping: by
  query; weights: how much judgments and queries count
- columns: one value a judgment; tables: named columns, delimited text; writing: TSV and qrels
- topics: the queries' texts; pools: queries to judge, and grading sheets; workbench: its documents
"""

from owpc_ltr.data.judgments.columns import TypedColumn
from owpc_ltr.data.judgments.lines import JudgmentLines
from owpc_ltr.data.judgments.types import JudgedQuery, Judgments
from owpc_ltr.data.judgments.writing import write_judgments, write_qrels

__all__ = [
    "JudgedQuery",
    "JudgmentLines",
    "Judgments",
    "TypedColumn",
    "write_judgments",
    "write_qrels",
]
