"""Totals: what one pass over all queries keeps of them, part by part, in little memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.inspection.columns import column_facts, facts_together
from owpc_ltr.inspection.queries import Identities, contradicting, identities_of
from owpc_ltr.inspection.sample import Data

_NAMED = 5
_BLOCK_CELLS = 1 << 20


class Totals:
    """Counts of all queries; of columns what can be told of one row after another.

    `gone` counts, by column, the queries of several documents in which it is absent (missing or
    0) throughout, `gone_rows` their documents, `nearly` the queries in which it is so in half of
    the documents or more, though not in all. Lists of ids hold the first few.
    """

    def __init__(self, columns: int) -> None:
        self.columns = column_facts(np.empty((0, columns), np.float32))
        self.absent, self.gone, self.gone_rows, self.nearly = np.zeros((4, columns), np.int64)
        self.gone_ids: dict[int, list[str]] = {}
        self.lengths: Counter[int] = Counter()
        self.grades: Counter[float] = Counter()
        self.without_contrast = 0
        self.contradicting = 0
        self.contradicting_ids: list[str] = []
        self.parts = 0
        self.identities: list[Identities] = []

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return sum(self.lengths.values())

    def add(self, part: RankingDataset) -> None:
        """Look at another part."""
        self.columns = facts_together(self.columns, column_facts(part.features))
        for first, last in _query_blocks(part):
            self._add_absences(part, first, last)
        sizes = np.diff(part.offsets)
        for counter, values in ((self.lengths, sizes), (self.grades, part.labels)):
            different, counts = np.unique(values, return_counts=True)
            counter.update(dict(zip(different.tolist(), counts.tolist(), strict=True)))
        highest = np.maximum.reduceat(part.labels, part.offsets[:-1])
        lowest = np.minimum.reduceat(part.labels, part.offsets[:-1])
        self.without_contrast += int(((highest == lowest) & (sizes > 1)).sum())
        again = np.searchsorted(part.offsets, contradicting(part), side="right") - 1
        self.contradicting += len(again)
        _name(self.contradicting_ids, part, np.unique(again))
        self.parts += 1

    def _add_absences(self, part: RankingDataset, first: int, last: int) -> None:
        """Of the queries from number `first` to before `last`."""
        starts, sizes = part.offsets[first:last], np.diff(part.offsets[first : last + 1])
        # Neither 0 nor missing: both compare false.
        absent = ~(np.abs(part.features[starts[0] : part.offsets[last]]) > 0)
        counts = np.add.reduceat(absent, starts - starts[0], axis=0, dtype=np.int32)
        several = (sizes > 1)[:, None]
        gone = (counts == sizes[:, None]) & several
        self.absent += counts.sum(axis=0)
        self.gone += gone.sum(axis=0)
        self.gone_rows += (gone * sizes[:, None]).sum(axis=0)
        self.nearly += ((2 * counts >= sizes[:, None]) & ~gone & several).sum(axis=0)
        for column in np.flatnonzero(gone.any(axis=0)).tolist():
            queries = first + np.flatnonzero(gone[:, column])
            _name(self.gone_ids.setdefault(column, []), part, queries)


def totals_of(named: Mapping[str, Data], *, identify: bool = True) -> Totals:
    """One pass over all sources; `identify`: also by what each query is known again."""
    totals = Totals(next(iter(named.values())).n_features)
    for number, data in enumerate(named.values()):
        for part in data.each(lambda part: part, whole=True):
            totals.add(part)
            if identify:
                totals.identities.append(identities_of(part, number))
    return totals


def _query_blocks(part: RankingDataset) -> Iterator[tuple[int, int]]:
    """Whole queries of about a million values, as (first, after the last)."""
    rows = max(1, _BLOCK_CELLS // max(part.n_features, 1))
    first = 0
    while first < part.n_queries:
        last = int(np.searchsorted(part.offsets, part.offsets[first] + rows, side="right")) - 1
        last = min(max(last, first + 1), part.n_queries)
        yield first, last
        first = last


def _name(ids: list[str], part: RankingDataset, queries: NDArray[np.int64]) -> None:
    """Add the ids of the first few of these queries."""
    ids += [part.query_ids[query].as_py() for query in queries[: _NAMED - len(ids)].tolist()]
