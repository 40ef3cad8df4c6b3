"""JoinedTable: numbers from outside the index, whose rows are found by query and document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.joined_tables.asked import AskedPairs
from owpc_ltr.data.joined_tables.keys import Hashes, hashed
from owpc_ltr.data.joined_tables.source import JoinedSource
from owpc_ltr.data.joined_tables.texts import Texts
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown

NOWHERE = -1
"""The row of a pair that the table has not."""


@dataclass(frozen=True, eq=False)
class JoinedTable:
    """The rows of a table, sorted by 64 bits of their keys; `texts` are the keys themselves.

    `values` is float32, one row a row and one column a feature, NaN where there is no value.
    Beside keys and values a row takes 12 bytes.
    """

    source: JoinedSource
    texts: tuple[Texts, ...]
    values: Matrix
    seed: int
    hashes: Hashes
    """Ascending."""
    rows: NDArray[np.integer[Any]]
    """The row that each of them is of."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that become features."""
        return self.source.features

    def find(self, pairs: AskedPairs) -> NDArray[np.int64]:
        """The row of each pair; −1 where there is none. Raises UsageError (see `AskedPairs`)."""
        keys = [pairs.key(name, self.source.file) for name in self.source.keys]
        hashes = hashed(keys, self.seed)
        places = np.minimum(_places(self.hashes, hashes), len(self) - 1)
        found = np.flatnonzero(self.hashes[places] == hashes)
        rows = np.full(len(pairs), NOWHERE, np.int64)
        rows[found] = self.rows[places[found]]
        asked = pa.array(found)
        same = _equal(self.texts, rows[found], [key.take(asked) for key in keys])
        rows[found[~same]] = NOWHERE
        return rows

    def at(self, rows: NDArray[np.int64]) -> Matrix:
        """The values of these rows; NaN for those that are nowhere."""
        found = rows != NOWHERE
        values = np.full((len(rows), self.values.shape[1]), np.nan, np.float32)
        values[found] = self.values[rows[found]]
        return values


def make_table(
    source: JoinedSource, texts: tuple[Texts, ...], values: Matrix, seed: int = 1
) -> JoinedTable:
    """The table, ready to be asked. Raises BadInput, naming both rows, where a key comes back."""
    while True:
        hashes = row_hashes(texts, seed)
        rows = np.argsort(hashes)
        hashes.sort()
        twice = np.flatnonzero(hashes[1:] == hashes[:-1])
        if not len(twice):
            kind = np.int32 if len(rows) < 1 << 31 else np.int64
            return JoinedTable(source, texts, values, seed, hashes, rows.astype(kind))
        first, second = rows[twice], rows[twice + 1]
        same = np.flatnonzero(_equal(texts, first, [column.at(second) for column in texts]))
        if len(same):
            pairs = np.sort(np.stack([first[same], second[same]]), axis=0)
            _refuse_repeated(source, texts, *pairs[:, np.argmin(pairs[1])].tolist())
        # Other keys of the same number: once in a million tables of ten million rows.
        seed += 1


def row_hashes(texts: tuple[Texts, ...], seed: int) -> Hashes:
    """A number for the keys of each row."""
    hashes, first = np.empty(len(texts[0]), np.uint64), 0
    for columns in zip(*(column.pieces for column in texts), strict=True):
        hashes[first : first + len(columns[0])] = hashed(columns, seed)
        first += len(columns[0])
    return hashes


def _refuse_repeated(
    source: JoinedSource, texts: tuple[Texts, ...], first: int, second: int
) -> None:
    told = keys_in_words(source, texts, first)
    raise BadInput(
        f"cannot join {source.file}: {told} stands in row {first + 1} and again in row "
        f"{second + 1}: keep one row of each"
    )


def keys_in_words(source: JoinedSource, texts: tuple[Texts, ...], row: int) -> str:
    """The keys of a row: `query_id 'q1', document_id 'd7'`."""
    return ", ".join(
        f"{name} {shown(column.at(np.array([row]))[0].as_py())}"
        for name, column in zip(source.keys, texts, strict=True)
    )


def _equal(texts: tuple[Texts, ...], rows: NDArray[np.int64], keys: list[Any]) -> NDArray[np.bool_]:
    """Whether each of these rows has these keys."""
    same = np.ones(len(rows), bool)
    for column, given in zip(texts, keys, strict=True):
        same &= pc.equal(column.at(rows), given).to_numpy(zero_copy_only=False)
    return same


def _places(ascending: Hashes, asked: Hashes) -> NDArray[np.int64]:
    """Where each would stand; asked for in order, which many times as many find in the cache."""
    order = np.argsort(asked)
    places = np.empty(len(asked), np.int64)
    places[order] = np.searchsorted(ascending, asked[order])
    return places
