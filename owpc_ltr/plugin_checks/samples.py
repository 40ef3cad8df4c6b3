"""Seeded queries and datasets on which plugins are checked; slopes measured by differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset

Price = Callable[[Vector], tuple[Vector, Vector]]
"""Values (…) and gradients (…, m) at points (…, m)."""


@dataclass(frozen=True)
class SampleQuery:
    """Labels of one query, and many score vectors for it, one a row of `points`."""

    labels: Labels
    points: Vector


def sample_queries(seed: int = 0) -> list[SampleQuery]:
    """Queries of 2 to 13 documents, binary and graded, each with scores of every kind."""
    rng = np.random.default_rng(seed)
    samples = []
    for documents, grades in ((2, 1), (3, 2), (4, 1), (6, 3), (8, 1), (13, 2)):
        drawn = rng.integers(0, grades + 1, documents)
        # At least one document is relevant, and at least one is not.
        drawn[0], drawn[-1] = grades, 0
        labels = rng.permutation(drawn).astype(np.float32)
        samples.append(SampleQuery(labels, _points(rng, labels)))
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


def slope_errors(
    price: Price, points: Vector, directions: Vector, step: float = 1e-6
) -> tuple[Vector, NDArray[np.bool_]]:
    """|gradient · u − difference quotient| at points (k, m) along directions u, shape (k,).

    Relative to the slope. And which of these points are a step away from a kink, where no slope
    exists, or where the price is not finite.
    """
    moves = step * np.array([0.0, 1.0, -1.0])[:, None, None] * directions
    (at, above, below), (gradients, _, _) = price(points + moves)
    with np.errstate(invalid="ignore"):
        slopes = (above - below) / (2 * step)
        size = np.abs(slopes) + 1e-3 * (1 + np.abs(at))
        errors: Vector = np.abs((gradients * directions).sum(axis=1) - slopes) / size
        smooth = np.abs(above - 2 * at + below) <= 1e-3 * step * size
    return errors, ~smooth | ~np.isfinite(errors)
