"""The kernels by name, and how a setting spells them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr_rerankers.exchangeable.document_kernels import Link, Same, Similarity
from owpc_ltr_rerankers.exchangeable.feature_kernels import RBF, Cosine, Dot
from owpc_ltr_rerankers.exchangeable.lists import Lists


class Kernel(Protocol):
    """A function S(x_i, x_j) of two documents, summed over the others of a list."""

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that it reads."""
        ...

    def sums(self, lists: Lists) -> Vector:
        """Σ_{j≠i} S(x_i, x_j) for each document i, the same whatever the order of a list."""
        ...

    def pairs(self, lists: Lists) -> Vector:
        """S(x_i, x_j) of the documents of one list, 0 where j is i; `sums` compares all of them."""
        ...


FEATURES = ("cosine", "dot", "rbf")
FIELDS: dict[str, Callable[[str], Kernel]] = {"similarity": Similarity, "same": Same, "link": Link}


def parse_kernels(text: str, gamma: float = 1.0, rbf_documents: int = 1000) -> tuple[Kernel, ...]:
    """The kernels of a setting: names joined by commas, each with what it reads after a colon.

    >>> parse_kernels("cosine,cosine:title*+body*,same:site")
    (Cosine(columns=''), Cosine(columns='title*+body*'), Same(field='site'))

    Raises ValueError naming the part that is not known.
    """
    kernels: list[Kernel] = []
    for part in text.split(","):
        name, _, reads = part.strip().partition(":")
        if name == "rbf":
            kernels.append(RBF(reads, gamma, rbf_documents))
        elif name in FEATURES:
            kernels.append(Cosine(reads) if name == "cosine" else Dot(reads))
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


def kernel_sums(kernels: tuple[Kernel, ...], lists: Lists, mean: bool) -> Vector:
    """The sums of every kernel, (n_documents, n_kernels); divided by m − 1 where asked for."""
    sums = np.column_stack([kernel.sums(lists) for kernel in kernels])
    if mean:
        sums /= _others(lists.offsets)[:, None]
    return sums


def _others(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each document, how many others its list has; 1 where none, whose sum is 0."""
    sizes = np.diff(offsets)
    return np.repeat(np.maximum(sizes - 1, 1), sizes)
