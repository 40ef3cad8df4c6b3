"""Lists: the documents of one or many queries, as kernels see them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from operator import is_
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Digests, Fields, IntVector, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.documents import IDS
from owpc_ltr.errors import BadInput
from owpc_ltr.kernels.kernel import query_blocks, run_blocks

_Batch = tuple[Matrix, IntVector, bool, IntVector]
"""Features, the columns that count, whether they are normalised, and offsets of queries."""
_LARGEST_SHIFT = 1000  # 2^1000 is a float64; what is smaller than 2^-940 counts as 0

_SMALLEST = 1e-280


@compiled
def shift_for(largest: float, count: int) -> int:
    """How many binary places `count` terms up to `largest` may keep within 63 bits."""
    if largest == 0.0:
        return 0
    _, exponent = math.frexp(largest)
    bits = 0
    while count > 0:
        count >>= 1
        bits += 1
    return min(62 - bits - exponent, _LARGEST_SHIFT)


@compiled
def exact_sum(values: Vector) -> float:
    """The sum of finite numbers, whatever their order."""
    largest = 0.0
    for value in values:
        largest = max(largest, abs(value))
    shift = shift_for(largest, len(values))
    scale = math.ldexp(1.0, shift)
    total = np.int64(0)
    for value in values:
        total += np.int64(np.rint(value * scale))
    return math.ldexp(float(total), -shift)


@compiled
def column_sums(rows: NDArray[np.float64], sums: Vector) -> None:
    """Write the sum of each column into `sums`, whatever the order of the rows."""
    count, width = rows.shape
    largest = np.zeros(width)
    for i in range(count):
        for c in range(width):
            largest[c] = max(largest[c], abs(rows[i, c]))
    scales = np.empty(width)
    for c in range(width):
        scales[c] = math.ldexp(1.0, shift_for(largest[c], count))
    totals = np.zeros(width, dtype=np.int64)
    for i in range(count):
        for c in range(width):
            totals[c] += np.int64(np.rint(rows[i, c] * scales[c]))
    for c in range(width):
        sums[c] = float(totals[c]) / scales[c]


@compiled
def sums_over_others(rows: NDArray[np.float64], unit: bool, sums: Vector) -> None:
    """Write Σ_{j≠i} ⟨x_i, x_j⟩ = ⟨x_i, Σ_j x_j⟩ − ⟨x_i, x_i⟩ for each row i into `sums`.

    With `unit` the rows are first divided by their length, in place (a zero row stays zero): then
    these are sums of cosines.
    """
    count, width = rows.shape
    if unit:
        for i in range(count):
            scale_to_unit(rows[i])
    totals = np.empty(width)
    column_sums(rows, totals)
    for i in range(count):
        # A list of one document has no others: not even a rounding error is left.
        sums[i] = dot(rows[i], totals) - dot(rows[i], rows[i]) if count > 1 else 0.0


@compiled
def scale_to_unit(row: Vector) -> None:
    """Divide a vector by its Euclidean length, in place; zero stays zero."""
    square = dot(row, row)
    if not _SMALLEST < square < np.inf:
        # Too small or too large to be squared, or zero.
        largest = 0.0
        for value in row:
            largest = max(largest, abs(value))
        if largest == 0.0:
            return
        row /= largest
        square = dot(row, row)
    row *= 1.0 / math.sqrt(square)


@compiled(fastmath={"reassoc", "contract"})
def dot(x: Vector, z: Vector) -> float:
    """⟨x, z⟩, added up in an order that depends on the length alone."""
    total = 0.0
    for c in range(len(x)):
        total += x[c] * z[c]
    return total


_BLOCKS = 16


@dataclass(frozen=True, eq=False)
class ListBatch:
    """Documents, cut into queries at `offsets`, with their features and fields.

    `normalise`: each feature is first mapped to [0, 1] within its query (as in LETOR's
    QueryLevelNorm), 0 where it is constant. A missing feature counts 0 before that.
    """

    features: Matrix
    feature_names: tuple[str, ...]
    offsets: NDArray[np.int64]
    fields: Fields = field(default_factory=dict)
    normalise: bool = True
    threads: int = 1

    def blocks(self) -> list[tuple[int, int]]:
        """Runs of queries with about as many documents each, for threads."""
        cuts = query_blocks(self.offsets, _BLOCKS)
        return list(pairwise(cuts))

    def values_of(self, name: str) -> Sequence[Any]:
        """The values of a document field. Raises BadInput where it was not given."""
        if name not in self.fields:
            raise BadInput(
                f"the reranker needs the document field '{name}': give the documents with "
                "`documents`"
            )
        return self.fields[name]


def chosen_columns(pattern: str, names: tuple[str, ...]) -> NDArray[np.int64]:
    """The columns that a pattern names: feature names or globs, joined by `+`; all where empty.

    >>> chosen_columns("title*+3", ("title", "title_raw", "3", "30")).tolist()
    [0, 1, 2]
    """
    if not pattern:
        return np.arange(len(names))
    chosen: set[int] = set()
    # A feature may be called anything, also `a+b`: its own name comes before all patterns.
    for part in [pattern] if pattern in names else pattern.split("+"):
        columns = {i for i, name in enumerate(names) if name == part or fnmatchcase(name, part)}
        if not columns:
            raise BadInput(f"no feature fits '{part}': there are {', '.join(names[:30])}")
        chosen |= columns
    return np.array(sorted(chosen), dtype=np.int64)


def without_diagonal(pairs: Vector) -> Vector:
    """The same with 0 where a document would be compared with itself."""
    np.fill_diagonal(pairs, 0.0)
    return pairs


@compiled
def copy_rows(
    features: Matrix, columns: IntVector, normalise: bool, rows: NDArray[np.float64]
) -> None:
    """Copy one query's columns into `rows` (float64), mapped to [0, 1] where asked for."""
    count, width = len(features), len(columns)
    low, span = np.full(width, np.inf), np.full(width, -np.inf)
    for i in range(count):
        for k in range(width):
            value = float(features[i, columns[k]])
            value = 0.0 if np.isnan(value) else value
            rows[i, k] = value
            low[k], span[k] = min(low[k], value), max(span[k], value)
    if not normalise:
        return
    for k in range(width):
        span[k] -= low[k]
        # A constant column is 0 after its lowest value is taken away, whatever divides it.
        span[k] = span[k] if span[k] > 0.0 else 1.0
    for i in range(count):
        for k in range(width):
            rows[i, k] = (rows[i, k] - low[k]) / span[k]


_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class _FeatureKernel:
    """A kernel of some columns of the features."""

    columns: str = ""

    @property
    def field_names(self) -> tuple[str, ...]:
        """None: features are enough."""
        return ()

    def sums(self, lists: ListBatch) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i."""
        columns = chosen_columns(self.columns, lists.feature_names)
        batch = (lists.features, columns, lists.normalise, lists.offsets)
        sums = np.empty(len(lists.features))
        blocks = lists.blocks()

        def block(index: int) -> None:
            self._write_sums(batch, *blocks[index], sums)

        run_blocks(block, len(blocks), lists.threads)
        return sums

    def _write_sums(self, batch: _Batch, first: int, last: int, sums: Vector) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class CosineKernel(_FeatureKernel):
    """S(x, z) = ⟨x, z⟩ / (‖x‖ ‖z‖), 0 where one is zero; O(m·d) for a list of m documents."""

    name: ClassVar[str] = "cosine"
    unit: ClassVar[bool] = True

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i."""
        rows = one_list(lists, self.columns)
        if self.unit:
            # Divided by the largest first, as what is too small or too large to be squared.
            rows /= _or_one(np.abs(rows).max(axis=1, keepdims=True, initial=0.0))
            rows /= _or_one(np.sqrt((rows * rows).sum(axis=1, keepdims=True)))
        return without_diagonal(rows @ rows.T)

    def _write_sums(self, batch: _Batch, first: int, last: int, sums: Vector) -> None:
        _inner_products(batch, first, last, self.unit, sums)


@dataclass(frozen=True)
class Dot(CosineKernel):
    """S(x, z) = ⟨x, z⟩; O(m·d) for a list of m documents."""

    name: ClassVar[str] = "dot"
    unit: ClassVar[bool] = False


@dataclass(frozen=True)
class RBF(_FeatureKernel):
    """S(x, z) = exp(−γ ‖x − z‖² / d), d the number of features; O(m²·d).

    Equal documents are grouped. A list with more than `most` different ones is compared with
    `most` of them, those of smallest hash, and the sum is scaled up: the choice depends on the
    documents and not on their order, and the same list is always compared with the same.
    """

    name: ClassVar[str] = "rbf"

    gamma: float = 1.0
    most: int = 1000

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i; every pair, however many there are."""
        rows = one_list(lists, self.columns)
        gamma = self.gamma / max(rows.shape[1], 1)
        squares = np.array([((rows - row) ** 2).sum(axis=1) for row in rows])
        return without_diagonal(np.exp(-gamma * squares.reshape(len(rows), len(rows))))

    def _write_sums(self, batch: _Batch, first: int, last: int, sums: Vector) -> None:
        _similarities(batch, first, last, self.gamma / len(batch[1]), self.most, sums)


def one_list(lists: ListBatch, pattern: str) -> Vector:
    """The chosen columns of one list, as kernels compare them: those of `copy_rows`, by NumPy."""
    columns = chosen_columns(pattern, lists.feature_names)
    rows: Vector = np.nan_to_num(lists.features[:, columns].astype(np.float64), nan=0.0)
    if lists.normalise and len(rows):
        rows -= rows.min(axis=0)
        rows /= _or_one(rows.max(axis=0))
    return rows


def _or_one(divisors: Vector) -> Vector:
    return np.where(divisors > 0, divisors, 1.0)


@compiled
def _inner_products(batch: _Batch, first: int, last: int, unit: bool, sums: Vector) -> None:
    features, columns, normalise, offsets = batch
    for query in range(first, last):
        start, end = offsets[query], offsets[query + 1]
        rows = np.empty((end - start, len(columns)))
        copy_rows(features[start:end], columns, normalise, rows)
        sums_over_others(rows, unit, sums[start:end])


@compiled
def _similarities(
    batch: _Batch, first: int, last: int, gamma: float, most: int, sums: Vector
) -> None:
    features, columns, normalise, offsets = batch
    for query in range(first, last):
        start, end = offsets[query], offsets[query + 1]
        count = end - start
        rows = np.empty((count, len(columns)))
        copy_rows(features[start:end], columns, normalise, rows)
        hashes = _hashes(rows)
        chosen, copies = _references(hashes, most)
        for i in range(count):
            total, compared = 0.0, 0
            # In the order of the hashes, whatever the order of the documents.
            for r in range(len(chosen)):
                j = chosen[r]
                others = copies[r] - 1 if hashes[j] == hashes[i] else copies[r]
                total += others * _similarity(rows[i], rows[j], gamma)
                compared += others
            sums[start + i] = total * ((count - 1) / compared) if compared > 0 else 0.0


@compiled
def _similarity(x: Vector, z: Vector, gamma: float) -> float:
    square = 0.0
    for c in range(len(x)):
        square += (x[c] - z[c]) ** 2
    return math.exp(-gamma * square)


@compiled
def _hashes(rows: NDArray[np.float64]) -> Digests:
    """A 64-bit hash of each row's bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    bits = rows.view(np.uint64)
    hashes = np.empty(len(rows), dtype=np.uint64)
    for i in range(len(rows)):
        state = np.uint64(0)
        for c in range(rows.shape[1]):
            state = (state ^ bits[i, c]) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state ^= state >> np.uint64(31)
        hashes[i] = state
    return hashes


@compiled
def _references(hashes: Digests, most: int) -> tuple[IntVector, IntVector]:
    """One row of each of up to `most` different hashes, the smallest, and how many have it."""
    order = np.argsort(hashes)
    chosen = np.empty(min(most, len(order)), dtype=np.int64)
    copies = np.zeros(len(chosen), dtype=np.int64)
    count = 0
    for position in range(len(order)):
        row = order[position]
        if position == 0 or hashes[row] != hashes[order[position - 1]]:
            if count == len(chosen):
                break
            chosen[count] = row
            count += 1
        copies[count - 1] += 1
    return chosen[:count], copies[:count]


@dataclass(frozen=True)
class _FieldKernel:
    """A kernel of the values of one field."""

    field: str

    @property
    def field_names(self) -> tuple[str, ...]:
        """The field."""
        return (self.field,)

    def sums(self, lists: ListBatch) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i."""
        values = lists.values_of(self.field)
        before: Sequence[Any] = ()
        sums: list[Vector] = []
        for rows in _slices(lists):
            own = values[rows]
            # One list again and again, whose features alone change, is read once.
            same = len(own) == len(before) and all(map(is_, own, before))
            sums.append(sums[-1] if sums and same else self._of_list(own))
            before = own
        return np.concatenate(sums)

    def _of_list(self, values: Sequence[Any]) -> Vector:
        raise NotImplementedError


@dataclass(frozen=True)
class Similarity(_FieldKernel):
    """S = cosine of two texts (words weighted by tf·idf within the list) or of two vectors.

    A document without the field is like no other.
    """

    name: ClassVar[str] = "similarity"

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i."""
        values = lists.values_of(self.field)
        if all(value is None or isinstance(value, str) for value in values):
            rows = _columns(_word_vectors(values))
        else:
            rows = _vectors(self.field, values)
            for row in rows:
                scale_to_unit(row)
        return without_diagonal(rows @ rows.T)

    def _of_list(self, values: Sequence[Any]) -> Vector:
        if all(value is None or isinstance(value, str) for value in values):
            return _text_sums(values)
        rows = _vectors(self.field, values)
        sums = np.empty(len(rows))
        sums_over_others(rows, True, sums)
        return sums


@dataclass(frozen=True)
class Same(_FieldKernel):
    """S = how many values of a field two documents share: 1 or 0 where each has one, as a site."""

    name: ClassVar[str] = "same"

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i."""
        sets = map(_as_set, lists.values_of(self.field))
        rows = _columns([dict.fromkeys(values, 1.0) for values in sets])
        return without_diagonal(rows @ rows.T)

    def _of_list(self, values: Sequence[Any]) -> Vector:
        sets = [_as_set(value) for value in values]
        having = Counter(value for several in sets for value in several)
        return np.array([float(sum(having[value] - 1 for value in several)) for several in sets])


@dataclass(frozen=True)
class Link(_FieldKernel):
    """S = links between two documents, either way; the field holds the ids that one points to."""

    name: ClassVar[str] = "link"

    @property
    def field_names(self) -> tuple[str, ...]:
        """The field of links (or of a parent, as in a site map), and the document ids."""
        return (self.field, IDS)

    def sums(self, lists: ListBatch) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i."""
        ids, values = lists.values_of(IDS), lists.values_of(self.field)
        sums = np.zeros(len(values))
        for rows in _slices(lists):
            place = {str(name): index for index, name in enumerate(ids[rows], rows.start)}
            for index, value in enumerate(values[rows], rows.start):
                for target in _as_set(value):
                    other = place.get(target, index)
                    if other != index:
                        sums[index] += 1.0
                        sums[other] += 1.0
        return sums

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i."""
        place = {str(name): index for index, name in enumerate(lists.values_of(IDS))}
        links = np.zeros((len(place), len(place)))
        for index, value in enumerate(lists.values_of(self.field)):
            for target in _as_set(value) & place.keys():
                links[index, place[target]] += 1.0
        return without_diagonal(links + links.T)


def _slices(lists: ListBatch) -> list[slice]:
    return [slice(start, end) for start, end in pairwise(lists.offsets.tolist())]


def _as_list(value: object) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _as_set(value: object) -> set[str]:
    return set(map(str, _as_list(value)))


def _columns(rows: Sequence[Mapping[str, float]]) -> Vector:
    """Numbers by name, one row each, as a matrix with a column a name."""
    names = {name: column for column, name in enumerate(sorted({n for row in rows for n in row}))}
    matrix = np.zeros((len(rows), len(names)))
    for index, row in enumerate(rows):
        for name, value in row.items():
            matrix[index, names[name]] = value
    return matrix


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


def _text_sums(texts: Sequence[str | None]) -> Vector:
    """Sums of cosines of word vectors."""
    vectors = _word_vectors(texts)
    parts: dict[str, list[float]] = {}
    for vector in vectors:
        for word, weight in vector.items():
            parts.setdefault(word, []).append(weight)
    totals = {word: float(exact_sum(np.array(several))) for word, several in parts.items()}
    return np.array(
        [
            sum(weight * totals[word] for word, weight in vector.items())
            - sum(weight * weight for weight in vector.values())
            if len(texts) > 1
            else 0.0
            for vector in vectors
        ]
    )


def _word_vectors(texts: Sequence[str | None]) -> list[dict[str, float]]:
    """The words of each text of a list, tf · log((1 + m) / df), scaled to length 1."""
    counts = [Counter(_WORD.findall((text or "").lower())) for text in texts]
    having = Counter(word for count in counts for word in count)
    weights = {word: math.log((1 + len(texts)) / count) for word, count in having.items()}
    vectors: list[dict[str, float]] = []
    for count in counts:
        # In alphabetical order: the sums must not depend on the order of the documents.
        words = sorted(count)
        row = np.array([count[word] * weights[word] for word in words])
        scale_to_unit(row)
        vectors.append(dict(zip(words, row.tolist(), strict=True)))
    return vectors


class ListKernel(Protocol):
    """A function S(x_i, x_j) of two documents, summed over the others of a list."""

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that it reads."""
        ...

    def sums(self, lists: ListBatch) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i, the same whatever the order of a list."""
        ...

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of the documents of one list, 0 where j is i; `sums` compares all of them."""
        ...


FEATURES = ("cosine", "dot", "rbf")
FIELDS: dict[str, Callable[[str], ListKernel]] = {
    "similarity": Similarity,
    "same": Same,
    "link": Link,
}


def parse_kernels(
    text: str, gamma: float = 1.0, rbf_documents: int = 1000
) -> tuple[ListKernel, ...]:
    """The kernels of a setting: names joined by commas, each with what it reads after a colon.

    >>> parse_kernels("cosine,cosine:title*+body*,same:site")
    (CosineKernel(columns=''), CosineKernel(columns='title*+body*'), Same(field='site'))

    Raises ValueError naming the part that is not known.
    """
    kernels: list[ListKernel] = []
    for part in text.split(","):
        name, _, reads = part.strip().partition(":")
        if name == "rbf":
            kernels.append(RBF(reads, gamma, rbf_documents))
        elif name in FEATURES:
            kernels.append(CosineKernel(reads) if name == "cosine" else Dot(reads))
        elif name in FIELDS and reads:
            kernels.append(FIELDS[name](reads))
        else:
            raise ValueError(
                f"'{part.strip()}' is not a kernel: write {', '.join(FEATURES)} (of all features, "
                f"or as cosine:NAME+NAME*), {', '.join(f'{known}:FIELD' for known in FIELDS)}"
            )
    if len(set(kernels)) < len(kernels):
        raise ValueError(f"'{text}' names a kernel twice")
    return tuple(kernels)
