"""Datasets made: from arrays, lists or data frames, and by joining other datasets.

Datasets made from arrays, lists or data frames; their conversion to matrices, vectors and ids. Rows
are brought together by query. pandas, polars, Arrow and DuckDB all speak the Arrow C stream, so
that none of them is needed here.

Datasets joined: several files with the same features, and the row groups of one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from owpc_ltr.arrays import Labels, Matrix, Vector, is_frame, is_pandas
from owpc_ltr.data.dataset import RankingDataset, check_not_negative, take_rows
from owpc_ltr.data.feature_sources import external_entry, external_names, sources_in
from owpc_ltr.data.judgments import JUDGED_BY, joined_judges
from owpc_ltr.data.options import row_number
from owpc_ltr.data.parquet import stream_groups
from owpc_ltr.errors import BadInput, UsageError, give_warning
from owpc_ltr.files.input import shown
from owpc_ltr.signatures import public


def join_datasets(
    parts: Sequence[RankingDataset], names: Sequence[str], features: Matrix | None = None
) -> RankingDataset:
    """The queries of all parts, in their order; `names` are the parts' own, for errors.

    `features` is the parts' matrix where it is in one piece already. Weights that a part lacks are
    1. Raises BadInput, naming both parts, where they have other features or feature sets, share a
    query, or only one knows its documents or parameters.
    """
    if len(parts) == 1:
        return parts[0]
    for part, name in zip(parts[1:], names[1:], strict=True):
        check_alike(parts[0], names[0], part, name)
    _refuse_shared_queries(parts, names)
    rows = np.cumsum([0, *(part.n_documents for part in parts)])
    starts = [part.offsets[:-1] + first for part, first in zip(parts, rows, strict=False)]
    scales = parts[0].feature_scales
    same_scales = scales is not None and all(
        part.feature_scales is not None and np.array_equal(part.feature_scales, scales)
        for part in parts
    )
    return RankingDataset(
        features=(
            np.concatenate([part.features for part in parts]) if features is None else features
        ),
        labels=np.concatenate([part.labels for part in parts]),
        offsets=np.append(np.concatenate(starts), rows[-1]),
        query_ids=pa.concat_arrays([part.query_ids for part in parts]),
        feature_names=parts[0].feature_names,
        doc_ids=_column(parts, "doc_ids"),
        featureset_hash=next((p.featureset_hash for p in parts if p.featureset_hash), None),
        query_params=_column(parts, "query_params"),
        query_weights=_column(parts, "query_weights", lambda part: part.query_importance),
        document_weights=_column(parts, "document_weights", lambda part: part.weights),
        comments=_column(parts, "comments", lambda part: pa.array([""] * part.n_documents)),
        feature_scales=scales if same_scales else None,
        document_fields=_fields(parts),
        manifest=joined_manifest([part.manifest for part in parts]),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


class Logged(Protocol):
    """A dataset, in memory or in parts, with what is known of the log that its features are of."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def featureset_hash(self) -> str | None:
        """That of the feature set, if there is one."""

    @property
    def manifest(self) -> dict[str, Any] | None:
        """What the log tells of itself."""


def check_same_features(first: Logged, name: str, other: Logged, other_name: str) -> None:
    """Refuse datasets of other features. Raises BadInput."""
    if first.feature_names != other.feature_names:
        raise BadInput(
            f"{name} and {other_name} have other features: {_difference(first, other)}"
            f"{_sets(first, other)}; use data of the same features (of LETOR text, say n_features)"
        )
    hashes = first.featureset_hash, other.featureset_hash
    if all(hashes) and hashes[0] != hashes[1]:
        raise BadInput(
            f"{name} and {other_name} were logged with other versions of the feature set"
            f"{_sets(first, other)}: log one of them again"
        )


def check_alike(first: RankingDataset, name: str, other: RankingDataset, other_name: str) -> None:
    """Refuse parts of other features, or of which only one knows something. Raises BadInput."""
    check_same_features(first, name, other, other_name)
    joined = [external_names(sources_in(part.manifest)) for part in (first, other)]
    if joined[0] != joined[1]:
        differing = next(iter(set(joined[0]) ^ set(joined[1])), joined[0][0])
        raise BadInput(
            f"'{differing}' is an external feature in one of {name} and {other_name}, and not "
            "in the other: log both with the same tables"
        )
    for field, what in (("doc_ids", "document ids"), ("query_params", "query params")):
        if (getattr(first, field) is None) != (getattr(other, field) is None):
            with_, without = (
                (name, other_name) if getattr(other, field) is None else (other_name, name)
            )
            raise BadInput(
                f"{with_} has {what} and {without} has none: add them, or read the files one by one"
            )
    if {JUDGED_BY, *(first.document_fields or ())} != {JUDGED_BY, *(other.document_fields or ())}:
        raise BadInput(f"{name} and {other_name} have other document fields: add them afterwards")


def logged_with(data: Logged) -> str:
    """The name of the feature set that a dataset was logged with, if known, and its hash."""
    about = (data.manifest or {}).get("featureset")
    name = [f"'{about['name']}'"] if isinstance(about, dict) and "name" in about else []
    return ", hash ".join([*name, str(data.featureset_hash)[:12]])


def _sets(first: Logged, other: Logged) -> str:
    hashes = first.featureset_hash and other.featureset_hash
    return f" ({logged_with(first)} and {logged_with(other)})" if hashes else ""


def _difference(first: Logged, other: Logged) -> str:
    sizes = f"{len(first.feature_names)} against {len(other.feature_names)}"
    pairs = zip(first.feature_names, other.feature_names, strict=False)
    differing = next((f", '{a}' where the other has '{b}'" for a, b in pairs if a != b), "")
    return sizes + differing


def _refuse_shared_queries(parts: Sequence[RankingDataset], names: Sequence[str]) -> None:
    files: dict[str, str] = {}
    for part, name in zip(parts, names, strict=True):
        queries = part.query_ids.to_pylist()
        shared = next((query for query in queries if query in files), None)
        if shared is not None:
            raise BadInput(
                f"query '{shared}' is in {files[shared]} and in {name}: put a query's rows in one "
                "file, or give the queries of each file ids of their own"
            )
        files |= dict.fromkeys(queries, name)


def joined_manifest(manifests: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """The sources of external features and the judges; other entries are of one log only."""
    sources = dict.fromkeys(source for manifest in manifests for source in sources_in(manifest))
    return {**external_entry(tuple(sources)), **joined_judges(manifests)} or None


def _column(
    parts: Sequence[RankingDataset],
    name: str,
    default: Callable[[RankingDataset], Any] | None = None,
) -> Any:
    """A column of all parts, None if no part has it; `default` makes that of a part without it."""
    columns = [getattr(part, name) for part in parts]
    if all(column is None for column in columns):
        return None
    if default is not None:
        pairs = zip(parts, columns, strict=True)
        columns = [default(part) if column is None else column for part, column in pairs]
    join = np.concatenate if isinstance(columns[0], np.ndarray) else pa.concat_arrays
    return join(columns)


def _fields(parts: Sequence[RankingDataset]) -> Mapping[str, pa.Array] | None:
    fields = [part.document_fields or {} for part in parts]
    if not any(fields):
        return parts[0].document_fields
    if any(JUDGED_BY in columns for columns in fields):
        # Who judged is not known of some.
        fields = [
            {JUDGED_BY: pa.array([""] * part.n_documents, pa.string()), **columns}
            for part, columns in zip(parts, fields, strict=True)
        ]
    return {name: pa.concat_arrays([columns[name] for columns in fields]) for name in fields[0]}


def stream_parquet(path: Path) -> Iterator[RankingDataset]:
    """The queries of a dataset file in its order; a query may lie across row groups."""
    begun: RankingDataset | None = None
    for group in stream_groups(path):
        whole = group if begun is None else _continued(path, begun, group)
        begun = whole.select(np.array([whole.n_queries - 1]))
        if whole.n_queries > 1:
            yield whole.select(np.arange(whole.n_queries - 1))
    if begun is None:
        raise BadInput(f"cannot read {path}: it has no rows")
    yield begun


def _continued(path: Path, begun: RankingDataset, group: RankingDataset) -> RankingDataset:
    """A query, and the row group after it, which may go on with it."""
    query = begun.query_ids[0].as_py()
    goes_on = group.query_ids[0].as_py() == query
    if goes_on:
        for name in ("query_params", "query_weights"):
            before, after = getattr(begun, name), getattr(group, name)
            if before is not None and before[0] != after[0]:
                raise BadInput(
                    f"cannot read {path}: query {shown(query)} has two values of '{name[:-1]}'"
                )
        # Under two names while they are joined.
        begun = replace(begun, query_ids=pa.array([f"{query}\0"]))
        if begun.query_ids[0].as_py() in group.query_ids.to_pylist():
            raise BadInput(f"cannot read {path}: query {shown(query)} has a name that ends in 0")
    joined = replace(
        join_datasets([begun, group], [str(path), str(path)]),
        manifest=begun.manifest,
        featureset_hash=begun.featureset_hash,
    )
    if not goes_on:
        return joined
    shorter: dict[str, Any] = {}
    for name in ("query_ids", "query_params", "query_weights"):
        column = getattr(joined, name)
        shorter[name] = None if column is None else column[1:]
    return replace(joined, offsets=np.delete(joined.offsets, 1), **shorter)


@public
def make_dataset(
    features: ArrayLike | Sequence[object],
    labels: ArrayLike,
    query_ids: ArrayLike,
    feature_names: Sequence[str] | None = None,
    *,
    doc_ids: ArrayLike | None = None,
    document_weights: ArrayLike | None = None,
    query_weights: ArrayLike | None = None,
    query_params: pa.StringArray | None = None,
    comments: pa.StringArray | None = None,
    document_fields: Mapping[str, pa.Array] | None = None,
    feature_scales: Vector | None = None,
    featureset_hash: str | None = None,
    manifest: dict[str, Any] | None = None,
    notes: tuple[str, ...] = (),
) -> RankingDataset:
    """A dataset from one row a document: features, labels, and the query id of each row.

    Arrays, lists or series of any kind of number; features may be a data frame, whose columns
    then give the names. Else they are "1", "2", … where none are given. Query ids are text or
    whole numbers. Rows of a query that are not next to each other are brought together, with an
    OwpcLtrWarning; then weights and parameters of queries are given in the order of the queries'
    first rows. What the other arguments are, `RankingDataset` says. Raises BadInput naming the
    argument, the row and the value that cannot be used.

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
    parts = {
        "doc_ids": None if doc_ids is None else text_ids(doc_ids, "document ids"),
        "document_weights": _optional(document_weights, "document_weights", np.float32),
        "query_weights": _optional(query_weights, "query_weights", np.float64),
        "query_params": query_params,
        "comments": comments,
        "document_fields": document_fields,
        "feature_scales": feature_scales,
        "featureset_hash": featureset_hash,
        "manifest": manifest,
        "notes": notes,
    }
    return _grouped(matrix, grades, ids, names, parts)


@public
def from_frame(
    frame: object,
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
        parts["doc_ids"] = _filled_column(table, document, "document ids")
    if weight is not None:
        parts["document_weights"] = _column_of_numbers(table, weight, "weight")
    ids = _filled_column(table, query, "query ids")
    labels = _column_of_numbers(table, label, "label")
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
    query_ids, offsets, order, scattered = _row_groups(ids)
    if order is not None:
        note = (
            f"the rows of {scattered} of {len(query_ids)} queries were not next to each other, and "
            "were brought together"
        )
        give_warning(note)
        parts["notes"] = (*parts.get("notes", ()), note)
        _check_rows("labels", len(labels), len(matrix))
        matrix, labels = matrix[order], labels[order]
        for name in ("doc_ids", "document_weights", "comments"):
            if parts.get(name) is not None:
                _check_rows(name, len(parts[name]), len(matrix))
                parts[name] = take_rows(parts[name], order)
        if fields := parts.get("document_fields"):
            parts["document_fields"] = {
                name: take_rows(field, order) for name, field in fields.items()
            }
    return RankingDataset(
        features=matrix,
        labels=labels,
        offsets=offsets,
        query_ids=query_ids,
        feature_names=names,
        **parts,
    )


def _features(values: object) -> tuple[Matrix, tuple[str, ...]]:
    """The matrix, and the names of its columns."""
    if is_frame(values):
        table = table_of(values)
        names = tuple(table.column_names)
        instead = "leave it out of the features, or turn it into numbers"
        return numbers_of(table, names, np.float32, instead), names
    matrix = _feature_matrix(values)
    return matrix, tuple(str(column + 1) for column in range(matrix.shape[1]))


def _optional(
    values: ArrayLike | None, what: str, kind: type[np.floating[Any]]
) -> NDArray[Any] | None:
    return None if values is None else vector(values, what, kind)


def _check_rows(name: str, count: int, rows: int, values: ArrayLike | None = None) -> None:
    """Refuse another number of entries than rows; sizes of groups are known by their sum."""
    if count == rows:
        return
    hint = ""
    if values is not None and np.asarray(values).dtype.kind in "iu" and np.sum(values) == rows:
        hint = ": sizes of groups are not ids; give np.repeat(np.arange(len(sizes)), sizes)"
    raise BadInput(f"{name} has {count} entries where {rows} rows need one each{hint}")


def _row_groups(
    ids: pa.StringArray,
) -> tuple[pa.StringArray, NDArray[np.int64], NDArray[np.int64] | None, int]:
    """The query ids in the order of their first rows, their offsets, and the order of the rows.

    The order is None if the rows of each query stand together; else the last value is the number of
    queries whose rows do not. The rows of a query keep their order.
    """
    runs = pc.run_end_encode(ids, run_end_type=pa.int64())
    pieces = runs.values.dictionary_encode()
    if len(pieces.dictionary) == len(pieces):
        ends = runs.run_ends.to_numpy()
        return runs.values, np.concatenate(([0], ends)).astype(np.int64), None, 0
    rows = ids.dictionary_encode()
    codes = rows.indices.to_numpy()
    offsets = np.concatenate(([0], np.cumsum(np.bincount(codes)))).astype(np.int64)
    scattered = int((np.bincount(pieces.indices.to_numpy()) > 1).sum())
    return rows.dictionary, offsets, np.argsort(codes, kind="stable"), scattered


def _columns_of_features(
    table: pa.Table, roles: dict[str, str | None], features: Sequence[str] | None
) -> tuple[str, ...]:
    roles_of = {name: role for role, name in roles.items() if name is not None}
    if isinstance(features, str):
        raise UsageError(f"features is one text, {shown(features)}: give a list of column names")
    if features is None:
        names = tuple(name for name in table.column_names if name not in roles_of)
    else:
        names = tuple(features)
        duplicate = next((name for name in names if name in roles_of), None)
        if duplicate is not None:
            raise UsageError(
                f"the column {shown(duplicate)} is {roles_of[duplicate]} and feature: name one"
            )
    if not names:
        raise BadInput(
            f"the data frame has no feature: all its columns are {', '.join(map(shown, roles_of))}"
        )
    return names


def _column_of_numbers(table: pa.Table, name: str, what: str) -> NDArray[Any]:
    column = _filled_column(table, name, f"the {what}")
    return np.asarray(_numeric(column, name, f"give a {what} column of numbers").to_numpy())


def _filled_column(table: pa.Table, name: str, what: str) -> pa.ChunkedArray:
    """A column by its name. Raises BadInput where it is absent or lacks a value."""
    column = column_of(table, name, what)
    if column.null_count:
        row = row_number(pc.index(pc.is_null(column), True).as_py())
        raise BadInput(
            f"the column {shown(name)} has no value in row {row} ({column.null_count} are "
            "missing): fill it, or leave the row out"
        )
    return column


def _could_be_features(table: pa.Table, names: Sequence[str]) -> list[str]:
    """The columns that could be features."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name in names and any(kind(column.type) for kind in kinds)
    ]


_ROWS = 1 << 16
"""Rows converted at a time, so that a column's copy stays small."""


def float_array(values: object, what: str) -> NDArray[Any]:
    """The values as a float array; float32 and float64 stay as they are, None is NaN.

    Raises BadInput where one of them is no number, naming it and its place.
    """
    array = values if isinstance(values, np.ndarray) else _array(values, what)
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(np.float64), np.nan)
    if array.dtype.kind == "f":
        return array if array.dtype.itemsize in {4, 8} else array.astype(np.float64)
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.kind == "O":
        return _numbers(array, what)
    example = f" ({shown(str(array.flat[0]))}, for instance)" if array.size else ""
    raise BadInput(
        f"{what} must be numbers, and these are {array.dtype}{example}: turn them into numbers, or "
        "leave them out"
    )


def to_float32(array: NDArray[Any], what: str) -> NDArray[np.float32]:
    """The array in float32, C-contiguous; not copied where it is. Raises BadInput beyond it."""
    with np.errstate(over="ignore"):
        rounded = np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype != np.float32 and np.isinf(rounded).any():
        beyond = np.argwhere(np.isinf(rounded) & np.isfinite(array))
        if len(beyond):
            index = tuple(beyond[0].tolist())
            raise BadInput(
                f"{_entry(what, index)} is {array[index]}, which is beyond float32: scale it down, "
                "or leave it out"
            )
    return rounded


def _feature_matrix(values: object) -> Matrix:
    """A float32 matrix, C-contiguous. Raises BadInput where the values are none."""
    array = float_array(values, "features")
    if array.ndim != 2:
        hint = "" if array.ndim != 1 else ": give one row a document, [[…], …]"
        raise BadInput(f"features have {array.ndim} dimensions, and must be rows × columns{hint}")
    return to_float32(array, "features")


def vector(values: object, what: str, kind: type[np.floating[Any]]) -> NDArray[Any]:
    """A one-dimensional array of numbers of this kind."""
    array = float_array(values, what)
    if array.ndim != 1:
        raise BadInput(
            f"{what} have {array.ndim} dimensions, and must be one number a row: give "
            "them as a flat list"
        )
    return to_float32(array, what) if kind is np.float32 else array.astype(kind)


def table_of(frame: object) -> pa.Table:
    """A data frame as an Arrow table, copied only where its library must."""
    try:
        if is_pandas(frame):
            # By the stream an index would become a column, and then a feature.
            return pa.Table.from_pandas(frame, preserve_index=False)
        if isinstance(frame, pa.Table | pa.RecordBatch) or hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(
            f"the data frame cannot be read: {why}: make each column one type"
        ) from error
    raise BadInput(
        f"a {type(frame).__name__} is not a data frame: give one of pandas, polars, Arrow or "
        "DuckDB, or arrays to make_dataset"
    )


def column_of(table: pa.Table, name: str, what: str) -> pa.ChunkedArray:
    """A column by its name. Raises BadInput, naming those that there are."""
    positions = [position for position, column in enumerate(table.column_names) if column == name]
    if len(positions) == 1:
        return table.column(positions[0])
    if positions:
        raise BadInput(f"the data frame has {len(positions)} columns {shown(name)}: rename them")
    listed = ", ".join(table.column_names[:8]) + ", …" * (table.num_columns > 8)
    raise BadInput(
        f"the data frame has no column {shown(name)} for {what}; it has {listed or 'none'}"
    )


def numbers_of(
    table: pa.Table, names: Sequence[str], kind: type[np.floating[Any]], instead: str
) -> NDArray[Any]:
    """The named columns as a C-contiguous matrix, NaN for what is missing.

    `instead` says what to do with a column that holds no numbers.
    """
    columns = [_numeric(column_of(table, name, "a feature"), name, instead) for name in names]
    matrix = np.empty((table.num_rows, len(names)), kind)
    for first in range(0, table.num_rows, _ROWS):
        rows = matrix[first : first + _ROWS]
        for number, column in enumerate(columns):
            values = column.slice(first, len(rows)).to_numpy()
            with np.errstate(over="ignore"):
                rows[:, number] = values
            refuse_overflow(rows[:, number], values, f"feature {shown(names[number])}, row", first)
    return matrix


def refuse_overflow(rounded: NDArray[Any], values: NDArray[Any], where: str, first: int) -> None:
    """Refuse a finite number that is beyond float32; `first` is the number of the first row."""
    if not np.isinf(rounded).any():
        return
    beyond = np.flatnonzero(np.isinf(rounded) & np.isfinite(values))
    if len(beyond):
        row = int(beyond[0])
        raise BadInput(
            f"{where} {row_number(first + row)}: {values[row]} is beyond float32: scale it down, "
            "or leave it out"
        )


def numeric(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The column in a type that NumPy has, nulls included; None where it holds no numbers."""
    if pa.types.is_dictionary(column.type):
        column = _decoded(column)
    kind = column.type
    if pa.types.is_null(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_boolean(kind):
        return column.cast(pa.uint8())
    return column if pa.types.is_integer(kind) or pa.types.is_floating(kind) else None


def _numeric(column: pa.ChunkedArray, name: str, instead: str) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = _decoded(column)
    if (numbers := numeric(column)) is not None:
        return numbers
    example = next(map(str, column.drop_null().slice(0, 1).to_pylist()), "")
    raise BadInput(
        f"the column {shown(name)} is {column.type} ({shown(example)}, for instance), and numbers "
        f"are needed: {instead}"
    )


def text_ids(values: object, what: str) -> pa.StringArray:
    """Ids as text. Raises BadInput for what has no one way to be written as an id."""
    ids = _arrow(values, what)
    if len(ids) == 0:
        return pa.array([], pa.string())
    kinds = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_integer,
    )
    lacking = pc.is_null(ids, nan_is_null=True)
    missing = bool(pc.any(lacking).as_py())
    if pa.types.is_floating(ids.type) and not missing and pc.all(pc.equal(ids, pc.floor(ids))):
        # A merge of data frames makes floats of whole numbers.
        ids = ids.cast(pa.int64(), safe=False)
    if not any(is_known(ids.type) for is_known in kinds) or missing:
        row = row_number(pc.index(lacking, True).as_py()) if missing else 0
        raise BadInput(
            f"{what} must be text or whole numbers, each of them: these are {ids.type}"
            f"{f', and some are missing: the first in row {row}' * missing}"
        )
    return ids.cast(pa.string())


def _arrow(values: Any, what: str) -> pa.Array:
    if values is None:
        raise BadInput(f"{what} are None: give one entry a document")
    try:
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            streamed = hasattr(values, "__arrow_c_stream__")
            values = pa.chunked_array(values) if streamed else pa.array(values)
        if pa.types.is_dictionary(values.type):
            values = _decoded(values)
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise BadInput(
            f"{what} are of several kinds: make them all text, or all numbers"
        ) from error


def _decoded(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of categories as their values; texts as plain strings, which all can be cast to."""
    kind = column.type.value_type
    plain = pa.string() if pa.types.is_string_view(kind) else kind
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    decoded = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(plain))
        for chunk in chunks
    ]
    return pa.chunked_array([chunk.dictionary_decode() for chunk in decoded], plain)


def _array(values: Any, what: str) -> NDArray[Any]:
    if values is None:
        raise BadInput(f"{what} are None: give one entry a document")
    if isinstance(values, Iterator):
        values = list(values)
    if hasattr(values, "toarray"):
        raise BadInput(f"{what} are a sparse matrix, where 0 and missing differ: give X.toarray()")
    if isinstance(values, pa.Array):
        values = values.to_numpy(zero_copy_only=False)
    elif hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        streamed = isinstance(values, pa.ChunkedArray)
        values = (values if streamed else pa.chunked_array(values)).to_numpy()
    try:
        array = np.asarray(values)
    except ValueError as error:
        lengths = sorted({len(row) for row in values if hasattr(row, "__len__")})
        what_not = (
            f"have rows of different lengths ({lengths[0]} to {lengths[-1]})"
            if len(lengths) > 1
            else "hold a list in place of a number"
        )
        raise BadInput(f"{what} {what_not}: give each row one number a column") from error
    # NumPy makes text of numbers that stand beside text: then nothing says which was which.
    return np.array(values, dtype=object) if array.dtype.kind in "US" else array


def _numbers(array: NDArray[Any], what: str) -> NDArray[np.float64]:
    """An object array as numbers; a text is refused also where it could be read as one."""
    flat = array.ravel()
    numbers = np.empty(len(flat))
    for index, value in enumerate(flat):
        if isinstance(value, str | bytes):
            raise _no_number(array, what, index)
        missing = value is None or type(value).__name__ == "NAType"
        try:
            numbers[index] = np.nan if missing else float(value)
        except (TypeError, ValueError, OverflowError):
            raise _no_number(array, what, index) from None
    return numbers.reshape(array.shape)


def _no_number(array: NDArray[Any], what: str, place: int) -> BadInput:
    at = tuple(int(number) for number in np.unravel_index(place, array.shape))
    return BadInput(
        f"{_entry(what, at)} is {shown(str(array[at]))}, a {type(array[at]).__name__}, and must be "
        "a number: turn it into one, or leave it out"
    )


def _entry(what: str, place: tuple[int, ...]) -> str:
    return f"{what}[{', '.join(map(str, place))}]"
