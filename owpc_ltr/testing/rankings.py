"""Seeded rankings on which metrics are checked, and all orders of small ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.metrics import Metric

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Lists:
    """Queries with scored and judged documents, as metrics read them."""

    scores: Vector
    labels: Labels
    offsets: Positions

    def values(self, metric: Metric) -> Vector:
        """What a metric says of each query."""
        return metric.per_query(self.scores, self.labels, self.offsets)

    def query(self, index: int) -> Lists:
        """One of the queries alone."""
        rows = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        labels = self.labels[rows]
        return Lists(self.scores[rows], labels, np.array([0, len(labels)]))

    def scored(self, scores: Any) -> Lists:
        """The same documents with other scores."""
        return replace(self, scores=scores)


def lists_of(rows: Any) -> Lists:
    """Queries given as labels, best first."""
    labels = [np.asarray(row, dtype=np.float32) for row in rows]
    scores = [-np.arange(float(len(row))) for row in labels]
    offsets = np.cumsum([0, *map(len, labels)])
    return Lists(np.concatenate(scores), np.concatenate(labels), offsets)


def ragged_lists(tied: bool, top_grade: int, seed: int) -> Lists:
    """60 queries of 1 to 25 documents, of which one has no relevant document, and one no other."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 26, 60))])
    labels = rng.integers(0, top_grade + 1, offsets[-1]) * (rng.random(offsets[-1]) < 0.5)
    labels[: offsets[1]], labels[offsets[1] : offsets[2]] = 0, top_grade
    scores = rng.integers(-3, 4, offsets[-1]) / 2 if tied else rng.normal(size=offsets[-1])
    return Lists(scores, labels.astype(np.float32), offsets)


def small_lists(top_grade: int, seed: int) -> Iterator[Lists]:
    """Single queries of 1 to 5 documents, most with tied scores, of each mixture of labels."""
    rng = np.random.default_rng(seed)
    top = top_grade
    given = [[0], [top], [0, 0, 0], [top, top, top], [0, 0, top, 0], [1, 0, 1, 0, 0]]
    drawn = [rng.integers(0, top + 1, size).tolist() for size in (2, 3, 4, 4, 5, 5)]
    for labels in (*given, *drawn):
        for levels in (1, 2, 3):
            yield lists_of([labels]).scored(rng.integers(0, levels, len(labels)).astype(float))


def all_orders(lists: Lists) -> NDArray[np.float32]:
    """The labels of a query in every order that its scores leave open, that of the file first."""
    orders = np.array(list(itertools.permutations(range(len(lists.labels)))))
    ranked = lists.scores[orders]
    possible: NDArray[np.float32] = lists.labels[orders[(np.diff(ranked) <= 0).all(axis=1)]]
    return possible


def ranked_labels(lists: Lists) -> Labels:
    """The labels of a query by decreasing scores."""
    ranked: Labels = lists.labels[np.argsort(-lists.scores, kind="stable")]
    return ranked


def same_values(one: Vector, other: Vector) -> bool:
    """Whether values agree to what rounding leaves, and are undefined for the same queries."""
    return np.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)
