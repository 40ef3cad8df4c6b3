"""Identities: by what a query is known again under another id: its text, documents, features."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.sources import content_digests

Digests = NDArray[np.uint64]


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
