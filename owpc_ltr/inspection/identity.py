"""Identities: by what a query is known again under another id: its text, documents, features."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset

Digests = NDArray[np.uint64]
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
    graded = _mixed(rows ^ (data.labels + np.float32(0)).view(np.uint32).astype(np.uint64))
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
    """A number for each row, from the bits of its values; all NaN are one, and so are the zeros."""
    rows, columns = features.shape
    factors = _mixed(np.arange(1, columns + 1, dtype=np.uint64)) | np.uint64(1)
    step = max(1, _CELLS // max(columns, 1))
    digests = np.empty(rows, np.uint64)
    for first in range(0, rows, step):
        values = features[first : first + step] + np.float32(0)
        values[np.isnan(values)] = np.nan
        digests[first : first + step] = values.view(np.uint32).astype(np.uint64) @ factors
    # Rows are summed: each must be mixed first, or a change could move from one to another.
    return _mixed(digests)


def _mixed(numbers: Digests) -> Digests:
    """Numbers scrambled, different ones staying different (SplitMix64; Steele et al. 2014)."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
