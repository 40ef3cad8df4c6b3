"""Gathered: what one pass over all queries keeps of them, part by part, in little memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.columns import ColumnFacts, column_facts, facts_together
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.inspection.contradictions import contradicting
from owpc_ltr.inspection.identity import Identities, identities_of
from owpc_ltr.inspection.sample import Data
from owpc_ltr.inspection.tails import Limits, Tails

_NAMED = 5
_CELLS = 1 << 20
_CACHED = 1 << 15
_SALT = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class Gathered:
    """Counts of all queries; of columns what can be told of one row after another.

    `gone` counts, by column, the queries of several documents in which it is absent (missing or
    0) throughout, `gone_rows` their documents, `nearly` the queries in which it is so in half of
    the documents or more, though not in all. Lists of ids hold the first few.
    """

    columns: ColumnFacts
    digests: NDArray[np.uint64]
    absent: NDArray[np.int64]
    gone: NDArray[np.int64]
    gone_rows: NDArray[np.int64]
    nearly: NDArray[np.int64]
    gone_ids: dict[int, list[str]] = field(default_factory=dict)
    lengths: Counter[float] = field(default_factory=Counter)
    grades: Counter[float] = field(default_factory=Counter)
    grade_ids: dict[float, list[str]] = field(default_factory=dict)
    grade_rows: dict[float, tuple[str, int]] = field(default_factory=dict)
    contradicting: int = 0
    contradicting_ids: list[str] = field(default_factory=list)
    alike: int = 0
    alike_ids: list[str] = field(default_factory=list)
    single_ids: list[str] = field(default_factory=list)
    parts: int = 0
    identities: list[Identities] = field(default_factory=list)

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return sum(self.lengths.values())

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return self.columns.rows

    def add(self, part: RankingDataset, name: str, row: int) -> None:
        """Look at another part, whose rows are those of a source from number `row` on."""
        first = self.columns.rows
        self.columns = facts_together(self.columns, column_facts(part.features))
        self.digests += _digests(part.features, first)
        self._add_absences(part)
        self._add_labels(part, name, row)
        self.parts += 1

    def _add_absences(self, part: RankingDataset) -> None:
        for first, last in query_blocks(part):
            starts, sizes = part.offsets[first:last], np.diff(part.offsets[first : last + 1])
            rows = part.features[starts[0] : starts[0] + sizes.sum()]
            # Neither 0 nor missing: both compare false.
            absent = ~(np.abs(rows) > 0)
            counts = np.add.reduceat(absent, starts - starts[0], axis=0, dtype=np.int32)
            self.absent += counts.sum(axis=0)
            several = (sizes > 1)[:, None]
            gone = (counts == sizes[:, None]) & several
            nearly = (2 * counts >= sizes[:, None]) & ~gone & several
            self.gone += gone.sum(axis=0)
            self.nearly += nearly.sum(axis=0)
            self.gone_rows += (gone * sizes[:, None]).sum(axis=0)
            for column in np.flatnonzero(gone.any(axis=0)).tolist():
                known = self.gone_ids.setdefault(column, [])
                if len(known) < _NAMED:
                    found = np.flatnonzero(gone[:, column])[: _NAMED - len(known)]
                    known += [part.query_ids[first + q].as_py() for q in found.tolist()]

    def _add_labels(self, part: RankingDataset, name: str, before: int) -> None:
        sizes = np.diff(part.offsets)
        self.lengths.update(_counts(sizes))
        new = _counts(part.labels)
        self.grades.update(new)
        for grade in new:
            if len(self.grade_ids) < 64 and len(self.grade_ids.setdefault(grade, [])) < _NAMED:
                row = int(np.argmax(part.labels == np.float32(grade)))
                query = int(np.searchsorted(part.offsets, row, side="right")) - 1
                self.grade_rows.setdefault(grade, (name, before + row))
                self.grade_ids[grade].append(part.query_ids[query].as_py())
        highest = np.maximum.reduceat(part.labels, part.offsets[:-1])
        lowest = np.minimum.reduceat(part.labels, part.offsets[:-1])
        again = np.searchsorted(part.offsets, contradicting(part), side="right") - 1
        self.contradicting += len(again)
        _name(self.contradicting_ids, part, np.bincount(again, minlength=part.n_queries) > 0)
        alike = (highest == lowest) & (sizes > 1)
        self.alike += int(alike.sum())
        _name(self.alike_ids, part, alike)
        _name(self.single_ids, part, sizes == 1)


def gather(
    named: Mapping[str, Data], limits: Limits, *, identify: bool = True
) -> tuple[Gathered, Tails]:
    """One pass over all sources; what lies beyond the limits is kept by value.

    Without `identify` it is not reckoned by what a query is known again.
    """
    columns = next(iter(named.values())).n_features
    none, nothing = np.full(columns, np.nan, np.float32), np.zeros(columns, np.int64)
    found = Gathered(
        columns=ColumnFacts(none, none, nothing, 0),
        digests=np.zeros(columns, np.uint64),
        absent=nothing.copy(),
        gone=nothing.copy(),
        gone_rows=nothing.copy(),
        nearly=nothing.copy(),
    )
    tails = Tails(limits)
    for number, (name, data) in enumerate(named.items()):
        row = 0
        for part in [data] if isinstance(data, RankingDataset) else data:
            found.add(part, name, row)
            if identify:
                found.identities.append(identities_of(part, number))
            tails.add(part, name, row)
            row += part.n_documents
    return found, tails


def query_blocks(part: RankingDataset) -> Iterator[tuple[int, int]]:
    """Whole queries of about a million values, as (first, after the last)."""
    rows = max(1, _CELLS // max(part.n_features, 1))
    first = 0
    while first < part.n_queries:
        last = int(np.searchsorted(part.offsets, part.offsets[first] + rows, side="right")) - 1
        last = min(max(last, first + 1), part.n_queries)
        yield first, last
        first = last


def _digests(features: Matrix, first: int) -> NDArray[np.uint64]:
    """A number for each column, from its bits and their rows: equal columns have the same."""
    total = np.zeros(features.shape[1], np.uint64)
    step = max(1, _CACHED // max(features.shape[1], 1))
    for start in range(0, len(features), step):
        rows = features[start : start + step] + np.float32(0)
        rows[np.isnan(rows)] = np.nan
        places = np.arange(first + start, first + start + len(rows), dtype=np.uint64)
        factors = (places + np.uint64(1)) * _SALT
        factors ^= factors >> np.uint64(29)
        total += (factors | np.uint64(1)) @ rows.view(np.uint32).astype(np.uint64)
    return total


def _counts(values: NDArray[np.float32] | NDArray[np.int64]) -> dict[float, int]:
    found, counts = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _name(ids: list[str], part: RankingDataset, which: NDArray[np.bool_]) -> None:
    if len(ids) < _NAMED and which.any():
        found = np.flatnonzero(which)[: _NAMED - len(ids)].tolist()
        ids += [part.query_ids[query].as_py() for query in found]
