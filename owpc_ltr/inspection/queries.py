"""Queries that stand twice, and documents that stand twice in a query.

A query may be there under two ids, or in two files: held out, it has been learned all the same. It
is recognised by its text, or by the features, and grades, of all its documents.

Documents that stand in their query again, under another grade, are known by their ids. Where they
have none, it is the features that tell: of two rows with the same features that no other document
of the query has, as many values of their own as half of all single documents have, and more.
Documents in which little of a query is found share their features by chance, but then others have
the same values too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Digests, scrambled
from owpc_ltr.data.dataset import RankingDataset, numbers_in
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import NOTE, WARNING, Finding
from owpc_ltr.inspection.sample import query_of_rows

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


def contradicting(data: RankingDataset) -> NDArray[np.int64]:
    """The documents whose id stands in their query before, with another grade."""
    if data.doc_ids is None:
        return np.empty(0, np.int64)
    ids = data.doc_ids.dictionary_encode()
    keys = query_of_rows(data) * len(ids.dictionary) + numbers_in(ids.indices).astype(np.int64)
    return _again(keys, data.labels)


def contradicting_copies(data: RankingDataset) -> NDArray[np.int64]:
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
