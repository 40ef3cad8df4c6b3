"""A sample of whole queries of all files, in memory, for checks that need values together.

Stretches of it are queries in which columns have other values than everywhere else. By sums over
blocks every stretch of blocks is compared with all others, and held against a bound for as many
queries (documents of a query are not independent).

A query may be there under two ids, or in two files: held out, it has been learned all the same. It
is recognised by its text, or by the features, and grades, of all its documents.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

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


class Block(NamedTuple):
    """A run of queries as they stand in a file, or in a part of a folder."""

    source: str
    first: str
    last: str


class Stretch(NamedTuple):
    """The blocks from `first` to before `last`, and how far a column's values there are off."""

    first: int
    last: int
    distance: float = 0.0


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
    most = min(thresholds.SAMPLE_DOCUMENTS, thresholds.SAMPLE_CELLS // width)
    share = min(1.0, most / max(total, 1))
    parts: list[RankingDataset] = []
    blocks: list[Block] = []
    sizes: list[int] = []
    most_blocks = max(1, thresholds.BLOCKS // len(named))
    for name, data in named.items():
        for part, source, cuts in _sampled_parts(name, data, share, most_blocks):
            sizes += np.diff(cuts).tolist()
            ids = part.query_ids
            blocks += [
                Block(source, ids[first].as_py(), ids[last - 1].as_py())
                for first, last in pairwise(cuts)
            ]
            parts.append(part)
    return Sample(together(parts), np.repeat(np.arange(len(blocks)), sizes), tuple(blocks))


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
        count = max(1, min(most_blocks, part.n_queries // thresholds.FEWEST_IN_BLOCK))
        # Blocks of as many queries each.
        yield part, name, np.linspace(0, part.n_queries, count + 1).astype(int).tolist()
        return
    chosen = data.sample(documents)
    pieces = list(zip(chosen.pieces, chosen, strict=True))
    for group in np.array_split(np.arange(len(pieces)), min(most_blocks, len(pieces))):
        members = [pieces[number] for number in group]
        paths = dict.fromkeys((members[0][0].part.path, members[-1][0].part.path))
        source = name if len(pieces) == 1 else f"{name}/{' … '.join(paths)}"
        part = together([part for _, part in members])
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
        fewest = thresholds.FEWEST_IN_BLOCK
        enough = (inside >= fewest) & (outside >= fewest)
        return cls(first[enough], last[enough], inside[enough], outside[enough])

    def bound(self, columns: int) -> NDArray[np.float64]:
        """The distance that chance passes in one of a thousand sets of clean data, in any place.

        Massart's constant for one sample holds for the pair but for a factor below 2, which the
        number of stretches, most of which overlap, makes up for.
        """
        looks = max(1, len(self.first) * columns)
        variance = 1 / self.inside + 1 / self.outside
        bound: NDArray[np.float64] = np.sqrt(np.log(2 * looks / thresholds.CHANCE) / 2 * variance)
        return bound

    def sums(self, values: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The sums over blocks (rows) inside each stretch, and over all others."""
        sums = np.concatenate((np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)))
        inside = sums[self.last] - sums[self.first]
        return inside, sums[-1] - inside

    def at(self, number: int, distance: float = 0.0) -> Stretch:
        """One of them, by its number."""
        return Stretch(int(self.first[number]), int(self.last[number]), distance)


def absent_stretches(sample: Sample, columns: Sequence[int]) -> dict[int, Stretch]:
    """By column the longest stretch in which it is absent (missing, 0) though it is not elsewhere.

    The distance is the difference of the mean share a query, held against Hoeffding's bound.
    """
    every = Stretches.of(sample)
    if not len(every.first):
        return {}
    bound = every.bound(sample.data.n_features)
    stretches = {}
    for column in columns:
        absent = ~(np.abs(sample.data.features[:, column]) > 0)
        sums = every.sums(shares_by_block(sample, absent.astype(np.int64))[:, 1])
        inside, outside = sums[0] / every.inside, sums[1] / every.outside
        gone = (inside >= thresholds.ALWAYS_ABSENT) & (outside <= thresholds.MUCH_PRESENT)
        gone &= inside - outside > bound
        if gone.any():
            best = int(np.argmax(np.where(gone, every.inside, 0)))
            stretches[column] = every.at(best, float(inside[best] - outside[best]))
    return stretches


def value_bins(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Of each value which of `count` bins between quantiles it is in, from 1; 0 if missing."""
    missing = np.isnan(values)
    if missing.all():
        return np.zeros(len(values), np.int64)
    inner = np.quantile(values[~missing], np.linspace(0, 1, count + 1)[1:-1], method="inverted_cdf")
    bins = 1 + np.searchsorted(np.unique(inner), values, side="left")
    bins[missing] = 0
    return bins


def shares_by_block(sample: Sample, bins: NDArray[np.int64]) -> NDArray[np.float64]:
    """By block and bin, the sum over queries of the share of their documents."""
    width = int(bins.max(initial=1)) + 1
    weights = np.repeat(1.0 / np.diff(sample.data.offsets), np.diff(sample.data.offsets))
    cells = sample.block[sample.query] * width + bins
    counts = np.bincount(cells, weights, len(sample.blocks) * width).astype(np.float64)
    return counts.reshape(len(sample.blocks), width)


Mask = NDArray[np.bool_]
_PAIRS = 5
_ADVICE = "give a query one id, and keep it on one side: what is held out has been learned else"
_ALIKE = "features cannot tell these apart: see whether they are one query"


class Identities(NamedTuple):
    """By what each query of a part is known: its id, and numbers, 0 where there is none.

    `graded` is of the features and grades of all documents, where there are several that differ,
    `content` of their features alone.
    """

    source: int
    ids: pa.StringArray
    text: Digests
    graded: Digests
    content: Digests


def same_queries(identities: Sequence[Identities], sources: Sequence[str]) -> Iterator[Finding]:
    """Queries that are on two sides: the files, or of one file those that `train` makes of it.

    By their ids (in two files), their texts without case and punctuation, or the features and
    grades of all their documents. Of other texts, or other grades, they are queries that the
    features cannot tell apart, which is but noted.
    """
    numbers, arrays, *digests = zip(*identities, strict=True)
    ids = pa.concat_arrays(arrays)
    text, graded, content = map(np.concatenate, digests)
    kinds: list[tuple[str, Digests, str]] = [
        ("text", text, _ADVICE),
        ("features and grades of all documents", np.where(text == 0, graded, 0), _ADVICE),
        ("features of all documents, and other texts or grades,", content, _ALIKE),
    ]
    side: NDArray[Any]
    if len(sources) == 1:
        side = names = HashSplit().sides_of(ids.to_pylist())
        where = "on two sides of the split that train makes"
    else:
        side = np.repeat(numbers, [len(array) for array in arrays])
        names, where = np.array(sources)[side], "in two files"
        codes = np.asarray(ids.dictionary_encode().indices.to_numpy(), np.uint64)
        kinds.insert(0, ("id", codes + np.uint64(1), _ADVICE))
    matched = np.zeros(len(text), bool)
    for what, codes, advice in kinds:
        pairs, crossing = _crossing(codes, side, (codes != 0) & ~matched)
        count = int(crossing.sum())
        if pairs:
            many = advice == _ADVICE and count > thresholds.SAME_QUERIES * len(text)
            both = " and ".join(f"'{ids[row].as_py()}' ({names[row]})" for row in pairs[0])
            first = dict.fromkeys(ids[row].as_py() for pair in pairs[:_PAIRS] for row in pair)
            yield Finding(
                "split-leak",
                WARNING if many else NOTE,
                f"{count:,} queries",
                f"{count:,} queries with the same {what} are {where}, as {both}",
                advice=advice,
                queries=tuple(first),
            )
        matched |= crossing


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


_CELLS = 1 << 20


def identities_of(part: RankingDataset, source: int) -> Identities:
    """The identities of all queries of a part; the order of the documents is all one."""
    rows, starts = row_digests(part.features), part.offsets[:-1]
    graded = _mixed(rows ^ value_bits(part.labels))
    # Queries in which no document differs from another are not known by their documents.
    differ = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
    with_grades, alone = (
        np.where(differ, np.add.reduceat(digests, starts), np.uint64(0))
        for digests in (graded, rows)
    )
    return Identities(source, part.query_ids, _texts(part), with_grades, alone)


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
    if part.query_params is None:
        return np.zeros(part.n_queries, np.uint64)
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
