"""Kernels of document fields: texts, vectors, sites, links.

All but links are inner products ⟨v_i, v_j⟩ of sparse or dense vectors, whose sums over a list
cost as much as reading the vectors once.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import is_
from typing import Any, ClassVar

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.documents import IDS
from owpc_ltr.errors import BadInput
from owpc_ltr_rerankers.exchangeable.lists import (
    ListBatch,
    exact_sum,
    scale_to_unit,
    sums_over_others,
    without_diagonal,
)

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Similarity:
    """S = cosine of two texts (words weighted by tf·idf within the list) or of two vectors.

    A document without the field is like no other.
    """

    name: ClassVar[str] = "similarity"

    field: str

    @property
    def field_names(self) -> tuple[str, ...]:
        """The field of texts, or of lists of numbers."""
        return (self.field,)

    def sums(self, lists: ListBatch) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i."""
        return _each_list(lists, self.field, self._of_list)

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i."""
        values = lists.values_of(self.field)
        if all(value is None or isinstance(value, str) for value in values):
            rows = _columns(_word_vectors([_words(value) for value in values]))
        else:
            rows = _vectors(self.field, values)
            for row in rows:
                scale_to_unit(row)
        return without_diagonal(rows @ rows.T)

    def _of_list(self, values: Sequence[Any]) -> Vector:
        given = [value for value in values if value is not None]
        if all(isinstance(value, str) for value in given):
            return _text_sums([_words(value) for value in values])
        rows = _vectors(self.field, values)
        sums = np.empty(len(rows))
        sums_over_others(rows, True, sums)
        return sums


@dataclass(frozen=True)
class Same:
    """S = how many values of a field two documents share: 1 or 0 where each has one, as a site."""

    name: ClassVar[str] = "same"

    field: str

    @property
    def field_names(self) -> tuple[str, ...]:
        """The field of a site, an author, a list of tags."""
        return (self.field,)

    def sums(self, lists: ListBatch) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i."""
        return _each_list(lists, self.field, self._of_list)

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i."""
        own = [_as_set(value) for value in lists.values_of(self.field)]
        rows = _columns([dict.fromkeys(several, 1.0) for several in own])
        return without_diagonal(rows @ rows.T)

    def _of_list(self, values: Sequence[Any]) -> Vector:
        own = [_as_set(value) for value in values]
        having = Counter(value for several in own for value in several)
        return np.array([float(sum(having[value] - 1 for value in several)) for several in own])


@dataclass(frozen=True)
class Link:
    """S = links between two documents, either way; the field holds the ids that one points to."""

    name: ClassVar[str] = "link"

    field: str

    @property
    def field_names(self) -> tuple[str, ...]:
        """The field of links (or of a parent, as in a site map), and the document ids."""
        return (self.field, IDS)

    def sums(self, lists: ListBatch) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i."""
        ids = lists.values_of(IDS)

        def of_list(values: Sequence[Any], rows: slice) -> Vector:
            place = {str(one): index for index, one in enumerate(ids[rows])}
            sums = np.zeros(len(values))
            for index, value in enumerate(values):
                for target in _as_set(value):
                    other = place.get(target, index)
                    if other != index:
                        sums[index] += 1.0
                        sums[other] += 1.0
            return sums

        values = lists.values_of(self.field)
        return np.concatenate([of_list(values[rows], rows) for rows in _slices(lists)])

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i."""
        place = {str(one): index for index, one in enumerate(lists.values_of(IDS))}
        links = np.zeros((len(place), len(place)))
        for index, value in enumerate(lists.values_of(self.field)):
            for target in _as_set(value) & place.keys():
                links[index, place[target]] += 1.0
        return without_diagonal(links + links.T)


def _each_list(lists: ListBatch, field: str, of_list: Callable[[Sequence[Any]], Vector]) -> Vector:
    values = lists.values_of(field)
    before: Sequence[Any] = ()
    sums: list[Vector] = []
    for rows in _slices(lists):
        own = values[rows]
        # One list again and again, whose features alone change, is read once.
        same = len(own) == len(before) and all(map(is_, own, before))
        sums.append(sums[-1] if sums and same else of_list(own))
        before = own
    return np.concatenate(sums)


def _slices(lists: ListBatch) -> list[slice]:
    cuts = lists.offsets.tolist()
    return [slice(start, end) for start, end in pairwise(cuts)]


def _as_list(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _as_set(value: Any) -> set[str]:
    return {str(one) for one in _as_list(value)}


def _columns(rows: Sequence[Mapping[str, float]]) -> Vector:
    """Numbers by name, one row each, as a matrix with a column a name."""
    names = {name: column for column, name in enumerate(sorted({n for row in rows for n in row}))}
    matrix = np.zeros((len(rows), len(names)))
    for index, row in enumerate(rows):
        for name, value in row.items():
            matrix[index, names[name]] = value
    return matrix


def _words(text: str | None) -> list[str]:
    return _WORD.findall((text or "").lower())


def _vectors(field: str, values: Sequence[Any]) -> Vector:
    """The vectors of a list of documents, zeros where one has none."""
    widths = {len(_as_list(value)) for value in values if value is not None}
    if len(widths) > 1:
        raise BadInput(f"the vectors of field '{field}' have {min(widths)} and {max(widths)} parts")
    rows = np.zeros((len(values), max(widths, default=0)))
    for index, value in enumerate(values):
        if value is not None:
            try:
                rows[index] = np.asarray(_as_list(value), dtype=np.float64)
            except (TypeError, ValueError):
                raise BadInput(
                    f"the field '{field}' holds {str(value)[:40]!r}: a text or numbers are needed"
                ) from None
    if not np.isfinite(rows).all():
        raise BadInput(f"a vector of field '{field}' holds what is not a finite number")
    return rows


def _text_sums(texts: list[list[str]]) -> Vector:
    """Sums of cosines of word vectors."""
    vectors = _word_vectors(texts)
    parts: dict[str, list[float]] = {}
    for vector in vectors:
        for word, weight in vector.items():
            parts.setdefault(word, []).append(weight)
    totals = {word: float(exact_sum(np.array(several))) for word, several in parts.items()}
    return np.array([
        sum(weight * totals[word] for word, weight in vector.items())
        - sum(weight * weight for weight in vector.values())
        if len(texts) > 1
        else 0.0
        for vector in vectors
    ])  # fmt: skip


def _word_vectors(texts: list[list[str]]) -> list[dict[str, float]]:
    """The words of each text of a list, tf · log((1 + m) / df), scaled to length 1."""
    counts = [Counter(words) for words in texts]
    having = Counter(word for count in counts for word in count)
    weights = {word: math.log((1 + len(texts)) / found) for word, found in having.items()}
    vectors: list[dict[str, float]] = []
    for count in counts:
        # In alphabetical order: the sums must not depend on the order of the documents.
        words = sorted(count)
        row = np.array([count[word] * weights[word] for word in words])
        scale_to_unit(row)
        vectors.append(dict(zip(words, row.tolist(), strict=True)))
    return vectors
