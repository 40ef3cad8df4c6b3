"""Seeded queries and datasets on which plugins are checked; how a promise is required."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset

Require = Callable[..., None]
"""Raises AssertionError with a sentence unless a promise is kept; see `requires`."""


@dataclass(frozen=True)
class Sample:
    """Labels of one query, and many score vectors for it, one a row of `points`."""

    labels: Labels
    points: Vector

    @property
    def weights(self) -> Labels:
        """One for each document."""
        return np.ones(len(self.labels), dtype=np.float32)


def sample_queries(seed: int = 0) -> list[Sample]:
    """Queries of 2 to 13 documents, binary and graded, each with scores of every kind."""
    rng = np.random.default_rng(seed)
    samples = []
    for documents, grades in ((2, 1), (3, 2), (4, 1), (6, 3), (8, 1), (13, 2)):
        drawn = rng.integers(0, grades + 1, documents)
        # At least one document is relevant, and at least one is not.
        drawn[0], drawn[-1] = grades, 0
        labels = rng.permutation(drawn).astype(np.float32)
        samples.append(Sample(labels, _points(rng, labels)))
    return samples


def _points(rng: np.random.Generator, labels: Labels) -> Vector:
    """Spread and small scores, ties, grids one margin apart, good and bad orders, lines."""
    n = len(labels)
    spread = [scale * rng.normal(size=n) for scale in (0.03, 0.3, 1.0, 1.0, 3.0, 3.0)]
    base = spread[2]
    swapped = base.copy()
    swapped[[0, n - 1]] = swapped[[n - 1, 0]]
    grid = [rng.integers(-2, 3, n).astype(float), rng.integers(-2, 3, n) / 2]
    ordered = [np.zeros(n), labels.astype(float), -labels.astype(float), np.arange(n) / n]
    line = [base + step * (spread[3] - base) for step in (-0.5, 0.1, 0.5, 0.9, 1.5)]
    single = [base + step * np.eye(n)[0] for step in (-1.0, 1e-3, 1.0)]
    return np.array(
        [*spread, -base, swapped, rng.permutation(base), *grid, *ordered, *line, *single]
    )


def sample_dataset(grades: int = 1, seed: int = 0) -> RankingDataset:
    """A small noisy dataset: 12 queries of 4 to 9 documents, 4 features, query weights."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 10, 12)
    query_ids = np.repeat(np.arange(len(sizes)), sizes)
    features = rng.normal(size=(len(query_ids), 4)).astype(np.float32)
    utility = features @ np.array([1.0, -0.5, 0.25, 0.0]) + 0.7 * rng.normal(size=len(features))
    labels = np.clip(np.floor(utility + 0.5), 0, grades)
    return make_dataset(
        features, labels, query_ids, query_weights=rng.choice([0.5, 1.0, 2.0], len(sizes))
    )


def requires(who: str) -> Require:
    """A function of a condition and a sentence on `who`, an AssertionError where it is not kept.

    More arguments fill the places {} of the sentence only when it fails: formatting an array
    takes longer than checking it.
    """

    def require(kept: object, sentence: str, *shown: object) -> None:
        if not kept:
            raise AssertionError(f"{who} {sentence.format(*shown) if shown else sentence}")

    return require


def answer(require: Require, method: Callable[..., Any], /, **given: Any) -> Any:
    """What a method returns for these arrays, given by position: it may change none of them."""
    copies = [array.copy() for array in given.values()]
    found = method(*copies)
    for name, before, after in zip(given, given.values(), copies, strict=True):
        require(np.array_equal(before, after, equal_nan=True), f"changed the {name} it read")
    return found
