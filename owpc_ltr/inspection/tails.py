"""Tails: the few values of each column that lie far out, kept while all rows are passed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.frames import arrow_of

KEPT = 512
"""How many values of each end are kept: an outlier is judged by those below it."""
_CELLS = 1 << 17
"""Values that are looked at together: they and the marks stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Limits:
    """By column the median of what is not 0, and the values beyond which tails begin."""

    centre: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Tail:
    """The values of one end of a column by their distance from the median, largest first."""

    distance: NDArray[np.float64]
    value: NDArray[np.float32]
    query: list[str]
    row: list[tuple[str, int]]


class Tails:
    """Values beyond the limits so far, those of all columns together."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._found = [_Values.none()]
        self._room = 8 * KEPT * max(len(limits.centre), 1)

    def add(self, part: RankingDataset, source: str, first: int) -> None:
        """Look at another part, whose rows are those of a source from number `first` on."""
        step = max(1, _CELLS // max(part.n_features, 1))
        for start in range(0, part.n_documents, step):
            rows = part.features[start : start + step]
            beyond = (rows < self.limits.low) | (rows > self.limits.high)
            if beyond.any():
                row, column = np.nonzero(beyond)
                self._found.append(_values(part, start + row, column, source, first))
        if sum(len(one.value) for one in self._found) > self._room:
            self._found = [self._farthest()]

    def of(self, end: int, column: int) -> Tail:
        """The farthest values of one end (0 low, 1 high) of a column."""
        if len(self._found) > 1:
            self._found = [self._farthest()]
        (found,) = self._found
        high = found.value > self.limits.centre[column]
        own = np.flatnonzero((found.column == column) & (high == bool(end)))
        return Tail(
            self._distance(found)[own],
            found.value[own],
            found.query[own].tolist(),
            list(zip(found.source[own].tolist(), found.row[own].tolist(), strict=True)),
        )

    def _distance(self, found: _Values) -> NDArray[np.float64]:
        return np.abs(found.value.astype(np.float64) - self.limits.centre[found.column])

    def _farthest(self) -> _Values:
        """The farthest values of each end of each column, the farthest first."""
        parts: list[Any] = [np.concatenate(each) for each in zip(*self._found, strict=True)]
        found = _Values(*parts)
        tail = 2 * found.column + (found.value > self.limits.centre[found.column])
        order = np.lexsort((-self._distance(found), tail))
        starts = np.searchsorted(tail[order], np.arange(2 * len(self.limits.centre)))
        place = np.arange(len(order)) - starts[tail[order]]
        return found.at(order[place < KEPT])


class _Values(NamedTuple):
    """Values with their columns, the ids of their queries, and their places in the sources."""

    column: NDArray[np.int64]
    value: NDArray[np.float32]
    query: NDArray[Any]
    source: NDArray[Any]
    row: NDArray[np.int64]

    @classmethod
    def none(cls) -> _Values:
        """No values."""
        number, text = np.empty(0, np.int64), np.empty(0, object)
        return cls(number, np.empty(0, np.float32), text, text, number)

    def at(self, places: NDArray[np.int64]) -> _Values:
        """Those at these places."""
        parts: list[Any] = [part[places] for part in self]
        return _Values(*parts)


def _values(
    part: RankingDataset,
    row: NDArray[np.int64],
    column: NDArray[np.int64],
    source: str,
    first: int,
) -> _Values:
    """What is not 0 there."""
    value = part.features[row, column]
    row, column, value = row[value != 0], column[value != 0], value[value != 0]
    query = np.searchsorted(part.offsets, row, side="right") - 1
    ids = part.query_ids.take(arrow_of(query)).to_numpy(zero_copy_only=False)
    return _Values(column, value, ids, np.full(len(row), source, object), first + row)


def limits_of(features: NDArray[np.float32], rows: int) -> Limits:
    """Limits by sampled rows, beyond which about half of what is kept lies, of so many rows."""
    columns = features.shape[1]
    centre = np.full(columns, np.nan, np.float32)
    low, high = centre.copy(), centre.copy()
    share = min(0.25, KEPT / 2 / max(rows, 1))
    for column in range(columns):
        values = features[:, column]
        values = values[np.isfinite(values) & (values != 0)]
        if not len(values):
            # Whatever is elsewhere is told from 0.
            centre[column] = low[column] = high[column] = 0
            continue
        low[column], centre[column], high[column] = np.quantile(values, (share, 0.5, 1 - share))
    return Limits(centre, low, high)
