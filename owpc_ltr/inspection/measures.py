"""What the checks measure: columns, and a sample of whole queries; and where each begins to speak.

The thresholds stand first, with their reasons: bounds where there is one, else by measurement.
"Clean" there are MSRD movies (13,000 queries) and OHSUMED in its LETOR 2.0 and 3.0 forms, which
must raise no warning. Of columns there are the lowest and the highest value, what is missing, and
which are constant. The sample is of all files, in memory, for checks that need values together. A
stretch is a run of its queries, or more exactly of blocks of them. By sums over blocks every
stretch is compared with all other queries, and held against a bound for as many queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import PartitionedDataset
from owpc_ltr.inspection.result import NOTE, WARNING, Finding, listed, of_columns

CHANCE = 1e-3
"""The chance that a check by a bound speaks of clean data, all columns and places together."""

FEWEST_QUERIES = 20
"""Below these a share of queries says nothing: 0 of 20 leaves up to 14 % possible (95 %)."""

SAMPLE_DOCUMENTS = 50_000
"""Documents that are compared by value: quantiles are then good to .01 (Dvoretzky et al.)."""

SAMPLE_CELLS = 1 << 24
"""The same in values, for wide data: 64 MiB."""

BLOCKS = 32
"""Stretches of queries that are told apart; a fault in less than 3 % of them is not seen."""

FEWEST_IN_BLOCK = 5
"""Queries of a stretch: fewer could not pass the bound of a stretch anyway."""

DRIFT = 0.25
"""The least distance (Kolmogorov–Smirnov) of a file's values from all others that matters: the
folds of OHSUMED are nearer."""

OFTEN_MISSING = 0.95
"""Above this share a column is noted: in clean data fields that few documents have reach .9."""

RARELY_ABSENT = 0.5
NEARLY = 0.5
"""A column is gone from queries by accident where it is elsewhere mostly there, and where not half
as many queries lack most of it as lack all: in movies text scores have 10 and more for each."""

ALWAYS_ABSENT = 0.995
MUCH_PRESENT = 0.7
"""A stretch where a column is gone, against at most so often absent elsewhere."""

REVERSED = 0.05
"""The share of queries with labels against the others that is warned of: of movies by ten simple
features .02 look so, as queries that the features do not know."""

NO_AGREEMENT = 0.25
"""Labels of a stretch agree with a ranker of the others by less than this part of what those do."""

SAME_FEATURES = 0.003
"""The share of documents with the features of another and another grade, where none has an id:
without their ids OHSUMED has .0001 to .0008 of them."""

LEAK_BINS = 256
SEPARATED = 0.98
"""What a column that knows the grade has right of the pairs; strong honest ones have .9."""

FEWEST_SPIKES = 3
"""Queries without any value of a column: two could be two odd queries."""

LEVELS = 20
"""More different grades than these are measurements (click rates)."""

SAME_QUERIES = 0.01
"""The share of queries on two sides from which held-out figures are flattered by a per cent."""


_CACHED = 1 << 15
"""Values that are looked at together: they stay in the processor's cache."""
CHECK_TEMPLATES = "check the templates and fields"
_GUESS = f"{CHECK_TEMPLATES}: one that is misspelt matches nothing"


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


def facts_together(first: ColumnFacts, other: ColumnFacts) -> ColumnFacts:
    """The facts of the rows of both."""
    return ColumnFacts(
        np.fmin(first.lowest, other.lowest),
        np.fmax(first.highest, other.highest),
        first.missing + other.missing,
        first.rows + other.rows,
    )


def constant_columns(facts: ColumnFacts, names: Sequence[str]) -> Iterator[Finding]:
    """A finding on the columns without any value, and one on those whose value never changes."""
    empty = [names[column] for column in np.flatnonzero(facts.empty).tolist()]
    if empty:
        message = f"no document has a value for {listed(empty)}"
        yield of_columns("constant-column", empty, message, _GUESS)
    values = {
        names[column]: float(facts.lowest[column])
        for column in np.flatnonzero(facts.never_changes).tolist()
    }
    # A numbered feature of a published form has no field, and 0 is how it is left out.
    unused = [name for name, value in values.items() if value == 0 and name.isdecimal()]
    used = [name for name in values if name not in unused]
    for columns, advice, severity in (
        (unused, "the features of these numbers are not used", NOTE),
        (used, _GUESS, WARNING),
    ):
        if columns:
            each = listed([f"{name} ({values[name]:g})" for name in columns])
            message = f"every document has the same value for {each}"
            yield of_columns("constant-column", columns, message, advice, severity)


def constant_features(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The columns that tell no document from another, for want of values or of differences."""
    columns = np.flatnonzero(facts.empty | facts.never_changes).tolist()
    return [names[column] for column in columns]


def constant_in_training(constant: Sequence[str]) -> list[str]:
    """A line on the features that nothing could be learned from, if there are any."""
    if not constant:
        return []
    return [
        f"no value, or one and the same, in all documents: {listed(constant)}: nothing was learned "
        f"from them; {CHECK_TEMPLATES}"
    ]


Data = RankingDataset | PartitionedDataset


class Block(NamedTuple):
    """A run of queries as they stand in a file, or in some parts (the `source`) of a folder."""

    file: str
    source: str
    first: str
    last: str


class Stretch(NamedTuple):
    """The blocks from `first` to before `last`."""

    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Sample:
    """Whole queries, each of a block; `block` has one number a query, never decreasing."""

    data: RankingDataset
    block: NDArray[np.int64]
    blocks: tuple[Block, ...]

    @cached_property
    def query(self) -> NDArray[np.int64]:
        """The query number of each document."""
        return query_of_rows(self.data)

    def ends(self, stretch: Stretch) -> tuple[str, str]:
        """The ids of the first and the last query of a stretch."""
        return self.blocks[stretch.first].first, self.blocks[stretch.last - 1].last

    def place(self, stretch: Stretch) -> str:
        """Where a stretch is, in words."""
        inside = Counter(block.source for block in self.blocks[stretch.first : stretch.last])
        sources = Counter(block.source for block in self.blocks)
        if len(sources) > 1 and all(count == sources[name] for name, count in inside.items()):
            return f"in {listed([*inside])}"
        first, last = self.ends(stretch)
        source = f" ({next(iter(inside))})" if len(inside) == 1 < len(sources) else ""
        return f"from about query '{first}' to '{last}'{source}"


def query_of_rows(data: RankingDataset) -> NDArray[np.int64]:
    """The number of the query of each document."""
    return np.repeat(np.arange(data.n_queries), np.diff(data.offsets))


def take_sample(named: Mapping[str, Data]) -> Sample:
    """About as many documents as the checks need, of each source by its share."""
    total = sum(data.n_documents for data in named.values())
    width = max(next(iter(named.values())).n_features, 1)
    most = min(SAMPLE_DOCUMENTS, SAMPLE_CELLS // width)
    share = min(1.0, most / max(total, 1))
    parts: list[RankingDataset] = []
    blocks: list[Block] = []
    sizes: list[int] = []
    most_blocks = max(1, BLOCKS // len(named))
    for name, data in named.items():
        for part, source, cuts in _sampled_parts(name, data, share, most_blocks):
            sizes += np.diff(cuts).tolist()
            ids = part.query_ids
            blocks += [
                Block(name, source, ids[first].as_py(), ids[last - 1].as_py())
                for first, last in pairwise(cuts)
            ]
            parts.append(part)
    return Sample(_together(parts), np.repeat(np.arange(len(blocks)), sizes), tuple(blocks))


def sampled(data: RankingDataset, documents: int) -> RankingDataset:
    """Whole queries of about so many documents, in their order."""
    if data.n_documents <= documents:
        return data
    return data.select(queries_within(data, documents, seed=0))


def queries_within(data: RankingDataset, documents: int, seed: int) -> NDArray[np.int64]:
    """The numbers of whole queries of about so many documents, drawn at random, in their order."""
    order = np.random.default_rng(seed).permutation(data.n_queries)
    fits = np.cumsum(np.diff(data.offsets)[order]) <= documents
    fits[0] = True
    return np.sort(order[fits])


def _together(parts: list[RankingDataset]) -> RankingDataset:
    """The queries of all parts; their ids may be in several, which no other dataset allows."""
    if len(parts) == 1:
        return parts[0]
    rows = np.cumsum([0, *(part.n_documents for part in parts)])
    starts = [part.offsets[:-1] + first for part, first in zip(parts, rows, strict=False)]
    have_ids = all(part.doc_ids is not None for part in parts)
    return RankingDataset(
        features=np.concatenate([part.features for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        offsets=np.append(np.concatenate(starts), rows[-1]),
        query_ids=_numbered([name for part in parts for name in part.query_ids.to_pylist()]),
        feature_names=parts[0].feature_names,
        doc_ids=pa.concat_arrays([part.doc_ids for part in parts]) if have_ids else None,
    )


def _numbered(ids: list[str]) -> pa.StringArray:
    """The ids, with a number behind those that came before."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in ids:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return pa.array(numbered, pa.string())


def _sampled_parts(
    name: str, data: Data, share: float, most_blocks: int
) -> Iterator[tuple[RankingDataset, str, list[int]]]:
    """Sampled parts, each with the name of its source and the queries at which blocks are cut."""
    documents = int(share * data.n_documents) if share < 1 else data.n_documents
    if isinstance(data, RankingDataset):
        part = sampled(data, documents)
        count = max(1, min(most_blocks, part.n_queries // FEWEST_IN_BLOCK))
        # Blocks of as many queries each.
        yield part, name, np.linspace(0, part.n_queries, count + 1).astype(int).tolist()
        return
    chosen = data.sample(documents)
    pieces = list(zip(chosen.pieces, chosen, strict=True))
    for group in np.array_split(np.arange(len(pieces)), min(most_blocks, len(pieces))):
        members = [pieces[number] for number in group]
        paths = dict.fromkeys((members[0][0].part.path, members[-1][0].part.path))
        source = name if len(pieces) == 1 else f"{name}/{' … '.join(paths)}"
        part = _together([part for _, part in members])
        yield part, source, [0, part.n_queries]


@dataclass(frozen=True, eq=False)
class Stretches:
    """All stretches of blocks that leave enough queries inside and outside."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    inside: NDArray[np.int64]
    outside: NDArray[np.int64]

    @classmethod
    def of(cls, sample: Sample, queries: NDArray[np.int64] | None = None) -> Stretches:
        """The stretches of the blocks of a sample, counting these queries, by default all."""
        block = sample.block if queries is None else sample.block[queries]
        sizes = np.bincount(block, minlength=len(sample.blocks))
        first, last = np.triu_indices(len(sizes) + 1, 1)
        ends = np.concatenate(([0], np.cumsum(sizes)))
        inside = ends[last] - ends[first]
        outside = ends[-1] - inside
        fewest = FEWEST_IN_BLOCK
        enough = (inside >= fewest) & (outside >= fewest)
        return cls(first[enough], last[enough], inside[enough], outside[enough])

    def sums(self, values: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The sums over blocks inside each stretch, and over all others."""
        sums = np.concatenate(([0.0], np.cumsum(values)))
        inside = sums[self.last] - sums[self.first]
        return inside, sums[-1] - inside

    def at(self, number: int) -> Stretch:
        """One of them, by its number."""
        return Stretch(int(self.first[number]), int(self.last[number]))


def value_bins(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Of each value which of `count` bins between quantiles it is in, from 1; 0 if missing."""
    missing = np.isnan(values)
    if missing.all():
        return np.zeros(len(values), np.int64)
    inner = np.quantile(values[~missing], np.linspace(0, 1, count + 1)[1:-1], method="inverted_cdf")
    bins = 1 + np.searchsorted(np.unique(inner), values, side="left")
    bins[missing] = 0
    return bins
