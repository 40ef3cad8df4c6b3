"""Tails: the few values of each column that lie far out, kept while all rows are passed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset

KEPT = 512
"""How many values of each end are kept: an outlier is judged by those below it."""
_CELLS = 1 << 20


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


@dataclass
class Tails:
    """Values beyond the limits so far: by end and column, with the ids of their queries."""

    limits: Limits
    found: dict[tuple[int, int], list[_Values]] = field(default_factory=dict)

    def add(self, part: RankingDataset, source: str, first: int) -> None:
        """Look at another part, whose rows are those of a source from number `first` on."""
        step = max(1, _CELLS // max(part.n_features, 1))
        for start in range(0, part.n_documents, step):
            rows = part.features[start : start + step]
            for end, beyond in enumerate((rows < self.limits.low, rows > self.limits.high)):
                for column in np.flatnonzero(beyond.any(axis=0)).tolist():
                    own = np.flatnonzero(beyond[:, column] & (rows[:, column] != 0))
                    far = start + self._farthest(rows, column, own)
                    kept = self.found.setdefault((end, column), [])
                    kept.append(_values(part, column, far, source, first))

    def _farthest(
        self, rows: NDArray[np.float32], column: int, own: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        if len(own) <= KEPT:
            return own
        far = np.abs(rows[own, column] - self.limits.centre[column])
        return own[np.argpartition(far, -KEPT)[-KEPT:]]

    def of(self, end: int, column: int) -> Tail:
        """The farthest values of one end (0 low, 1 high) of a column."""
        found = self.found.get((end, column), [])
        values = np.concatenate([np.empty(0, np.float32), *(one.values for one in found)])
        ids = [query for one in found for query in one.queries]
        rows = [row for one in found for row in one.rows]
        distance = np.abs(values.astype(np.float64) - float(self.limits.centre[column]))
        order = np.argsort(-distance, kind="stable")[:KEPT]
        places = order.tolist()
        return Tail(
            distance[order], values[order], [ids[p] for p in places], [rows[p] for p in places]
        )


class _Values(NamedTuple):
    """Values of a part, with the ids of their queries and their places in the source."""

    values: NDArray[np.float32]
    queries: list[str]
    rows: list[tuple[str, int]]


def _values(
    part: RankingDataset, column: int, rows: NDArray[np.int64], source: str, first: int
) -> _Values:
    queries = np.searchsorted(part.offsets, rows, side="right") - 1
    ids = [part.query_ids[query].as_py() for query in queries.tolist()]
    return _Values(part.features[rows, column], ids, [(source, first + r) for r in rows.tolist()])


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
