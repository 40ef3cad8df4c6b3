"""Parameters of jobs that read datasets and judgments, each described once, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import Help, Reads

DEFAULT_BUCKETS = 20
"""Buckets of a folder of parts: shares of a split that are multiples of 1/20 are whole buckets."""
VALIDATION_SHARE = TEST_SHARE = 0.2
"""Shares of the queries that choose the settings, and that are kept for `evaluate`."""
RUN_TAG = "owpc-ltr"
"""The name of a system in TREC runs."""
DEFAULT_FORMAT = "tsv"
"""The format that judgments are written in."""

Duplicates = Literal["refuse", "first", "max", "mean"]
"""How a document that is judged twice for one query is resolved."""

DuplicatePolicy = Annotated[
    Duplicates, Help("What to do with a document that is judged twice for a query.", panel="Data")
]
JudgmentFormat = Annotated[
    str,
    Help(
        "The format to write: tsv, csv, jsonl, parquet, qrels, srw, quepid.",
        flag="--as",
        metavar="FORMAT",
    ),
]
SkipUnjudged = Annotated[
    bool, Help("Leave out lines without a grade, and say how many.", panel="Data")
]
ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "query_id": ("query_id", "qid"),
        "query": ("query", "keywords", "query_text"),
        "doc_id": ("doc_id", "document_id", "docid"),
        "grade": ("grade", "label", "relevance", "rating"),
        "weight": ("weight",),
        "query_weight": ("query_weight",),
        "judged_by": ("judged_by",),
    }
)
"""The names that a column of a judgment list may have, in any case of letters."""


def parse_columns(text: str, roles: Mapping[str, tuple[str, ...]] = ROLES) -> dict[str, str]:
    """The column of each role, from `query=q,doc_id=sku`; its name may contain commas.

    Raises UsageError.

    >>> parse_columns("query=q, document_id=sku, grade=ann,bob")
    {'query': 'q', 'doc_id': 'sku', 'grade': 'ann,bob'}
    """
    columns: dict[str, str] = {}
    role = None
    for part in text.split(",") if text.strip() else ():
        name, equals, column = (piece.strip() for piece in part.partition("="))
        if role is not None and name and not equals:
            columns[role] += f",{part.rstrip()}"
            continue
        role = _role_of(name, roles)
        if not (equals and column) or role is None:
            raise UsageError(
                f"cannot read the column '{part.strip()}': write ROLE=COLUMN, where the role is "
                f"{', '.join(roles)}"
            )
        if role in columns:
            raise UsageError(f"two columns are named for the {role}: name one")
        columns[role] = column
    return columns


def parse_labels(text: str) -> dict[str, float]:
    """The grade of each label, from `E=3,S=2,C=1,I=0`. Raises UsageError.

    >>> parse_labels("Exact=2, Irrelevant=0")
    {'Exact': 2.0, 'Irrelevant': 0.0}
    """
    labels = {}
    for part in text.split(","):
        label, _, grade = (piece.strip() for piece in part.rpartition("="))
        try:
            labels[label] = float(grade)
        except ValueError as error:
            raise UsageError(
                f"cannot read the label '{part.strip()}': write LABEL=GRADE, as E=3,S=2,C=1,I=0"
            ) from error
    return labels


def checked_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of a judgment list by their roles. Raises UsageError for an unknown role."""
    by_role = {}
    for name, column in columns.items():
        role = _role_of(name, ROLES)
        if role is None:
            raise UsageError(f"`columns` names the unknown role '{name}': use {', '.join(ROLES)}")
        by_role[role] = column
    return by_role


def _role_of(name: str, roles: Mapping[str, tuple[str, ...]]) -> str | None:
    """The role that is so called, or whose columns may be."""
    if name in roles:
        return name
    return next((role for role, names in roles.items() if name in names), None)


def judgment_list(what: str = "this is a judgment list, which has no features:") -> str:
    """The error for judgments in place of a dataset, with the command that makes one of them."""
    return f"{what} log its features first: `cluster.log_features(judgments=…, out=…)`"


def row_number(row: int) -> str:
    """A row by its index, counted from 0, as files number it and as arrays do.

    >>> row_number(2)
    '3 (index 2)'
    """
    return f"{row + 1} (index {row})"


Columns = Annotated[
    "Mapping[str, str] | None",
    Help(
        "The columns of the judgments by role, where their names differ: "
        '`columns={"query": "q", "doc_id": "sku", "grade": "rating"}`; a column for each judge: '
        '`columns={"grade": "ann,bob"}`.',
        cli=str,
        parse=parse_columns,
        metavar="ROLE=COLUMN,…",
        panel="Data",
        project="columns",
    ),
]
Labels = Annotated[
    "Mapping[str, float] | None",
    Help(
        'The grades of labels that are words: `labels={"Exact": 2, "Irrelevant": 0}`.',
        cli=str,
        parse=parse_labels,
        metavar="LABEL=GRADE,…",
        panel="Data",
    ),
]
Topics = Annotated[
    "Mapping[str, str] | Path | str | None",
    Reads("The texts of the queries, where qrels do not have them.", cli=Path, panel="Data"),
]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


DEFAULT_MEMORY = 512 << 20
"""Bytes of parts that stay in memory by default."""


def memory_from(size: int | str | None) -> int:
    """The bytes that 512M is; without a word the usual ones. Raises UsageError.

    >>> memory_from("1.5G"), memory_from("4096"), memory_from(4096)
    (1610612736, 4096, 4096)
    """
    if size is None:
        return DEFAULT_MEMORY
    text = str(size)
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    try:
        count = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        count = -1.0
    if not 0 <= count < 2**60:
        raise UsageError(f"'{text[:40]}' is not an amount of memory: write it as 512M or 4G")
    return int(count)


MaxFeatureNumber = Annotated[
    "int | None",
    Help(
        "The largest feature number of LETOR text; default: 10000, as larger ones may be ids.",
        min=1,
        panel="Advanced",
    ),
]
Memory = Annotated[
    "int | str | None",
    Help(
        "Memory for a folder of parts, as 4G; default: 512M.",
        cli=str,
        parse=memory_from,
        metavar="SIZE",
        panel="Advanced",
    ),
]
