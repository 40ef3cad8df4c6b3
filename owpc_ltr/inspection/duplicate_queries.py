"""The same query under two ids, or in two files: held out, it has been learned all the same.

A query is recognised by its text, or by the features, and grades, of all its documents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Digests, scrambled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import NOTE, WARNING, Finding

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
