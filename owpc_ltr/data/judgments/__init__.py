"""Judgment lists: which documents are relevant to which query, read and written.

- nouns: Judgments, JudgedQuery; reading, writing: files of every format
- tables (CSV, TSV), trec (qrels, topics), ranklib: one format each
- lines: judgments as they stand in a file, checked and grouped by query
"""

from owpc_ltr.data.judgments.reading import read_judgments
from owpc_ltr.data.judgments.types import Duplicates, Format, JudgedQuery, Judgments
from owpc_ltr.data.judgments.writing import write_judgments, write_qrels

__all__ = [
    "Duplicates",
    "Format",
    "JudgedQuery",
    "Judgments",
    "read_judgments",
    "write_judgments",
    "write_qrels",
]
