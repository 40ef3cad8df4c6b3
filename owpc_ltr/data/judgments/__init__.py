"""Judgment lists: which documents are relevant to which query, and what their formats share.

The formats are plugins, which `owpc_ltr.api.judgments.read_judgments` chooses from.

- types: Judgments, JudgedQuery; lines: judgments as they stand in a file; grouping: by query
- head: what a file begins with, by which its format is told
- roles: what a named column says; weights: how much judgments and queries count
- judges: who judged, people or clicks
- tables: delimited text; topics: the queries' texts
- columns: one value a judgment, in memory; typed: those that are no text; writing: TSV and qrels
"""

from owpc_ltr.data.judgments.columns import TypedColumn
from owpc_ltr.data.judgments.lines import JudgmentLines
from owpc_ltr.data.judgments.types import Duplicates, JudgedQuery, Judgments
from owpc_ltr.data.judgments.writing import write_judgments, write_qrels

__all__ = [
    "Duplicates",
    "JudgedQuery",
    "JudgmentLines",
    "Judgments",
    "TypedColumn",
    "write_judgments",
    "write_qrels",
]
