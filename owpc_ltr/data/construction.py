"""Datasets made from arrays, or from one data frame: rows are brought together by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Matrix, is_frame
from owpc_ltr.data.conversion import (
    column_of,
    feature_matrix,
    numbers_of,
    numeric_column,
    table_of,
    text_ids,
    vector,
)
from owpc_ltr.data.dataset import RankingDataset, check_not_negative
from owpc_ltr.errors import BadInput, UsageError, give_warnings
from owpc_ltr.files.input import shown
from owpc_ltr.signatures import public, row_number


@public
def make_dataset(
    features: Any,
    labels: Any,
    query_ids: Any,
    feature_names: Sequence[str] | None = None,
    **parts: Any,
) -> RankingDataset:
    """A dataset from one row a document: features, labels, and the query id of each row.

    Arrays, lists or series of any kind of number; features may be a data frame, whose columns
    then give the names. Else they are "1", "2", … where none are given. Query ids are text or
    whole numbers. Rows of a query that are not next to each other are brought together, with an
    OwpcLtrWarning; then `parts` a query stand in the order of the queries' first rows. Raises
    BadInput naming the argument, the row and the value that cannot be used.

    >>> data = make_dataset([[1.0], [2.0], [3.0]], [0, 1, 0], ["a", "a", "b"])
    >>> data.n_queries, data.offsets.tolist()
    (2, [0, 2, 3])
    """
    matrix, own_names = _features(features)
    ids = text_ids(query_ids, "query ids")
    _check_rows("query_ids", len(ids), len(matrix), query_ids)
    grades = vector(labels, "labels", np.float32)
    if len(grades) == len(matrix):
        check_not_negative("labels", grades)
    names = own_names if feature_names is None else tuple(map(str, feature_names))
    return _grouped(matrix, grades, ids, names, _converted(parts))


@public
def from_frame(
    frame: Any,
    query: str,
    label: str,
    document: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
) -> RankingDataset:
    """A dataset from a data frame of pandas, polars, Arrow or DuckDB, by column names.

    `query`, `label`, `document` and `weight` name the columns of query ids, labels, document ids
    and document weights. All others are features, in their order, unless `features` names them.
    Missing features are NaN. Raises BadInput where an id or a label is missing (naming the row,
    from 0), where a feature is no number (naming the column), or where a column is not there.

    >>> table = pa.table({"query_id": ["a", "a"], "grade": [1, 0], "bm25": [2.5, None]})
    >>> from_frame(table, query="query_id", label="grade").feature_names
    ('bm25',)
    """
    table = table_of(frame)
    roles = {"query": query, "label": label, "document": document, "weight": weight}
    names = _columns_of_features(table, roles, features)
    parts: dict[str, Any] = {"feature_names": names}
    if document is not None:
        parts["doc_ids"] = _column_of_ids(table, document, "document ids")
    if weight is not None:
        parts["document_weights"] = _column_of_numbers(table, weight, "weight")
    ids, labels = (
        _column_of_ids(table, query, "query ids"),
        _column_of_numbers(table, label, "label"),
    )
    instead = (
        f"leave it out with features=[…], as in features={_could_be_features(table, names)[:3]}"
    )
    return make_dataset(numbers_of(table, names, np.float32, instead), labels, ids, **parts)


def _grouped(
    matrix: Matrix,
    labels: Labels,
    ids: pa.StringArray,
    names: tuple[str, ...],
    parts: dict[str, Any],
) -> RankingDataset:
    """The rows by query, brought together where they are not."""
    groups = group_rows(ids)
    if groups.order is not None:
        note = (
            f"the rows of {groups.scattered} of {len(groups.query_ids)} queries did not stand "
            "together, and were brought together"
        )
        give_warnings([note])
        parts["notes"] = (*parts.get("notes", ()), note)
        _check_rows("labels", len(labels), len(matrix))
        for name in ("doc_ids", "document_weights", "comments"):
            if parts.get(name) is not None:
                _check_rows(name, len(parts[name]), len(matrix))
                parts[name] = groups.arranged(parts[name])
        if parts.get("document_fields"):
            fields = parts["document_fields"].items()
            parts["document_fields"] = {name: groups.arranged(part) for name, part in fields}
    return RankingDataset(
        features=groups.arranged(matrix),
        labels=groups.arranged(labels),
        offsets=groups.offsets,
        query_ids=groups.query_ids,
        feature_names=names,
        **parts,
    )


def _features(values: Any) -> tuple[Matrix, tuple[str, ...]]:
    """The matrix, and the names of its columns."""
    if is_frame(values):
        table = table_of(values)
        names = tuple(table.column_names)
        instead = "leave it out of the features, or turn it into numbers"
        return numbers_of(table, names, np.float32, instead), names
    matrix = feature_matrix(values)
    return matrix, tuple(str(column + 1) for column in range(matrix.shape[1]))


def _converted(parts: dict[str, Any]) -> dict[str, Any]:
    """Ids and weights of any kind as the kinds that a dataset holds."""
    converted = dict(parts)
    if parts.get("doc_ids") is not None:
        converted["doc_ids"] = text_ids(parts["doc_ids"], "document ids")
    for name, kind in (("document_weights", np.float32), ("query_weights", np.float64)):
        if parts.get(name) is not None:
            converted[name] = vector(parts[name], name, kind)
    return converted


def _check_rows(name: str, count: int, rows: int, given: Any = None) -> None:
    """Refuse another number of entries than rows; sizes of groups are known by their sum."""
    if count == rows:
        return
    hint = ""
    if given is not None and np.asarray(given).dtype.kind in "iu" and np.sum(given) == rows:
        hint = ": sizes of groups are no ids; give np.repeat(np.arange(len(sizes)), sizes)"
    raise BadInput(f"{name} has {count} entries where {rows} rows need one each{hint}")


@dataclass(frozen=True)
class RowGroups:
    """The queries in the order of their first rows; `order` are their rows, None as they stand.

    `scattered` is the number of queries whose rows did not stand together.
    """

    query_ids: pa.StringArray
    offsets: NDArray[np.int64]
    order: NDArray[np.int64] | None = None
    scattered: int = 0

    def arranged(self, part: Any) -> Any:
        """One entry a row, in the order of the groups."""
        if self.order is None or part is None:
            return part
        return part[self.order] if isinstance(part, np.ndarray) else part.take(pa.array(self.order))


def group_rows(ids: pa.StringArray) -> RowGroups:
    """The rows of each query id; the rows of a query keep their order."""
    runs = pc.run_end_encode(ids, run_end_type=pa.int64())
    pieces = runs.values.dictionary_encode()
    if len(pieces.dictionary) == len(pieces):
        ends = runs.run_ends.to_numpy()
        return RowGroups(runs.values, np.concatenate(([0], ends)).astype(np.int64))
    rows = ids.dictionary_encode()
    codes = rows.indices.to_numpy()
    sizes = np.bincount(codes)
    scattered = int((np.bincount(pieces.indices.to_numpy()) > 1).sum())
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return RowGroups(rows.dictionary, offsets, np.argsort(codes, kind="stable"), scattered)


def _columns_of_features(
    table: pa.Table, roles: dict[str, str | None], features: Sequence[str] | None
) -> tuple[str, ...]:
    taken = {name: role for role, name in roles.items() if name is not None}
    if isinstance(features, str):
        raise UsageError(f"features is one text, {shown(features)}: give a list of column names")
    if features is None:
        names = tuple(name for name in table.column_names if name not in taken)
    else:
        names = tuple(features)
        both = next((name for name in names if name in taken), None)
        if both is not None:
            raise UsageError(f"the column {shown(both)} is {taken[both]} and feature: name one")
    if not names:
        raise BadInput(
            f"the data frame has no feature: all its columns are {', '.join(map(shown, taken))}"
        )
    return names


def _column_of_ids(table: pa.Table, name: str, what: str) -> pa.ChunkedArray:
    column = column_of(table, name, what)
    _refuse_nulls(column, name)
    return column


def _column_of_numbers(table: pa.Table, name: str, what: str) -> Any:
    column = column_of(table, name, f"the {what}")
    _refuse_nulls(column, name)
    return numeric_column(column, name, f"give a {what} column of numbers")


def _refuse_nulls(column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        row = row_number(pc.index(pc.is_null(column), True).as_py())
        raise BadInput(
            f"the column {shown(name)} has no value in row {row} ({column.null_count} are "
            "missing): fill it, or leave the row out"
        )


def _could_be_features(table: pa.Table, names: Sequence[str]) -> list[str]:
    """The columns that could be features."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name in names and any(kind(column.type) for kind in kinds)
    ]
