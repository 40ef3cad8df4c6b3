"""Judgments as they stand in a file, one a line, and their checks, the same for all formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.judgments.types import Duplicates, JudgedQuery
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_UNFIT = r"^$|^[ \t]|[ \t]$|[\x00-\x08\x0a-\x1f]"
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class JudgmentLines:
    """One entry a judgment, in the order of the file; `numbers` are line numbers, from 1.

    `params` holds, by name, the columns that say something of the query; '' is no value.
    """

    path: Path
    numbers: Sequence[int]
    query_ids: Sequence[str]
    document_ids: Sequence[str]
    grades: Sequence[str]
    params: dict[str, Sequence[str]]

    def bad(self, row: int, what: str) -> BadInput:
        """The error that names the line of a judgment."""
        return BadInput(f"cannot read {self.path}, line {self.numbers[row]}: {what}")

    def check_ids(self) -> None:
        """Refuse ids that are empty, or that would not be found as they stand."""
        for what, ids in (("query id", self.query_ids), ("document id", self.document_ids)):
            row = pc.index(pc.match_substring_regex(pa.array(ids, pa.string()), _UNFIT), True)
            if row.as_py() >= 0:
                value = ids[row.as_py()]
                why = "begins or ends with a blank, or has a control character in it"
                raise self.bad(
                    row.as_py(),
                    f"the {what} is empty" if not value else f"the {what} {shown(value)} {why}",
                )

    def read_grades(self) -> Vector:
        """The grades as numbers; negative ones are the caller's to judge."""
        column = pa.array(self.grades, pa.string())
        row = pc.index(pc.match_substring_regex(column, _NUMBER), False).as_py()
        if row < 0:
            grades = np.array([float(grade) for grade in self.grades])
            too_large = np.flatnonzero(np.abs(grades) > np.finfo(np.float32).max)
            if not len(too_large):
                return grades
            row = int(too_large[0])
        raise self.bad(
            row, f"the grade {shown(self.grades[row])} is not a number that fits: write 0, 1, 2.5 …"
        )

    def refuse_negative(self, grades: Vector) -> None:
        """Refuse grades below 0."""
        if len(grades) and grades.min() < 0:
            row = int(np.flatnonzero(grades < 0)[0])
            raise self.bad(
                row,
                f"the grade {shown(self.grades[row])} is negative: 0 is irrelevant; leave unjudged "
                "documents out, or shift all grades",
            )


def group(lines: JudgmentLines, grades: Vector, duplicates: Duplicates) -> list[JudgedQuery]:
    """The judgments by query; a query's documents keep their order.

    Raises BadInput where a parameter of a query has two values, and where a document is judged
    twice unless `duplicates` says what to do.
    """
    lines.check_ids()
    codes, queries = _encode(lines.query_ids)
    _refuse_two_values(lines, codes, queries)
    rows, grades = _settle_duplicates(lines, codes, grades, duplicates)
    order = rows[np.argsort(codes[rows], kind="stable")]
    ends = np.cumsum(np.bincount(codes[rows], minlength=len(queries)))
    documents = pa.array(lines.document_ids, pa.string()).take(pa.array(order)).to_pylist()
    labels: Labels = grades[order].astype(np.float32)
    judged = []
    begin = 0
    for query_id, end in zip(queries, ends.tolist(), strict=True):
        first = int(order[begin])
        params = {name: values[first] for name, values in lines.params.items() if values[first]}
        judged.append(JudgedQuery(query_id, params, documents[begin:end], labels[begin:end]))
        begin = end
    return judged


def _encode(values: Sequence[str]) -> tuple[Numbers, list[str]]:
    """A number for each value, and the values in the order of their first appearance."""
    encoded = pa.array(values, pa.string()).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _refuse_two_values(lines: JudgmentLines, queries: Numbers, names: list[str]) -> None:
    _, first = np.unique(queries, return_index=True)
    for name, values in lines.params.items():
        codes, _ = _encode(values)
        other = np.flatnonzero(codes != codes[first][queries])
        if len(other):
            row, before = int(other[0]), int(first[queries[other[0]]])
            raise lines.bad(
                row,
                f"query {shown(names[queries[row]])} has {name} {shown(values[row])}, and "
                f"{shown(values[before])} on line {lines.numbers[before]}: give it one; what "
                "differs by document is no column for a judgment list",
            )


def _settle_duplicates(
    lines: JudgmentLines, queries: Numbers, grades: Vector, duplicates: Duplicates
) -> tuple[Numbers, Vector]:
    """The rows to keep, in file order, and the grades of all rows, settled."""
    documents, names = _encode(lines.document_ids)
    keys = queries * len(names) + documents
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1]) + 1
    if not len(again):
        return np.arange(len(keys)), grades
    if duplicates == "refuse":
        worst = again[np.argmin(order[again])]
        row, before = int(order[worst]), int(order[worst - 1])
        one, other = lines.grades[before], lines.grades[row]
        how = f"as {other}, and as {one}" if grades[row] != grades[before] else f"as {other}, as"
        raise lines.bad(
            row,
            f"document {shown(lines.document_ids[row])} of query {shown(lines.query_ids[row])} is "
            f"judged {how} on line {lines.numbers[before]}: keep one of them, or choose what to do "
            "with duplicates: first, max or mean",
        )
    starts = np.setdiff1d(np.arange(len(order)), again, assume_unique=True)
    settled = grades.copy()
    if duplicates == "max":
        settled[order[starts]] = np.maximum.reduceat(grades[order], starts)
    elif duplicates == "mean":
        sizes = np.diff(np.append(starts, len(order)))
        settled[order[starts]] = np.add.reduceat(grades[order], starts) / sizes
    return np.sort(order[starts]), settled
