"""A dataset from one data frame: which columns are the query, the label and the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.frames import column_of, numbers_of, numeric_column, table_of
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.text import shown


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
    from 1), where a feature is no number (naming the column), or where a column is not there.

    >>> table = pa.table({"query_id": ["a", "a"], "grade": [1, 0], "bm25": [2.5, None]})
    >>> from_frame(table, query="query_id", label="grade").feature_names
    ('bm25',)
    """
    table = table_of(frame)
    roles = {"query": query, "label": label, "document": document, "weight": weight}
    names = _feature_names(table, roles, features)
    parts: dict[str, Any] = {"feature_names": names}
    if document is not None:
        parts["document_ids"] = _ids(table, document, "document ids")
    if weight is not None:
        parts["document_weights"] = _numbers(table, weight, "weight")
    ids, labels = _ids(table, query, "query ids"), _numbers(table, label, "label")
    instead = f"leave it out with features=[…], as in features={_numeric(table, names)[:3]}"
    return make_dataset(numbers_of(table, names, np.float32, instead), labels, ids, **parts)


def _feature_names(
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


def _ids(table: pa.Table, name: str, what: str) -> pa.ChunkedArray:
    column = column_of(table, name, what)
    _refuse_nulls(column, name)
    return column


def _numbers(table: pa.Table, name: str, what: str) -> Any:
    column = column_of(table, name, f"the {what}")
    _refuse_nulls(column, name)
    return numeric_column(column, name, f"give a {what} column of numbers")


def _refuse_nulls(column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py() + 1
        raise BadInput(
            f"the column {shown(name)} has no value in row {row} ({column.null_count} are "
            "missing): fill it, or leave the row out"
        )


def _numeric(table: pa.Table, names: Sequence[str]) -> list[str]:
    """The columns that could be features."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name in names and any(kind(column.type) for kind in kinds)
    ]
