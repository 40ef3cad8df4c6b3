"""Checks of a dataset: its parts are of the right kind and length, and fit to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from owpc_ltr.errors import BadInput


def check_shapes(data: Any) -> None:
    """Refuse arrays of another kind than compiled code reads."""
    if data.features.ndim != 2 or data.features.dtype != np.float32:
        raise BadInput("features must be a float32 matrix, one row a document")
    if not data.features.flags.c_contiguous:
        raise BadInput("features must be C-contiguous: one document's values side by side")
    for name, kind in (
        ("labels", np.float32),
        ("offsets", np.int64),
        ("query_weights", np.float64),
        ("document_weights", np.float32),
        ("feature_scales", np.float64),
    ):
        part = getattr(data, name)
        if part is not None and (part.ndim != 1 or part.dtype != kind):
            raise BadInput(f"{name} must be a one-dimensional {np.dtype(kind)} array")
    for name in ("query_ids", "document_ids", "query_params", "comments"):
        part = getattr(data, name)
        if part is not None and (part.type != pa.string() or part.null_count):
            raise BadInput(f"{name} must be Arrow strings, without a missing one")


def check_lengths(data: Any) -> None:
    """Refuse parts that are not for the same queries, documents and features."""
    documents, columns = data.features.shape
    queries = len(data.offsets) - 1
    if queries < 0 or data.offsets[0] != 0 or data.offsets[-1] != documents:
        raise BadInput(f"offsets must run from 0 to the number of documents, {documents}")
    if (np.diff(data.offsets) <= 0).any():
        raise BadInput("offsets must increase: a query without documents cannot be ranked")
    for name, wanted in (
        ("labels", documents),
        ("query_ids", queries),
        ("feature_names", columns),
        ("document_ids", documents),
        ("document_weights", documents),
        ("comments", documents),
        ("query_params", queries),
        ("query_weights", queries),
        ("feature_scales", columns),
    ):
        part = getattr(data, name)
        if part is not None and len(part) != wanted:
            raise BadInput(f"{name} has {len(part)} entries where {wanted} are needed")
    for name, part in (data.document_fields or {}).items():
        if len(part) != documents:
            raise BadInput(
                f"document field '{name}' has {len(part)} entries where {documents} are needed"
            )


def check_values(data: Any) -> None:
    """Refuse what nothing can be learned from without going wrong."""
    for name in ("labels", "query_weights", "document_weights"):
        check_not_negative(name, getattr(data, name))
    duplicate = _first_duplicate(list(data.feature_names))
    if duplicate is not None:
        raise BadInput(f"the feature name '{duplicate}' stands twice")
    duplicate = _first_duplicate(data.query_ids.to_pylist())
    if duplicate is not None:
        raise BadInput(
            f"query '{duplicate}' stands in two places: put all its rows next to each other"
        )


def check_not_negative(name: str, part: Any) -> None:
    """Refuse a negative number, a missing or an infinite one, naming its entry."""
    if part is not None and not ((part >= 0) & np.isfinite(part)).all():
        row = int(np.flatnonzero(~((part >= 0) & np.isfinite(part)))[0])
        raise BadInput(f"{name} must be finite and not negative: entry {row + 1} is {part[row]}")


def infinite_value(data: Any) -> str:
    """Where the first infinite feature of a dataset stands, and what to do."""
    for start in range(0, len(data.features), 1 << 14):
        found = np.argwhere(np.isinf(data.features[start : start + (1 << 14)]))
        if len(found):
            row, column = int(found[0][0]) + start, int(found[0][1])
            return (
                f"feature '{data.feature_names[column]}' of row {row + 1} is "
                f"{data.features[row, column]}: fix the feature; a missing value is NaN"
            )
    raise ValueError("no feature is infinite")


def _first_duplicate(names: list[str]) -> str | None:
    if len(set(names)) == len(names):
        return None
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
