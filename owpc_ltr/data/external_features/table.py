"""ExternalTable: numbers from outside the index, whose rows are found by query and document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.compiling import compiled
from owpc_ltr.data.external_features.pairs import DocumentPairs
from owpc_ltr.data.external_features.source import ExternalSource
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown

Hashes = NDArray[np.uint64]


def hashed(columns: Sequence[pa.StringArray], seed: int) -> Hashes:
    """A number a row, from its text in each of the columns; another `seed` gives others."""
    hashes = np.full(len(columns[0]), seed, np.uint64)
    for column in columns:
        offsets, content = _buffers(column)
        _add_texts(offsets, content, hashes)
    return hashes


def _buffers(column: pa.StringArray) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Where each text begins and ends, and the bytes of all of them."""
    _, offsets, content = column.buffers()
    whole = np.frombuffer(offsets, np.int32) if offsets is not None else np.zeros(1, np.int32)
    used = whole[column.offset : column.offset + len(column) + 1]
    # An empty buffer may be absent, and compiled code is made for one kind of array.
    data = np.frombuffer(content, np.uint8) if content else np.zeros(0, np.uint8)
    for array in (used, data):
        array.flags.writeable = False
    return used, data


@compiled
def _add_texts(offsets: Any, content: Any, hashes: Any) -> None:
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


@dataclass(frozen=True, eq=False)
class Texts:
    """Arrow strings, one piece after the other; they are never put together."""

    pieces: Sequence[pa.StringArray]

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(len(piece) for piece in self.pieces)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def at(self, rows: NDArray[np.int64]) -> pa.StringArray:
        """The texts of these rows, in their order."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        cuts = np.searchsorted(ascending, self._starts)
        found = [
            piece.take(pa.array(ascending[first:last] - start))
            for piece, start, first, last in zip(
                self.pieces, self._starts, cuts, cuts[1:], strict=False
            )
            if last > first
        ]
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        together = pa.concat_arrays(found) if found else pa.array([], pa.string())
        return together.take(pa.array(back))


NOWHERE = -1
"""The row of a pair that the table has not."""


@dataclass(frozen=True, eq=False)
class ExternalTable:
    """The rows of a table, sorted by 64 bits of their keys; `texts` are the keys themselves.

    `values` is float32, one row a row and one column a feature, NaN where there is no value.
    Beside keys and values a row takes 12 bytes.
    """

    source: ExternalSource
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

    def find(self, pairs: DocumentPairs) -> NDArray[np.int64]:
        """The row of each pair; −1 where there is none. Raises UsageError (see `DocumentPairs`)."""
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
    source: ExternalSource, texts: tuple[Texts, ...], values: Matrix, seed: int = 1
) -> ExternalTable:
    """The table, ready to be asked. Raises BadInput, naming both rows, where a key comes back."""
    while True:
        hashes = row_hashes(texts, seed)
        rows = np.argsort(hashes)
        hashes.sort()
        twice = np.flatnonzero(hashes[1:] == hashes[:-1])
        if not len(twice):
            kind = np.int32 if len(rows) < 1 << 31 else np.int64
            return ExternalTable(source, texts, values, seed, hashes, rows.astype(kind))
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
    source: ExternalSource, texts: tuple[Texts, ...], first: int, second: int
) -> None:
    told = keys_in_words(source, texts, first)
    raise BadInput(
        f"cannot join {source.file}: {told} stands in row {first + 1} and again in row "
        f"{second + 1}: keep one row of each"
    )


def keys_in_words(source: ExternalSource, texts: tuple[Texts, ...], row: int) -> str:
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
