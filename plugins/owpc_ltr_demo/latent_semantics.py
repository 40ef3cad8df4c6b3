"""Vectors of texts by latent semantic analysis, from the texts themselves.

Deerwester, Dumais, Furnas, Landauer & Harshman, Indexing by Latent Semantic Analysis (1990): the
leading singular vectors of the matrix of texts and words, here of 1 + log tf, times idf. Words that
occur in the same texts get similar vectors, so that a text can be found by words it does not have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from owpc_ltr.types import Matrix, Vector

DIMENSIONS = 96
_WORD = re.compile(r"[a-z]{2,}")


@dataclass(frozen=True)
class LatentSemantics:
    """The word space of a corpus: which words it has, their weights, and where each points.

    `axes` has a row for each word. Shape: (words, dimensions).
    """

    words: dict[str, int]
    weights: Vector
    axes: Matrix

    @classmethod
    def of(
        cls, texts: Sequence[str], dimensions: int = DIMENSIONS, seed: int = 0
    ) -> LatentSemantics:
        """The space of texts; words that only one of them has are left out."""
        from scipy.sparse.linalg import svds

        occurs = Counter(word for text in texts for word in set(_words(text)))
        kept = sorted(word for word, count in occurs.items() if count > 1)
        counts = np.array([occurs[word] for word in kept], np.float64)
        known = {word: column for column, word in enumerate(kept)}
        weights = np.log(len(texts) / counts)
        start = np.random.default_rng(seed).normal(size=min(len(texts), len(kept)))
        matrix = _weighted(texts, known, weights)
        _, _, axes = svds(matrix, k=dimensions, v0=start)
        return cls(known, weights, np.ascontiguousarray(axes.T, np.float32))

    def vectors(self, texts: Sequence[str]) -> Matrix:
        """A vector of length 1 for each text, or zeros where it has none of the words.

        Shape: (texts, dimensions).
        """
        found = _weighted(texts, self.words, self.weights) @ self.axes
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray(found / np.where(lengths > 0, lengths, 1), np.float32)


def _words(text: str) -> Iterable[str]:
    return _WORD.findall(text.lower())


def _weighted(texts: Sequence[str], known: dict[str, int], weights: Vector) -> Any:
    """The matrix of texts and words, each text of length 1."""
    from scipy.sparse import csr_array

    values: list[float] = []
    columns: list[int] = []
    starts = [0]
    for text in texts:
        counts = Counter(known[word] for word in _words(text) if word in known)
        own = np.array([1 + np.log(count) for count in counts.values()])
        own *= weights[list(counts)] if counts else 1
        values += (own / max(float(np.linalg.norm(own)), 1e-12)).tolist()
        columns += counts
        starts.append(len(columns))
    shape = (len(texts), len(known))
    return csr_array((np.array(values), np.array(columns, np.int32), np.array(starts)), shape)
