"""Duplicate judgments settled: lines grouped by query, and what a written format lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.judgments.columns import Numbers, TypedColumn, encode
from owpc_ltr.data.judgments.lines import JudgmentLines
from owpc_ltr.data.judgments.types import JudgedQuery, Judgments
from owpc_ltr.data.judgments.weights import importance_of, read_importance, read_weights, weights_of
from owpc_ltr.data.options import Duplicates
from owpc_ltr.errors import BadInput, PluginError
from owpc_ltr.files.text import shown


def group_judgments(lines: JudgmentLines, duplicates: Duplicates = "refuse") -> Judgments:
    """The judgments by query, checked; a query's documents keep their order.

    Raises BadInput, naming the line, for grades, weights and ids that cannot be right, where a
    parameter or the importance of a query has two values, and where a document is judged twice
    unless `duplicates` says what to do: `mean` weighs the grades, and the weight is the mean of
    theirs; with `max` it is the largest of those of the largest grade.
    """
    if not len(lines.numbers):
        raise BadInput(f"cannot read {lines.path}: it has no judgment")
    notes = list(lines.notes)
    grades = lines.read_grades()
    if lines.negative == "zero":
        spam = int((grades < 0).sum())
        notes += [f"{spam} negative grades were read as 0"] if spam else []
        grades = grades.clip(min=0)
    lines.refuse_negative(grades)
    queries = _group(lines, grades, duplicates)
    kept = sum(len(query.document_ids) for query in queries)
    if kept < len(grades):
        notes.append(f"{len(grades) - kept} duplicates were merged by '{duplicates}'")
    return Judgments(queries, tuple(notes))


def _group(lines: JudgmentLines, grades: Vector, duplicates: Duplicates) -> list[JudgedQuery]:
    lines.check_ids()
    lines.check_params()
    codes, queries = encode(lines.query_ids)
    _refuse_two_values(lines, codes, queries)
    importance = read_importance(lines, codes, queries)
    rows, grades, weights = _settle_duplicates(lines, codes, grades, duplicates)
    order = rows[np.argsort(codes[rows], kind="stable")]
    ends = np.cumsum(np.bincount(codes[rows], minlength=len(queries)))
    begins = np.append(0, ends[:-1]).astype(np.int64)
    documents = lines.document_ids.take(pa.array(order)).to_pylist()
    labels: Labels = grades[order].astype(np.float32)
    sure = None if weights is None else weights[order].astype(np.float32)
    judges = None if lines.judged_by is None else lines.judged_by.take(pa.array(order)).to_pylist()
    firsts = pa.array(order[begins])
    params = {name: values.take(firsts).to_pylist() for name, values in lines.params.items()}
    return [
        JudgedQuery(
            query_id,
            {name: values[number] for name, values in params.items() if _said(values[number])},
            documents[begin:end],
            labels[begin:end],
            None if sure is None else sure[begin:end],
            importance[number],
            None if judges is None else judges[begin:end],
        )
        for number, (query_id, begin, end) in enumerate(
            zip(queries, begins.tolist(), ends.tolist(), strict=True)
        )
    ]


def _refuse_two_values(lines: JudgmentLines, queries: Numbers, names: list[str]) -> None:
    _, first = np.unique(queries, return_index=True)
    checked: list[object] = []
    for name, column in lines.params.items():
        if any(column is other for other in checked):
            continue
        checked.append(column)
        codes = column.codes if isinstance(column, TypedColumn) else encode(column)[0]
        other = np.flatnonzero(codes != codes[first][queries])
        if len(other):
            row, before = int(other[0]), int(first[queries[other[0]]])
            one, another = _told(column, row), _told(column, before)
            raise lines.bad(
                row,
                f"query {shown(names[queries[row]])} has {name} {one}, and {another} on "
                f"{lines.place} {lines.numbers[before]}: give it one; what differs by "
                "document is no column for a judgment list",
            )


def _said(value: Any) -> bool:
    """Whether a parameter has a value: 0, false and an empty list are some."""
    return value is not None and value != ""


def _told(column: Any, row: int) -> str:
    return shown(column.told(row) if isinstance(column, TypedColumn) else column[row].as_py())


def _settle_duplicates(
    lines: JudgmentLines, queries: Numbers, grades: Vector, duplicates: Duplicates
) -> tuple[Numbers, Vector, Vector | None]:
    """The rows to keep, in file order, and the grades and weights of all rows, settled."""
    weights = read_weights(lines)
    documents, names = encode(lines.document_ids)
    keys = queries * len(names) + documents
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1]) + 1
    if not len(again):
        return np.arange(len(keys)), grades, weights
    if duplicates == "refuse":
        worst = again[np.argmin(order[again])]
        row, before = int(order[worst]), int(order[worst - 1])
        one, other = lines.grade(before), lines.grade(row)
        how = f"as {other}, and as {one}" if grades[row] != grades[before] else f"as {other}, as"
        raise lines.bad(
            row,
            f"document {shown(names[documents[row]])} of query {shown(lines.query_id(row))} is "
            f"judged {how} on {lines.place} {lines.numbers[before]}: keep one of them, or choose "
            "what to do with duplicates: first, max or mean",
        )
    starts = np.setdiff1d(np.arange(len(order)), again, assume_unique=True)
    rows = order[starts]
    if duplicates == "max":
        grades, weights = _largest(grades, weights, order, starts)
    elif duplicates == "mean":
        grades, weights = _means(grades, weights, order, starts)
    return np.sort(rows), grades, weights


def _largest(
    grades: Vector, weights: Vector | None, order: Numbers, starts: Numbers
) -> tuple[Vector, Vector | None]:
    """The largest grade of each group, and the largest weight that it was given with."""
    settled, rows = grades.copy(), order[starts]
    best = np.maximum.reduceat(grades[order], starts)
    settled[rows] = best
    if weights is None:
        return settled, None
    is_best = grades[order] == np.repeat(best, _sizes(order, starts))
    sure = weights.copy()
    sure[rows] = np.maximum.reduceat(np.where(is_best, weights[order], 0.0), starts)
    return settled, sure


def _means(
    grades: Vector, weights: Vector | None, order: Numbers, starts: Numbers
) -> tuple[Vector, Vector | None]:
    """The mean grade of each group, weighted where any weight is above 0, and the mean weight."""
    settled, rows, sizes = grades.copy(), order[starts], _sizes(order, starts)
    settled[rows] = np.add.reduceat(grades[order], starts) / sizes
    if weights is None:
        return settled, None
    sums = np.add.reduceat(weights[order], starts)
    weighted = np.add.reduceat((weights * grades)[order], starts)
    settled[rows] = np.divide(weighted, sums, out=settled[rows], where=sums > 0)
    sure = weights.copy()
    sure[rows] = sums / sizes
    return settled, sure


def _sizes(order: Numbers, starts: Numbers) -> Numbers:
    return np.diff(np.append(starts, len(order)))


def what_is_lost(given: Judgments, kept: Judgments, name: str) -> list[str]:
    """A sentence on what the format `name` does not hold, if there is anything.

    Raises PluginError where documents or grades are others, which no format may do.
    """
    pairs = list(zip(given.queries, kept.queries, strict=False))
    if len(given.queries) != len(kept.queries) or not all(_same_grades(a, b) for a, b in pairs):
        raise PluginError(
            f"what judgment reader '{name}' wrote reads back as other judgments: report this to "
            "its author, and write tsv"
        )
    lost = [
        *(["the ids of queries"] if any(a.query_id != b.query_id for a, b in pairs) else []),
        *_params(pairs),
    ]
    if any((weights_of(a) != weights_of(b)).any() for a, b in pairs):
        lost.append("the weights of judgments")
    if any(importance_of(a) != importance_of(b) for a, b in pairs):
        lost.append("the importance of queries")
    if any(_judges(a) != _judges(b) for a, b in pairs):
        lost.append("who judged")
    return [f"the format {name} does not hold {', '.join(lost)}"] if lost else []


_Pairs = Sequence[tuple[JudgedQuery, JudgedQuery]]


def _same_grades(one: JudgedQuery, other: JudgedQuery) -> bool:
    return one.document_ids == other.document_ids and np.array_equal(one.grades, other.grades)


def _judges(query: JudgedQuery) -> list[str]:
    return query.judged_by or [""] * len(query.document_ids)


def _params(pairs: _Pairs) -> list[str]:
    """Texts and parameters that are gone, or others."""
    names = dict.fromkeys(
        name
        for a, b in pairs
        for name in a.params
        if a.params[name] != b.params.get(name) and a.params[name] != ""
    )
    return [f"the parameter {shown(name)} of queries" for name in names]
