"""The sample: whole queries of all files, in memory, for checks that need values together.

Stretches of it are queries in which columns have other values than everywhere else, or each
other's. A column's values are counted by bins between its quantiles, each query counting once. By
sums over blocks every stretch of blocks is compared with all others: by the Kolmogorov–Smirnov
distance, and held against its bound for as many queries (documents of a query are not independent).

A query may be there under two ids, or in two files: held out, it has been learned all the same. It
is recognised by its text, or by the features, and grades, of all its documents.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Digests, scrambled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import NOTE, WARNING, Finding, listed

Data = RankingDataset | PartitionedDataset


@dataclass(frozen=True)
class Block:
    """A stretch of queries as they stand in a file, or in a part of a folder."""

    source: str
    first: str
    last: str


@dataclass(frozen=True, eq=False)
class Sample:
    """Whole queries, each of a block; `block` has one number a query, never decreasing."""

    data: RankingDataset
    block: NDArray[np.int64]
    blocks: tuple[Block, ...]

    @cached_property
    def query(self) -> NDArray[np.int64]:
        """The query number of each document."""
        return np.repeat(np.arange(self.data.n_queries), np.diff(self.data.offsets))

    def ends(self, first: int, last: int) -> tuple[str, str]:
        """The ids of the first and the last query of the blocks from `first` to before `last`."""
        return self.blocks[first].first, self.blocks[last - 1].last

    def place(self, first: int, last: int) -> str:
        """The blocks from `first` to before `last` in words."""
        one, other = self.blocks[first], self.blocks[last - 1]
        here = Counter(block.source for block in self.blocks[first:last])
        everywhere = Counter(block.source for block in self.blocks)
        if len(everywhere) > 1 and all(here[name] == everywhere[name] for name in here):
            return f"in {listed([*here])}"
        where = f" ({one.source})" if len(here) == 1 < len(everywhere) else ""
        return f"from about query '{one.first}' to '{other.last}'{where}"


def take_sample(named: Mapping[str, Data]) -> Sample:
    """About as many documents as a look needs, of each source by its share."""
    total = sum(data.n_documents for data in named.values())
    width = max(next(iter(named.values())).n_features, 1)
    most = min(thresholds.SAMPLE_DOCUMENTS, thresholds.SAMPLE_CELLS // width)
    share = min(1.0, most / max(total, 1))
    parts: list[RankingDataset] = []
    blocks: list[Block] = []
    numbers: list[NDArray[np.int64]] = []
    room = max(1, thresholds.BLOCKS // len(named))
    for name, data in named.items():
        for part, own in _stretches(name, data, share, room):
            counts = np.array([count for _, count in own])
            numbers.append(len(blocks) + np.repeat(np.arange(len(own)), counts))
            blocks += [block for block, _ in own]
            parts.append(part)
    return Sample(together(parts), np.concatenate(numbers), tuple(blocks))


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


def together(parts: list[RankingDataset]) -> RankingDataset:
    """The queries of all parts; their ids may be in several, which no other dataset allows."""
    if len(parts) == 1:
        return parts[0]
    rows = np.cumsum([0, *(part.n_documents for part in parts)])
    starts = [part.offsets[:-1] + first for part, first in zip(parts, rows, strict=False)]
    known = all(part.doc_ids is not None for part in parts)
    return RankingDataset(
        features=np.concatenate([part.features for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        offsets=np.append(np.concatenate(starts), rows[-1]),
        query_ids=_one_each([one for part in parts for one in part.query_ids.to_pylist()]),
        feature_names=parts[0].feature_names,
        doc_ids=pa.concat_arrays([part.doc_ids for part in parts]) if known else None,
    )


def _one_each(ids: list[str]) -> pa.StringArray:
    """The ids, with a number behind those that came before."""
    seen: dict[str, int] = {}
    named = []
    for one in ids:
        seen[one] = seen.get(one, 0) + 1
        named.append(one if seen[one] == 1 else f"{one} ({seen[one]})")
    return pa.array(named, pa.string())


def _stretches(
    name: str, data: Data, share: float, room: int
) -> Iterator[tuple[RankingDataset, list[tuple[Block, int]]]]:
    """Sampled parts, each with its blocks and how many queries these have."""
    documents = int(share * data.n_documents) if share < 1 else data.n_documents
    if isinstance(data, RankingDataset):
        part = sampled(data, documents)
        yield part, _cut(name, part, room)
        return
    chosen = data.sample(documents)
    pieces = list(zip(chosen.pieces, chosen, strict=True))
    for group in np.array_split(np.arange(len(pieces)), min(room, len(pieces))):
        some = [pieces[number] for number in group]
        paths = [piece.part.path for piece, _ in some]
        part = together([part for _, part in some])
        named = (
            name
            if len(pieces) == 1
            else f"{name}/{' … '.join(dict.fromkeys((paths[0], paths[-1])))}"
        )
        ids = part.query_ids
        block = Block(named, ids[0].as_py(), ids[-1].as_py())
        yield part, [(block, part.n_queries)]


def _cut(name: str, part: RankingDataset, room: int) -> list[tuple[Block, int]]:
    """Blocks of as many queries each."""
    count = max(1, min(room, part.n_queries // thresholds.FEWEST_IN_BLOCK))
    ends = np.linspace(0, part.n_queries, count + 1).astype(int)
    ids = part.query_ids
    return [
        (Block(name, ids[first].as_py(), ids[last - 1].as_py()), last - first)
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]


_BINS = 22


@dataclass(frozen=True)
class Stretch:
    """The blocks from `first` to before `last`, and how far a column's values there are off."""

    first: int
    last: int
    distance: float


@dataclass(frozen=True, eq=False)
class Stretches:
    """All stretches of blocks that leave enough queries inside and outside."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    inside: NDArray[np.int64]
    outside: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> Stretches:
        """The stretches of blocks of so many queries."""
        first, last = np.triu_indices(len(sizes) + 1, 1)
        ends = np.concatenate(([0], np.cumsum(sizes)))
        inside = ends[last] - ends[first]
        outside = ends[-1] - inside
        fewest = thresholds.FEWEST_IN_BLOCK
        kept = (inside >= fewest) & (outside >= fewest)
        return cls(first[kept], last[kept], inside[kept], outside[kept])

    def bound(self, columns: int) -> NDArray[np.float64]:
        """The distance that chance passes in one of a thousand sets of clean data, in any place.

        Massart's constant for one sample holds for the pair but for a factor below 2, which the
        number of stretches, most of which overlap, makes up for.
        """
        looks = max(1, len(self.first) * columns)
        variance = 1 / self.inside + 1 / self.outside
        bound: NDArray[np.float64] = np.sqrt(np.log(2 * looks / thresholds.CHANCE) / 2 * variance)
        return bound


def moved_columns(sample: Sample) -> dict[int, Stretch]:
    """By column the stretch that differs most from the rest, where chance does not explain it."""
    sizes = np.bincount(sample.block, minlength=len(sample.blocks))
    every = Stretches.of(sizes)
    if not len(every.first):
        return {}
    features = sample.data.features
    bound = np.maximum(every.bound(features.shape[1]), thresholds.MOVED)
    found = {}
    for column in range(features.shape[1]):
        counts = _counts(sample, value_bins(features[:, column], _BINS))
        distance = _distances(counts, every)
        best = int(np.argmax(distance / bound))
        if distance[best] > bound[best]:
            stretch = Stretch(int(every.first[best]), int(every.last[best]), float(distance[best]))
            found[column] = stretch
    return found


def ks_distance(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """The largest difference of the distribution functions of two samples; 1 if one is empty."""
    if not len(one) or not len(other):
        return 1.0
    one, other = np.sort(one), np.sort(other)
    # Where values tie, both functions step there together.
    at = np.concatenate((one, other))
    return float(
        np.abs(
            np.searchsorted(one, at, side="right") / len(one)
            - np.searchsorted(other, at, side="right") / len(other)
        ).max()
    )


def rows_in(sample: Sample, stretch: Stretch) -> NDArray[np.bool_]:
    """Which documents are in a stretch."""
    inside = (sample.block >= stretch.first) & (sample.block < stretch.last)
    return inside[sample.query]


def absent_stretches(sample: Sample, columns: Sequence[int]) -> dict[int, Stretch]:
    """By column the longest stretch in which it is absent (missing, 0) though it is not elsewhere.

    The distance is the difference of the mean share a query, held against Hoeffding's bound.
    """
    sizes = np.bincount(sample.block, minlength=len(sample.blocks))
    every = Stretches.of(sizes)
    if not len(every.first):
        return {}
    bound = every.bound(sample.data.n_features)
    found = {}
    for column in columns:
        absent = ~(np.abs(sample.data.features[:, column]) > 0)
        counts = _counts(sample, absent.astype(np.int64))[:, 1]
        sums = np.concatenate(([0.0], np.cumsum(counts)))
        own = sums[every.last] - sums[every.first]
        inside, outside = own / every.inside, (sums[-1] - own) / every.outside
        gone = (inside >= thresholds.ALWAYS_ABSENT) & (outside <= thresholds.MUCH_PRESENT)
        gone &= inside - outside > bound
        if gone.any():
            best = int(np.argmax(np.where(gone, every.inside, 0)))
            difference = float(inside[best] - outside[best])
            found[column] = Stretch(int(every.first[best]), int(every.last[best]), difference)
    return found


def value_bins(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Of each value which of `count` bins between quantiles it is in, from 1; 0 if missing."""
    there = values[~np.isnan(values)]
    if not len(there):
        return np.zeros(len(values), np.int64)
    inner = np.quantile(there, np.linspace(0, 1, count + 1)[1:-1], method="inverted_cdf")
    bins = 1 + np.searchsorted(np.unique(inner), values, side="left")
    bins[np.isnan(values)] = 0
    return bins


def _counts(sample: Sample, bins: NDArray[np.int64]) -> NDArray[np.float64]:
    """By block and bin, the sum over queries of the share of their documents."""
    width = int(bins.max(initial=1)) + 1
    weights = np.repeat(1.0 / np.diff(sample.data.offsets), np.diff(sample.data.offsets))
    cells = sample.block[sample.query] * width + bins
    counts = np.bincount(cells, weights, len(sample.blocks) * width).astype(np.float64)
    return counts.reshape(len(sample.blocks), width)


def _distances(counts: NDArray[np.float64], every: Stretches) -> NDArray[np.float64]:
    """The distance of each stretch from all other queries."""
    below = np.cumsum(counts, axis=1)
    sums = np.concatenate((np.zeros((1, below.shape[1])), np.cumsum(below, axis=0)))
    own = sums[every.last] - sums[every.first]
    rest = sums[-1] - own
    inside, outside = every.inside[:, None], every.outside[:, None]
    distance: NDArray[np.float64] = np.abs(own / inside - rest / outside).max(axis=1)
    return distance


_MOST = 32
"""Columns that are compared in pairs: those farthest off."""
_ROWS = 4_000
"""Documents of each side that are compared, at even steps."""


def swapped_columns(sample: Sample, moved: Mapping[int, Stretch]) -> Iterator[Finding]:
    """A finding for each pair, with its place."""
    farthest = sorted(moved, key=lambda column: -moved[column].distance)[:_MOST]
    for one, other in combinations(sorted(farthest), 2):
        for stretch in dict.fromkeys((moved[one], moved[other])):
            if _exchanged(sample, one, other, stretch):
                yield _swap_finding(sample, one, other, stretch)
                break


def _exchanged(sample: Sample, one: int, other: int, stretch: Stretch) -> bool:
    """Whether each is far from itself, and like the other, inside as against outside."""
    rows = rows_in(sample, stretch)
    inside, outside = _some(np.flatnonzero(rows)), _some(np.flatnonzero(~rows))
    pair = sample.data.features[:, [one, other]]
    (a, b), (c, d) = pair[inside].T, pair[outside].T
    own = min(ks_distance(a, c), ks_distance(b, d))
    if own < thresholds.MOVED:
        return False
    return max(ks_distance(a, d), ks_distance(b, c)) < thresholds.SAME_SHAPE * own


def _some(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows[:: max(1, len(rows) // _ROWS)]


def _swap_finding(sample: Sample, one: int, other: int, stretch: Stretch) -> Finding:
    names = sample.data.feature_names[one], sample.data.feature_names[other]
    return Finding(
        "swapped-columns",
        WARNING,
        f"{names[0]}, {names[1]}",
        f"'{names[0]}' and '{names[1]}' have each other's values "
        f"{sample.place(stretch.first, stretch.last)}",
        advice="check how these rows were made: columns in another order, or names exchanged",
        columns=names,
        queries=sample.ends(stretch.first, stretch.last),
    )


Mask = NDArray[np.bool_]
_PAIRS = 5
_ADVICE = "give a query one id, and keep it on one side: what is held out has been learned else"
_ALIKE = "features cannot tell these apart: see whether they are one query"


@dataclass(frozen=True, eq=False)
class _Sides:
    """Where each query is: its number and name; the files, or the sides of a split."""

    ids: pa.StringArray
    side: NDArray[Any]
    name: NDArray[Any]
    where: str


def same_queries(identities: Sequence[Identities], sources: Sequence[str]) -> Iterator[Finding]:
    """Queries that are on two sides: the files, or of one file those that `train` makes of it.

    By their ids (in two files), their texts without case and punctuation, or the features and
    grades of all their documents. Of other texts, or other grades, they are queries that the
    features cannot tell apart, which is but noted.
    """
    sides = _sides(identities, sources)
    text = np.concatenate([one.text for one in identities])
    graded = np.concatenate([one.graded for one in identities])
    content = np.concatenate([one.content for one in identities])
    kinds: list[tuple[str, Digests, str]] = [
        ("text", text, _ADVICE),
        ("features and grades of all documents", np.where(text == 0, graded, 0), _ADVICE),
        ("features of all documents, and other texts or grades,", content, _ALIKE),
    ]
    if len(sources) > 1:
        kinds.insert(0, ("id", _codes(sides.ids), _ADVICE))
    known = np.zeros(len(text), bool)
    for what, codes, advice in kinds:
        pairs, crossing = _crossing(codes, sides.side, (codes != 0) & ~known)
        count = int(crossing.sum())
        if pairs:
            many = advice == _ADVICE and count > thresholds.SAME_QUERIES * len(text)
            yield _finding(what, pairs, count, sides, advice, many=many)
        known |= crossing


def _sides(identities: Sequence[Identities], sources: Sequence[str]) -> _Sides:
    ids = pa.concat_arrays([one.ids for one in identities])
    source = np.repeat([one.source for one in identities], [len(one.ids) for one in identities])
    if len(sources) > 1:
        return _Sides(ids, source, np.array(sources)[source], "in two files")
    sides = HashSplit().sides_of(ids.to_pylist())
    return _Sides(ids, sides, sides, "on two sides of the split that train makes")


def _codes(ids: pa.StringArray) -> Digests:
    codes = np.asarray(ids.dictionary_encode().indices.to_numpy(), np.uint64)
    return codes + np.uint64(1)


def _crossing(
    codes: Digests, sides: NDArray[Any], usable: Mask
) -> tuple[list[tuple[int, int]], Mask]:
    """Pairs of usable queries with the same code on two sides, and who is in any of them."""
    crossing = np.zeros(len(codes), bool)
    rows = np.flatnonzero(usable)
    if len(rows) < 2:
        return [], crossing
    rows = rows[np.argsort(codes[rows], kind="stable")]
    new = np.append(True, codes[rows][1:] != codes[rows][:-1])
    group = np.cumsum(new) - 1
    # What most queries share is nothing of theirs.
    shared = np.bincount(group)[group] > max(2, len(codes) // 2)
    first = rows[np.flatnonzero(new)][group]
    other = (sides[rows] != sides[first]) & ~shared
    mixed = np.bincount(group, other) > 0
    crossing[rows[mixed[group]]] = True
    return list(zip(first[other].tolist(), rows[other].tolist(), strict=True)), crossing


def _finding(
    what: str, pairs: list[tuple[int, int]], count: int, sides: _Sides, advice: str, *, many: bool
) -> Finding:
    shown = tuple(dict.fromkeys(sides.ids[row].as_py() for pair in pairs[:_PAIRS] for row in pair))
    both = [f"'{sides.ids[row].as_py()}' ({sides.name[row]})" for row in pairs[0]]
    return Finding(
        "split-leak",
        WARNING if many else NOTE,
        f"{count:,} queries",
        f"{count:,} queries with the same {what} are {sides.where}, as {' and '.join(both)}",
        advice=advice,
        queries=shown,
    )


_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class Identities:
    """Numbers by query, 0 where there is nothing to know it by."""

    source: int
    ids: pa.StringArray
    text: Digests
    graded: Digests
    """Of the features and grades of all documents, where there are several that differ."""
    content: Digests
    """Of the features alone."""


def identities_of(part: RankingDataset, source: int) -> Identities:
    """The identities of all queries of a part."""
    plain, graded = content_digests(part)
    return Identities(source, part.query_ids, _texts(part), graded, plain)


def content_digests(data: RankingDataset) -> tuple[Digests, Digests]:
    """Numbers for each query, from its documents' features, and from these and their grades.

    The order of the documents is all one. 0 where no document differs from another.
    """
    rows, starts = row_digests(data.features), data.offsets[:-1]
    graded = _mixed(rows ^ value_bits(data.labels))
    differ = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
    sums = (np.add.reduceat(each, starts) for each in (rows, graded))
    plain, with_grades = (np.where(differ, each, np.uint64(0)) for each in sums)
    return plain, with_grades


def normalised(texts: pa.StringArray) -> pa.StringArray:
    """Texts without case, punctuation, and forms of the same letter.

    >>> normalised(pa.array(["Spider-Man  2", "spider man 2"])).to_pylist()
    ['spider man 2', 'spider man 2']
    """
    plain = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC"))
    words = pc.replace_substring_regex(plain, r"[^\pL\pN]+", " ")
    return pc.utf8_trim_whitespace(words)


def _texts(part: RankingDataset) -> Digests:
    """Of the parameters that a query was logged with: its words, and whatever else it asks."""
    none = np.zeros(part.n_queries, np.uint64)
    if part.query_params is None:
        return none
    texts = normalised(part.query_params)
    digests = (
        hashlib.blake2b(text.encode(), digest_size=8).digest() if text else bytes(8)
        for text in texts.to_pylist()
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def row_digests(features: NDArray[np.float32]) -> Digests:
    """A number for each row, from the bits of its values."""
    rows, columns = features.shape
    factors = _mixed(np.arange(1, columns + 1, dtype=np.uint64)) | np.uint64(1)
    step = max(1, _CELLS // max(columns, 1))
    digests = np.empty(rows, np.uint64)
    for first in range(0, rows, step):
        digests[first : first + step] = value_bits(features[first : first + step]) @ factors
    # Rows are summed: each must be mixed first, or a change could move from one to another.
    return _mixed(digests)


def value_bits(features: NDArray[np.float32]) -> Digests:
    """The bits of the values; all NaN have the same ones, and so have the zeros."""
    values = features + np.float32(0)
    values[np.isnan(values)] = np.nan
    return values.view(np.uint32).astype(np.uint64)


def _mixed(numbers: Digests) -> Digests:
    return scrambled(numbers * np.uint64(0x9E3779B97F4A7C15))
