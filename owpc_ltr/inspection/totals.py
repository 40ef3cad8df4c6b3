"""Totals: what one pass over all queries keeps of them, part by part, in little memory.

Besides counts these are the few values of each column that lie far out, and documents that stand
several times in a query, under several grades. Where documents have ids, these tell. Where they
have none, it is the features that tell: of two rows with the same features that no other document
of the query has, as many values of their own as half of all single documents have, and more.
Documents in which little of a query is found share their features by chance, but then others have
the same values too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.dataset import RankingDataset, arrow_of, numbers_in
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import WARNING, Finding
from owpc_ltr.inspection.sample import (
    Data,
    Identities,
    identities_of,
    query_of_rows,
    row_digests,
    value_bits,
)

_NAMED = 5
_BLOCK_CELLS = 1 << 20
_SALT = np.uint64(0x9E3779B97F4A7C15)
_CACHED = 1 << 15
"""Values that are looked at together: they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Of each column the lowest and the highest value, NaN where it has none; and its gaps."""

    lowest: NDArray[np.float32]
    highest: NDArray[np.float32]
    missing: NDArray[np.int64]
    rows: int

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which columns have no value at all."""
        return np.equal(self.missing, self.rows)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns have one and the same value in every row."""
        return np.equal(self.missing, 0) & np.equal(self.lowest, self.highest)

    @property
    def never_changes(self) -> NDArray[np.bool_]:
        """The same of several rows: one document differs from no other in anything."""
        return self.constant & (self.rows > 1)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Which columns are neither empty nor constant."""
        return ~self.empty & ~self.constant


def column_facts(features: Matrix) -> ColumnFacts:
    """Look at every value once; nothing is copied but a block of rows at a time."""
    rows, columns = features.shape
    lowest = np.full(columns, np.nan, np.float32)
    highest, missing = lowest.copy(), np.zeros(columns, np.int64)
    size = max(1, _CACHED // max(columns, 1))
    for start in range(0, rows, size):
        block = features[start : start + size]
        np.fmin(lowest, np.fmin.reduce(block, axis=0), out=lowest)
        np.fmax(highest, np.fmax.reduce(block, axis=0), out=highest)
        missing += np.isnan(block).sum(axis=0)
    return ColumnFacts(lowest, highest, missing, rows)


def facts_together(one: ColumnFacts, other: ColumnFacts) -> ColumnFacts:
    """The facts of the rows of both."""
    return ColumnFacts(
        np.fmin(one.lowest, other.lowest),
        np.fmax(one.highest, other.highest),
        one.missing + other.missing,
        one.rows + other.rows,
    )


@dataclass
class Totals:
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
        for first, last in _query_blocks(part):
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
                _name(self.gone_ids.setdefault(column, []), part, gone[:, column], first)

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
        again = np.searchsorted(part.offsets, _contradicting(part), side="right") - 1
        self.contradicting += len(again)
        _name(self.contradicting_ids, part, np.bincount(again, minlength=part.n_queries) > 0)
        alike = (highest == lowest) & (sizes > 1)
        self.alike += int(alike.sum())
        _name(self.alike_ids, part, alike)
        _name(self.single_ids, part, sizes == 1)


def totals_of(
    named: Mapping[str, Data], limits: Limits, *, identify: bool = True
) -> tuple[Totals, Tails]:
    """One pass over all sources; what lies beyond the limits is kept by value.

    `identify`: also by what each query is known again.
    """
    columns = next(iter(named.values())).n_features
    none, zeros = np.full(columns, np.nan, np.float32), np.zeros(columns, np.int64)
    totals = Totals(
        columns=ColumnFacts(none, none, zeros, 0),
        digests=np.zeros(columns, np.uint64),
        absent=zeros.copy(),
        gone=zeros.copy(),
        gone_rows=zeros.copy(),
        nearly=zeros.copy(),
    )
    tails = Tails(limits)
    for number, (name, data) in enumerate(named.items()):
        row = 0
        for part in data.each(lambda part: part, whole=True):
            totals.add(part, name, row)
            if identify:
                totals.identities.append(identities_of(part, number))
            tails.add(part, name, row)
            row += part.n_documents
    return totals, tails


def _query_blocks(part: RankingDataset) -> Iterator[tuple[int, int]]:
    """Whole queries of about a million values, as (first, after the last)."""
    rows = max(1, _BLOCK_CELLS // max(part.n_features, 1))
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
        rows = features[start : start + step]
        places = np.arange(first + start, first + start + len(rows), dtype=np.uint64)
        factors = (places + np.uint64(1)) * _SALT
        factors ^= factors >> np.uint64(29)
        total += (factors | np.uint64(1)) @ value_bits(rows)
    return total


def _counts(values: NDArray[np.float32] | NDArray[np.int64]) -> dict[float, int]:
    different, counts = np.unique(values, return_counts=True)
    return dict(zip(different.tolist(), counts.tolist(), strict=True))


def _name(ids: list[str], part: RankingDataset, which: NDArray[np.bool_], first: int = 0) -> None:
    """Add the ids of the first few of these queries, counted from number `first` on."""
    queries = np.flatnonzero(which)[: _NAMED - len(ids)]
    ids += [part.query_ids[first + query].as_py() for query in queries.tolist()]


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


class _Values(NamedTuple):
    """Values with their columns, the ids of their queries, and their places in the sources."""

    column: NDArray[np.int64]
    value: NDArray[np.float32]
    query: NDArray[Any]
    source: NDArray[Any]
    row: NDArray[np.int64]

    def at(self, places: NDArray[np.int64]) -> _Values:
        """Those at these places."""
        parts: list[Any] = [part[places] for part in self]
        return _Values(*parts)


class Tails:
    """Values beyond the limits so far, those of all columns together."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        number, text = np.empty(0, np.int64), np.empty(0, object)
        self._parts = [_Values(number, np.empty(0, np.float32), text, text, number)]
        self._most = 8 * KEPT * max(len(limits.centre), 1)

    def add(self, part: RankingDataset, source: str, first: int) -> None:
        """Look at another part, whose rows are those of a source from number `first` on."""
        step = max(1, _CELLS // max(part.n_features, 1))
        for start in range(0, part.n_documents, step):
            rows = part.features[start : start + step]
            beyond = (rows < self.limits.low) | (rows > self.limits.high)
            if beyond.any():
                row, column = np.nonzero(beyond & (rows != 0))
                row += start
                query = np.searchsorted(part.offsets, row, side="right") - 1
                ids = part.query_ids.take(arrow_of(query)).to_numpy(zero_copy_only=False)
                sources = np.full(len(row), source, object)
                values = part.features[row, column]
                self._parts.append(_Values(column, values, ids, sources, first + row))
        if sum(len(values.value) for values in self._parts) > self._most:
            self._parts = [self._farthest()]

    def of(self, end: int, column: int) -> Tail:
        """The farthest values of one end (0 low, 1 high) of a column."""
        if len(self._parts) > 1:
            self._parts = [self._farthest()]
        (values,) = self._parts
        high = values.value > self.limits.centre[column]
        own = values.at(np.flatnonzero((values.column == column) & (high == bool(end))))
        rows = list(zip(own.source.tolist(), own.row.tolist(), strict=True))
        return Tail(self._distance(own), own.value, own.query.tolist(), rows)

    def _distance(self, values: _Values) -> NDArray[np.float64]:
        return np.abs(values.value.astype(np.float64) - self.limits.centre[values.column])

    def _farthest(self) -> _Values:
        """The farthest values of each end of each column, the farthest first."""
        values = _Values(*map(np.concatenate, zip(*self._parts, strict=True)))
        tail = 2 * values.column + (values.value > self.limits.centre[values.column])
        order = np.lexsort((-self._distance(values), tail))
        starts = np.searchsorted(tail[order], np.arange(2 * len(self.limits.centre)))
        place = np.arange(len(order)) - starts[tail[order]]
        return values.at(order[place < KEPT])


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


_KEEP_ONE = (
    "keep one of them: which grade is right its judges must say; a model learns both, and no order "
    "satisfies them"
)


def _contradicting(data: RankingDataset) -> NDArray[np.int64]:
    """The documents whose id stands in their query before, with another grade."""
    if data.doc_ids is None:
        return np.empty(0, np.int64)
    ids = data.doc_ids.dictionary_encode()
    keys = query_of_rows(data) * len(ids.dictionary) + numbers_in(ids.indices).astype(np.int64)
    return _again(keys, data.labels)


def contradicting_grades(totals: Totals, sample: RankingDataset) -> Iterator[Finding]:
    """A finding on the documents told by their ids, or without these by the sample's features."""
    if sample.doc_ids is None:
        rows = _copies(sample)
        if len(rows) <= thresholds.SAME_FEATURES * sample.n_documents:
            return
        first = sample.query_ids[int(query_of_rows(sample)[rows[0]])].as_py()
        count, queries = f"{len(rows):,} of {sample.n_documents:,}", [first]
        what = "have the features of another of their query, and another grade"
    elif totals.contradicting:
        count = f"{totals.contradicting:,} of {totals.documents:,}"
        queries = totals.contradicting_ids
        what = "stand in their query before, with another grade"
    else:
        return
    yield Finding(
        "contradicting-grades",
        WARNING,
        "grades",
        f"{count} documents {what}, as in '{queries[0]}'",
        advice=_KEEP_ONE,
        queries=tuple(queries),
    )


def _copies(data: RankingDataset) -> NDArray[np.int64]:
    """Documents with the features of one other of their query, told apart by chance from others."""
    keys = row_digests(data.features) + query_of_rows(data).astype(np.uint64)
    _, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    pairs = sizes[group] == 2
    rows = _again(np.where(pairs, group, -1 - np.arange(len(group))), data.labels)
    if not len(rows):
        return rows
    own = np.zeros(data.n_documents, np.int64)
    for column in data.features.T:
        _, number, counts = np.unique(column, return_inverse=True, return_counts=True)
        own += counts[number] == sizes[group]
    single = own[sizes[group] == 1]
    return rows[own[rows] >= max(1.0, np.median(single) if len(single) else np.inf)]


def _again(keys: NDArray[np.int64], labels: NDArray[np.float32]) -> NDArray[np.int64]:
    """The rows whose key stands before, with another label."""
    order = np.argsort(keys, kind="stable")
    one, other = order[:-1], order[1:]
    again = other[(keys[one] == keys[other]) & (labels[one] != labels[other])]
    return np.sort(again)
