"""The kernels by name, and how a setting spells them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.kernels.linear import run_blocks
from owpc_ltr_rerankers.exchangeable.document_kernels import Link, Same, Similarity
from owpc_ltr_rerankers.exchangeable.lists import (
    ListBatch,
    chosen_columns,
    copy_rows,
    sums_over_others,
    without_diagonal,
)


@dataclass(frozen=True)
class CosineKernel:
    """S(x, z) = ⟨x, z⟩ / (‖x‖ ‖z‖), 0 where one is zero; O(m·d) for a list of m documents."""

    name: ClassVar[str] = "cosine"
    unit: ClassVar[bool] = True

    columns: str = ""

    @property
    def field_names(self) -> tuple[str, ...]:
        """None: features are enough."""
        return ()

    def sums(self, lists: ListBatch) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i."""
        columns = chosen_columns(self.columns, lists.feature_names)
        sums = np.empty(len(lists.features))
        blocks = lists.blocks()

        def block(index: int) -> None:
            _inner_products(
                lists.features, columns, lists.normalise, lists.offsets, *blocks[index],
                self.unit, sums,
            )  # fmt: skip

        run_blocks(block, len(blocks), lists.threads)
        return sums

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i."""
        rows = one_list(lists, self.columns)
        if self.unit:
            # Divided by the largest first, as what is too small or too large to be squared.
            rows /= _or_one(np.abs(rows).max(axis=1, keepdims=True, initial=0.0))
            rows /= _or_one(np.sqrt((rows * rows).sum(axis=1, keepdims=True)))
        return without_diagonal(rows @ rows.T)


@dataclass(frozen=True)
class Dot(CosineKernel):
    """S(x, z) = ⟨x, z⟩; O(m·d) for a list of m documents."""

    name: ClassVar[str] = "dot"
    unit: ClassVar[bool] = False


@dataclass(frozen=True)
class RBF:
    """S(x, z) = exp(−γ ‖x − z‖² / d), d the number of features; O(m²·d).

    Equal documents are grouped. A list with more than `most` different ones is compared with
    `most` of them, those of smallest hash, and the sum is scaled up: the choice depends on the
    documents and not on their order, and the same list is always compared with the same.
    """

    name: ClassVar[str] = "rbf"

    columns: str = ""
    gamma: float = 1.0
    most: int = 1000

    @property
    def field_names(self) -> tuple[str, ...]:
        """None: features are enough."""
        return ()

    def sums(self, lists: ListBatch) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i."""
        columns = chosen_columns(self.columns, lists.feature_names)
        sums = np.empty(len(lists.features))
        blocks = lists.blocks()
        gamma = self.gamma / len(columns)

        def block(index: int) -> None:
            _similarities(
                lists.features, columns, lists.normalise, lists.offsets, *blocks[index],
                gamma, self.most, sums,
            )  # fmt: skip

        run_blocks(block, len(blocks), lists.threads)
        return sums

    def pairs(self, lists: ListBatch) -> Vector:
        """S(x_i, x_j) of one list, 0 where j is i; every pair, however many there are."""
        rows = one_list(lists, self.columns)
        gamma = self.gamma / max(rows.shape[1], 1)
        squares = np.array([((rows - row) ** 2).sum(axis=1) for row in rows])
        return without_diagonal(np.exp(-gamma * squares.reshape(len(rows), len(rows))))


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
def _inner_products(
    features: Any,
    columns: Any,
    normalise: bool,
    offsets: Any,
    first: int,
    last: int,
    unit: bool,
    sums: Any,
) -> None:
    for query in range(first, last):
        start, end = offsets[query], offsets[query + 1]
        rows = np.empty((end - start, len(columns)))
        copy_rows(features[start:end], columns, normalise, rows)
        sums_over_others(rows, unit, sums[start:end])


@compiled
def _similarities(
    features: Any,
    columns: Any,
    normalise: bool,
    offsets: Any,
    first: int,
    last: int,
    gamma: float,
    most: int,
    sums: Any,
) -> None:
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
def _similarity(x: Any, z: Any, gamma: float) -> float:
    square = 0.0
    for c in range(len(x)):
        square += (x[c] - z[c]) ** 2
    return math.exp(-gamma * square)


@compiled
def _hashes(rows: Any) -> Any:
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
def _references(hashes: Any, most: int) -> tuple[Any, Any]:
    """One row of each of up to `most` different hashes, the smallest, and how many have it."""
    order = np.argsort(hashes)
    chosen = np.empty(min(most, len(order)), dtype=np.int64)
    copies = np.zeros(len(chosen), dtype=np.int64)
    found = 0
    for position in range(len(order)):
        row = order[position]
        if position == 0 or hashes[row] != hashes[order[position - 1]]:
            if found == len(chosen):
                break
            chosen[found] = row
            found += 1
        copies[found - 1] += 1
    return chosen[:found], copies[:found]


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
                f"'{part.strip()}' is no kernel: write {', '.join(FEATURES)} (of all features, or "
                f"as cosine:NAME+NAME*), {', '.join(f'{known}:FIELD' for known in FIELDS)}"
            )
    if len(set(kernels)) < len(kernels):
        raise ValueError(f"'{text}' names a kernel twice")
    return tuple(kernels)


def kernel_sums(kernels: tuple[ListKernel, ...], lists: ListBatch, mean: bool) -> Vector:
    """The sums of every kernel, (n_documents, n_kernels); divided by m − 1 where asked for."""
    sums = np.column_stack([kernel.sums(lists) for kernel in kernels])
    if mean:
        sums /= _others(lists.offsets)[:, None]
    return sums


def _others(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each document, how many others its list has; 1 where none, whose sum is 0."""
    sizes = np.diff(offsets)
    return np.repeat(np.maximum(sizes - 1, 1), sizes)
