"""ExternalTable: numbers from outside the index, found by query and document; read and checked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Digests, IntVector, Matrix, is_frame
from owpc_ltr.compiling import compiled
from owpc_ltr.data.construction import numeric, table_of, text_ids
from owpc_ltr.data.feature_sources import (
    DOCUMENT_ID,
    NOWHERE,
    QUERY,
    QUERY_ID,
    DocumentPairs,
    ExternalSource,
    document_pairs,
    refuse_taken,
)
from owpc_ltr.data.options import ROLES, row_number
from owpc_ltr.data.parquet import DATASET_KEY
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import RESERVED_NAMES
from owpc_ltr.files.input import open_for_arrow, shown
from owpc_ltr.files.tables import columns_in
from owpc_ltr.signatures import public
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import JudgedQuery


_KEYS = {QUERY_ID: ROLES["query_id"], QUERY: ROLES["query"], DOCUMENT_ID: ROLES["doc_id"]}


def columns_of(names: Sequence[str], file: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The columns of a table's keys by key, in any case of letters, and those of its numbers.

    Raises BadInput, naming the file, for a table without a key or without anything else, for two
    columns of one role, and for a name that no feature can have.
    """
    duplicate = next((name for name in names if list(names).count(name) > 1), None)
    if duplicate is not None:
        raise _bad(file, f"it has two columns {shown(duplicate)}: rename one")
    keys: dict[str, str] = {}
    for role, aliases in _KEYS.items():
        present = [name for name in names if name.lower() in aliases]
        if len(present) > 1:
            both = " and ".join(map(shown, present[:2]))
            raise _bad(file, f"the columns {both} both name the {role}: take one out")
        if present:
            keys[role] = present[0]
    if QUERY_ID in keys and QUERY in keys:
        raise _bad(
            file,
            f"it has a '{keys[QUERY_ID]}' and a '{keys[QUERY]}', and rows are found by one: take "
            "one out; by the text of the query, searches find their rows too",
        )
    features = tuple(name for name in names if name not in keys.values())
    if not keys:
        listed_names = ", ".join(map(shown, names[:8])) or "none"
        raise _bad(
            file,
            f"none of its columns says what a row is of: it needs {QUERY_ID} or {QUERY}, or "
            f"{DOCUMENT_ID}, or both; found {listed_names}",
        )
    if not features:
        raise _bad(file, "it has keys and no column of numbers: add what is to be a feature")
    for name in features:
        if name.lower() in RESERVED_NAMES:
            why = "a dataset has a column of that name itself"
        elif not name or "," in name:
            why = "an empty name, or one with a comma, cannot name a feature"
        else:
            continue
        raise _bad(file, f"the column {shown(name)}: {why}; rename it, or leave it out")
    return keys, features


def _bad(file: str, what: str) -> BadInput:
    return BadInput(f"cannot use {file}: {what}")


_BATCH_ROWS = 1 << 17
_TEXT = pa.large_string()
"""Keys of a table, which may be more than 2 GB."""


@public
def read_external_features(given: Any) -> tuple[ExternalTable, ...]:
    """The tables of Parquet files and data frames: one, or a list of them; None for none.

    Tables that were read already stay as they are, so that who searches often reads them once.
    Raises BadInput, naming the file, the row (from 0) and the value of what cannot be joined, and
    for a column that two tables have.
    """
    if given is None:
        return ()
    single = isinstance(given, str | Path | ExternalTable) or is_frame(given)
    tables: list[ExternalTable] = []
    for number, source in enumerate([given] if single else given, 1):
        table = source if isinstance(source, ExternalTable) else _read(source, number)
        for earlier in tables:
            names = earlier.feature_names
            refuse_taken(table.feature_names, table.source.file, names, earlier.source.file)
        tables.append(table)
    return tuple(tables)


def _read(source: Any, number: int) -> ExternalTable:
    if isinstance(source, str | Path):
        return _from_file(Path(source))
    table = table_of(source)
    return _from_batches(
        f"frame {number}", None, table.schema, table.num_rows, table.to_batches(_BATCH_ROWS)
    )


def _from_file(path: Path) -> ExternalTable:
    with open_for_arrow(path, "Parquet file") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        # The file that was digested is read, even if another one takes its name meanwhile.
        columns = columns_in(file, path, os.fstat(file.fileno()).st_size)
        if columns.rows is None:
            raise BadInput(f"cannot use {path}: it is an Arrow file; write it as Parquet")
        if DATASET_KEY in (columns.schema.metadata or {}):
            raise BadInput(
                f"cannot use {path}: it is a dataset of owpc-ltr, with labels: give a table of "
                "keys and numbers"
            )
        return _from_batches(path.name, digest, columns.schema, columns.rows, columns.batches())


def _from_batches(
    file: str, digest: str | None, schema: pa.Schema, rows: int, batches: Iterable[pa.RecordBatch]
) -> ExternalTable:
    """The table; of a frame the digest is that of its keys and values."""
    keys, features = columns_of(schema.names, file)
    if not rows:
        raise BadInput(f"cannot use {file}: it has columns, and no row")
    values = np.empty((rows, len(features)), np.float32)
    pieces: list[list[pa.StringArray]] = [[] for _ in keys]
    row = 0
    for batch in batches:
        if row + len(batch) > rows:
            raise BadInput(f"cannot use {file}: it has more rows than it says: write it again")
        for number, name in enumerate(keys.values()):
            pieces[number].append(_ids(batch.column(name), name, file, row))
        _fill(values[row : row + len(batch)], batch, features, file, row)
        row += len(batch)
    if row < rows:
        raise BadInput(f"cannot use {file}: it has fewer rows than it says: write it again")
    texts = tuple(pa.concat_arrays([piece.cast(_TEXT) for piece in column]) for column in pieces)
    source = ExternalSource(
        file, digest or _frame_digest(keys, features, texts, values), tuple(keys), features
    )
    return _made(source, texts, values)


def _ids(column: pa.Array, name: str, file: str, first: int) -> pa.StringArray:
    column.validate(full=True)
    if column.null_count:
        row = row_number(first + pc.index(pc.is_null(column), True).as_py())
        raise BadInput(
            f"cannot use {file}: the column {shown(name)} has no value in row {row}: fill it, or "
            "leave the row out"
        )
    try:
        return text_ids(column, f"the column {shown(name)}")
    except BadInput as error:
        raise BadInput(f"cannot use {file}: {error}: cast it") from error


def _fill(
    rows: Matrix, batch: pa.RecordBatch, features: Sequence[str], file: str, first: int
) -> None:
    """The numbers of a batch as float32; null and NaN are missing values."""
    for number, name in enumerate(features):
        numbers = _numbers(batch.column(name), name, file, first)
        with np.errstate(over="ignore"):
            rows[:, number] = numbers
        if np.isinf(rows[:, number]).any():
            row = int(np.flatnonzero(np.isinf(rows[:, number]))[0])
            why = "infinite" if np.isinf(numbers[row]) else "beyond float32"
            raise BadInput(
                f"cannot use {file}, row {row_number(first + row)}: {shown(name)} is "
                f"{numbers[row]}, {why}: fix it; a missing value is null or NaN"
            )


def _numbers(column: pa.Array, name: str, file: str, first: int) -> Any:
    if (numbers := numeric(column)) is not None:
        return numbers.to_numpy(zero_copy_only=False)
    if column.null_count == len(column):
        # Rows of text may follow, which can be shown; where none does, all are missing.
        return np.full(len(column), np.nan)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    row = pc.index(pc.is_valid(column), True).as_py()
    raise BadInput(
        f"cannot use {file}, row {row_number(first + row)}: {shown(name)} is "
        f"{shown(str(column[row].as_py()))}, and the column holds {kind}: features are "
        "numbers; turn it into one, or leave it out"
    )


def _frame_digest(
    keys: Iterable[str], features: Sequence[str], texts: Texts, values: Matrix
) -> str:
    """Hex SHA-256 of what a frame says, wherever its pieces are cut."""
    digest = hashlib.sha256("\0".join([*keys, "", *features]).encode())
    digest.update(hashed(texts, 0).data)
    digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


Texts = Sequence[pa.StringArray | pa.LargeStringArray]
"""The keys of rows, a column each."""


def hashed(columns: Texts, seed: int) -> Digests:
    """A number a row, from its text in each of the columns; another `seed` gives others."""
    hashes = np.full(len(columns[0]), seed, np.uint64)
    for column in columns:
        offsets, content = _buffers(column.cast(_TEXT))
        _add_texts(offsets, content, hashes)
    return hashes


def _buffers(column: pa.LargeStringArray) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The bounds of the texts, and the bytes of all of them."""
    _, offsets, content = column.buffers()
    whole = np.frombuffer(offsets, np.int64) if offsets is not None else np.zeros(1, np.int64)
    used = whole[column.offset : column.offset + len(column) + 1]
    # An empty buffer may be absent, and compiled code is made for one kind of array.
    data = np.frombuffer(content, np.uint8) if content else np.zeros(0, np.uint8)
    for array in (used, data):
        array.flags.writeable = False
    return used, data


@compiled
def _add_texts(offsets: IntVector, content: NDArray[np.uint8], hashes: Digests) -> None:
    """Mix a text into each row's number: FNV-1a, then the finaliser of SplitMix64."""
    for row in range(len(hashes)):
        number = hashes[row] ^ np.uint64(0xCBF29CE484222325)
        for place in range(offsets[row], offsets[row + 1]):
            number = (number ^ np.uint64(content[place])) * np.uint64(0x100000001B3)
        # The length parts the texts of two columns: "a", "bc" is not "ab", "c".
        number ^= np.uint64(offsets[row + 1] - offsets[row])
        number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[row] = number ^ (number >> np.uint64(31))


@dataclass(frozen=True, eq=False, repr=False)
class ExternalTable(ShortRepr):
    """The rows of a table, sorted by 64 bits of their keys; `texts` are the keys themselves.

    `values` is float32, one row a row and one column a feature, NaN where there is no value.
    Beside keys and values a row takes 12 bytes.
    """

    source: ExternalSource
    texts: Texts
    values: Matrix
    seed: int
    hashes: Digests
    """Ascending."""
    rows: NDArray[np.integer[Any]]
    """The row that each of them is of."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that become features."""
        return self.source.features

    def find(self, pairs: DocumentPairs) -> NDArray[np.int64]:
        """The row of each pair; −1 where there is none. Raises UsageError (see `DocumentPairs`)."""
        keys = [pairs.key(name, self.source.file) for name in self.source.keys]
        hashes = hashed(keys, self.seed)
        places = np.minimum(_places(self.hashes, hashes), len(self) - 1)
        candidates = np.flatnonzero(self.hashes[places] == hashes)
        rows = np.full(len(pairs), NOWHERE, np.int64)
        rows[candidates] = self.rows[places[candidates]]
        same = _equal(self.texts, rows[candidates], _at(keys, candidates))
        rows[candidates[~same]] = NOWHERE
        return rows

    def at(self, rows: NDArray[np.int64]) -> Matrix:
        """The values of these rows; NaN for those that are nowhere."""
        matched = rows != NOWHERE
        values = np.full((len(rows), self.values.shape[1]), np.nan, np.float32)
        values[matched] = self.values[rows[matched]]
        return values


def _made(source: ExternalSource, texts: Texts, values: Matrix) -> ExternalTable:
    """The table, ready to be asked. Raises BadInput, naming both rows, where a key comes back."""
    seed = 1
    while True:
        hashes = hashed(texts, seed)
        rows = np.argsort(hashes)
        hashes.sort()
        equal = np.flatnonzero(hashes[1:] == hashes[:-1])
        if not len(equal):
            kind = np.int32 if len(rows) < 1 << 31 else np.int64
            return ExternalTable(source, texts, values, seed, hashes=hashes, rows=rows.astype(kind))
        first, second = rows[equal], rows[equal + 1]
        same = np.flatnonzero(_equal(texts, first, _at(texts, second)))
        if len(same):
            pairs = np.sort(np.stack([first[same], second[same]]), axis=0)
            row, again = pairs[:, np.argmin(pairs[1])].tolist()
            raise BadInput(
                f"cannot use {source.file}: {_keys_in_words(source, texts, row)} is in row "
                f"{row_number(row)} and again in row {row_number(again)}: keep one row of each"
            )
        # Other keys of the same number: once in a million tables of ten million rows.
        seed += 1


def _keys_in_words(source: ExternalSource, texts: Texts, row: int) -> str:
    """The keys of a row: `query_id 'q1', document_id 'd7'`."""
    return ", ".join(
        f"{name} {shown(column[row].as_py())}"
        for name, column in zip(source.keys, texts, strict=True)
    )


def _equal(texts: Texts, rows: NDArray[np.int64], keys: Texts) -> NDArray[np.bool_]:
    """Whether each of these rows has these keys."""
    same = np.ones(len(rows), bool)
    for column, key in zip(_at(texts, rows), keys, strict=True):
        same &= pc.equal(column, key).to_numpy(zero_copy_only=False)
    return same


def _at(texts: Texts, rows: NDArray[np.int64]) -> Texts:
    """The texts of these rows, in their order."""
    return [column.take(pa.array(rows)) for column in texts]


def _places(ascending: Digests, hashes: Digests) -> NDArray[np.int64]:
    """The place of each among the ascending ones; sorted look-ups use the processor's cache."""
    order = np.argsort(hashes)
    places = np.empty(len(hashes), np.int64)
    places[order] = np.searchsorted(ascending, hashes[order])
    return places


@dataclass(frozen=True, eq=False)
class ExternalValues:
    """One row a judged pair and one column an external feature, NaN where no table has a row.

    `accounts` say of each table, beside what its source is: its `rows`; judged pairs that are
    `matched`, and `unmatched`; rows that are `unused`, for they met no pair.
    """

    feature_names: tuple[str, ...]
    values: Matrix
    accounts: list[dict[str, Any]]


def external_values(
    tables: Sequence[ExternalTable], queries: Sequence[JudgedQuery], taken: Sequence[str]
) -> ExternalValues:
    """The external features of judged pairs, tables in order; `taken` are names of other features.

    Raises BadInput for a name that is taken, and for a table none of whose rows meets a pair: its
    ids are of another kind.
    """
    pairs = document_pairs((query.query_id, query.params, query.doc_ids) for query in queries)
    parts, accounts = [], []
    for table in tables:
        refuse_taken(table.feature_names, table.source.file, taken, "the feature set")
        rows = table.find(pairs)
        if (rows == NOWHERE).all():
            raise _other_ids(table, pairs)
        parts.append(table.at(rows))
        matched = rows[rows != NOWHERE]
        counts = {
            "rows": len(table),
            "matched": len(matched),
            "unmatched": len(rows) - len(matched),
            "unused": len(table) - len(np.unique(matched)),
        }
        accounts.append({**table.source.as_dict(), **counts})
    names = tuple(name for table in tables for name in table.feature_names)
    return ExternalValues(names, np.hstack(parts), accounts)


def _other_ids(table: ExternalTable, pairs: DocumentPairs) -> BadInput:
    """The error for a table of other ids, with an example of both sides."""
    source = table.source
    judged = ", ".join(
        f"{name} {shown(pairs.key(name, source.file)[0].as_py())}" for name in source.keys
    )
    what = "document" if source.keys == (DOCUMENT_ID,) else "query"
    what = "pair" if len(source.keys) > 1 else what
    return BadInput(
        f"cannot use {source.file}: none of its {len(table):,} rows is of a judged {what}: it has "
        f"{_keys_in_words(source, table.texts, 0)}, for instance, and the judgments {judged}: are "
        "they ids of the same kind?"
    )
