"""A Parquet file, or a data frame, as external features: every key and every number checked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.arrays import Matrix, is_frame
from owpc_ltr.data.external_features.pairs import DOCUMENT_ID, QUERY, QUERY_ID
from owpc_ltr.data.external_features.source import ExternalSource, refuse_taken
from owpc_ltr.data.external_features.table import ExternalTable, Texts, make_table, row_hashes
from owpc_ltr.data.frames import table_of, text_ids
from owpc_ltr.data.judgments.tables import ROLES
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import RESERVED_NAMES
from owpc_ltr.files.columnar import columns_in, reading_columns
from owpc_ltr.files.regular_file import open_regular
from owpc_ltr.files.text import shown

_KEYS = {QUERY_ID: ROLES["query_id"], QUERY: ROLES["query"], DOCUMENT_ID: ROLES["doc_id"]}


@dataclass(frozen=True)
class Columns:
    """The columns of a table: those of its `keys`, by the key's name, and those of numbers."""

    keys: dict[str, str]
    features: tuple[str, ...]


def columns_of(names: Sequence[str], file: str) -> Columns:
    """The roles of a table's columns, names of keys in any case of letters.

    Raises BadInput, naming the file, for a table without a key or without anything else, for two
    columns of one role, and for a name that no feature can have.
    """
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise _bad(file, f"it has two columns {shown(twice)}: rename one")
    keys: dict[str, str] = {}
    for role, known in _KEYS.items():
        present = [name for name in names if name.lower() in known]
        if len(present) > 1:
            both = " and ".join(map(shown, present[:2]))
            raise _bad(file, f"the columns {both} both name the {role}: take one out")
        if present:
            keys[role] = present[0]
    if QUERY_ID in keys and QUERY in keys:
        raise _bad(
            file,
            f"it has a '{keys[QUERY_ID]}' and a '{keys[QUERY]}', and is joined by one: take one "
            "out; by the text of the query, searches find their rows too",
        )
    features = tuple(name for name in names if name not in keys.values())
    if not keys:
        found = ", ".join(map(shown, names[:8])) or "none"
        raise _bad(
            file,
            f"none of its columns says what a row is of: it needs {QUERY_ID} or {QUERY}, or "
            f"{DOCUMENT_ID}, or both; found {found}",
        )
    if not features:
        raise _bad(file, "it has keys and no column of numbers: add what is to be a feature")
    for name in features:
        _check_name(name, file)
    return Columns(keys, features)


def _check_name(name: str, file: str) -> None:
    if name.lower() in RESERVED_NAMES:
        why = "a dataset has a column of that name itself"
    elif not name or "," in name:
        why = "an empty name, or one with a comma, cannot name a feature"
    else:
        return
    raise _bad(file, f"the column {shown(name)}: {why}; rename it, or leave it out")


def _bad(file: str, what: str) -> BadInput:
    return BadInput(f"cannot join {file}: {what}")


_ROWS = 1 << 17
_DATASET = b"owpc_ltr"  # in the metadata of what `save_dataset` writes


def read_external_features(given: Any) -> tuple[ExternalTable, ...]:
    """The tables of Parquet files and data frames: one, or a list of them; None for none.

    Tables that were read already stay as they are, so that who searches often reads them once.
    Raises BadInput, naming the file, the row (from 1) and the value of what cannot be joined, and
    for a column that two tables have.
    """
    if given is None:
        return ()
    one = isinstance(given, str | Path | ExternalTable) or is_frame(given)
    tables: list[ExternalTable] = []
    for number, source in enumerate([given] if one else given, 1):
        table = source if isinstance(source, ExternalTable) else _read(source, number)
        for other in tables:
            names = other.feature_names
            refuse_taken(table.feature_names, table.source.file, names, other.source.file)
        tables.append(table)
    return tuple(tables)


def _read(source: Any, number: int) -> ExternalTable:
    if isinstance(source, str | Path):
        return _from_file(Path(source))
    table = table_of(source)
    return _from_batches(
        f"frame {number}", None, table.schema, table.num_rows, table.to_batches(_ROWS)
    )


def _from_file(path: Path) -> ExternalTable:
    with open_regular(path) as file, reading_columns(path, "Parquet file"):
        digest = _file_digest(file)
        # What was digested is what is read, should another file take the name meanwhile.
        found = columns_in(file, path, os.fstat(file.fileno()).st_size)
        if found.rows is None:
            raise BadInput(f"cannot join {path}: it is an Arrow file; write it as Parquet")
        if _DATASET in (found.schema.metadata or {}):
            raise BadInput(
                f"cannot join {path}: it is a dataset of owpc-ltr, with labels: give a table of "
                "keys and numbers"
            )
        return _from_batches(path.name, digest, found.schema, found.rows, found.batches())


def _from_batches(
    file: str, digest: str | None, schema: pa.Schema, rows: int, batches: Iterable[pa.RecordBatch]
) -> ExternalTable:
    """The table; of a frame the digest is that of its keys and values."""
    columns = columns_of(schema.names, file)
    if not rows:
        raise BadInput(f"cannot join {file}: it has columns, and no row")
    values = np.empty((rows, len(columns.features)), np.float32)
    pieces: list[list[pa.StringArray]] = [[] for _ in columns.keys]
    row = 0
    for batch in batches:
        if row + len(batch) > rows:
            raise BadInput(f"cannot join {file}: it has more rows than it says: write it again")
        for place, name in enumerate(columns.keys.values()):
            pieces[place].append(_ids(batch.column(name), name, file, row))
        _fill(values[row : row + len(batch)], batch, columns, file, row)
        row += len(batch)
    if row < rows:
        raise BadInput(f"cannot join {file}: it has fewer rows than it says: write it again")
    texts = tuple(map(Texts, pieces))
    source = ExternalSource(
        file, digest or _digest(columns, texts, values), tuple(columns.keys), columns.features
    )
    return make_table(source, texts, values)


def _ids(column: pa.Array, name: str, file: str, first: int) -> pa.StringArray:
    column.validate(full=True)
    if column.null_count:
        row = first + pc.index(pc.is_null(column), True).as_py() + 1
        raise BadInput(
            f"cannot join {file}: the column {shown(name)} has no value in row {row}: fill it, or "
            "leave the row out"
        )
    try:
        return text_ids(column, f"the column {shown(name)}")
    except BadInput as error:
        raise BadInput(f"cannot join {file}: {error}: cast it") from error


def _fill(rows: Matrix, batch: pa.RecordBatch, columns: Columns, file: str, first: int) -> None:
    """The numbers of a batch as float32; null and NaN are missing values."""
    for place, name in enumerate(columns.features):
        numbers = _numbers(batch.column(name), name, file, first)
        with np.errstate(over="ignore"):
            rows[:, place] = numbers
        if np.isinf(rows[:, place]).any():
            row = int(np.flatnonzero(np.isinf(rows[:, place]))[0])
            why = "infinite" if np.isinf(numbers[row]) else "beyond float32"
            raise BadInput(
                f"cannot join {file}, row {first + row + 1}: {shown(name)} is {numbers[row]}, "
                f"{why}: fix it; a missing value is null or NaN"
            )


def _numbers(column: pa.Array, name: str, file: str, first: int) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_null(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        if column.null_count == len(column):
            # Rows of text may follow, which can be shown; where none does, all are missing.
            return np.full(len(column), np.nan)
        row = pc.index(pc.is_valid(column), True).as_py()
        raise BadInput(
            f"cannot join {file}, row {first + row + 1}: {shown(name)} is "
            f"{shown(str(column[row].as_py()))}, and the column holds {kind}: features are "
            "numbers; turn it into one, or leave it out"
        )
    return column.to_numpy(zero_copy_only=False)


def _file_digest(file: IO[bytes]) -> str:
    """Hex SHA-256 of a file, which is then at its beginning again."""
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    file.seek(0)
    return digest.hexdigest()


def _digest(columns: Columns, texts: Sequence[Texts], values: Matrix) -> str:
    """Hex SHA-256 of what a frame says, wherever its pieces are cut."""
    digest = hashlib.sha256("\0".join([*columns.keys, "", *columns.features]).encode())
    digest.update(np.ascontiguousarray(row_hashes(tuple(texts), 0)).data)
    digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()
