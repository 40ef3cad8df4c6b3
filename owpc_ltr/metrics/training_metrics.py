"""Metrics inside a fit: as the objective of a search, and as the judge that keeps the best."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.errors import Refused
from owpc_ltr.metrics.line_search import SteppedMetric, is_compiled
from owpc_ltr.metrics.metric import Metric, uneven
from owpc_ltr.metrics.parsing import parse_metric
from owpc_ltr.protocols import Run

T = TypeVar("T")


class MeanMetric:
    """The mean of a metric over the queries of a dataset, weighted by their importance.

    An error counts as one minus itself. Raises Refused where documents have weights, of which
    no metric knows, and where no query counts.
    """

    def __init__(self, data: RankingDataset, metric: str | Metric) -> None:
        if data.document_weights is not None:
            raise Refused(
                f"{metric} cannot weigh documents, and the data has document weights: leave them "
                "out, or use an optimizer of losses such as gradient"
            )
        self.metric, self.data = parse_metric(metric), data
        values = self.metric.per_query(np.zeros(data.n_documents), data.labels, data.offsets)
        self.counted: NDArray[np.bool_] = ~np.isnan(values) & (data.query_importance > 0)
        if not self.counted.any():
            raise Refused(f"no query counts for {metric}: give judged queries of some weight")
        importance = data.query_importance[self.counted]
        self.importance: Vector = importance / importance.sum()
        self._at_rest = values

    @cached_property
    def _stepped(self) -> SteppedMetric | None:
        if not is_compiled(self.metric):
            return None
        return SteppedMetric(self.metric, self.data, self._at_rest)

    def per_query(self, scores: Vector) -> Vector:
        """The value of each query that counts."""
        values = self.metric.per_query(scores, self.data.labels, self.data.offsets)[self.counted]
        return values if self.metric.higher_is_better else 1.0 - values

    def mean(self, scores: Vector) -> float:
        """The weighted mean."""
        return float(self.importance @ self.per_query(scores))

    def along(self, scores: Vector, direction: Vector, steps: Vector, threads: int = 1) -> Vector:
        """The weighted means at scores + step · direction, one a step."""
        finite = np.isfinite(scores).all() and np.isfinite(direction).all()
        if self._stepped is None or not finite:
            # Not all measures are compiled; and scores that cannot be ranked are refused by name.
            return np.array([self.mean(scores + step * direction) for step in steps])
        values = self._stepped.along(scores, direction, steps, threads)
        # Row by row, so that each mean is rounded as `mean` does it, and draws stay draws.
        return np.array([self.importance @ row[self.counted] for row in values])


class JudgedLabels(NamedTuple):
    """What a metric needs of queries in a folder; who fits scores their features by itself."""

    features: Matrix
    labels: Labels
    offsets: NDArray[np.int64]
    query_importance: Vector

    @classmethod
    def of(cls, parts: PartitionedDataset) -> JudgedLabels:
        """The labels of all parts."""
        found = list(
            parts.each(lambda part: (part.labels, np.diff(part.offsets), part.query_importance))
        )
        sizes = np.concatenate([one[1] for one in found])
        return cls(
            np.empty((0, parts.n_features), np.float32),
            np.concatenate([one[0] for one in found]),
            np.concatenate(([0], np.cumsum(sizes))),
            np.concatenate([one[2] for one in found]),
        )


class Judge(Generic[T]):
    """Keeps the candidate of the best validation metric; without validation queries, the last.

    `number` counts candidates from 1; it stands still when none has been better for `patience`.
    """

    def __init__(self, run: Run, patience: int = 0) -> None:
        self.validation: RankingDataset | JudgedLabels | None = run.validation
        if run.validation_parts is not None:
            self.validation = JudgedLabels.of(run.validation_parts)
        self.metric = parse_metric(run.metric)
        self.patience, self.number, self.best_number = patience, 0, 0
        self.best: T | None = None
        self.best_value = -np.inf

    def see(self, candidate: T, score: Callable[[Matrix], Vector]) -> dict[str, float]:
        """Measure a candidate, by how it scores features; what to tell of it in the history."""
        self.number += 1
        if self.validation is None:
            self.best, self.best_number = candidate, self.number
            return {}
        scores = score(self.validation.features)
        value = self.mean_of(scores, self.validation)
        signed = value if self.metric.higher_is_better else -value
        if signed > self.best_value:
            self.best, self.best_value, self.best_number = candidate, signed, self.number
        return {"validation": value}

    def mean_of(self, scores: Vector, queries: RankingDataset | JudgedLabels) -> float:
        """The mean of the metric over the queries, weighted by their importance."""
        weights = uneven(queries.query_importance)
        return self.metric.mean(scores, queries.labels, queries.offsets, weights)

    @property
    def lost_patience(self) -> bool:
        """Whether the metric has not risen for long enough."""
        return 0 < self.patience <= self.number - self.best_number

    @property
    def verdict(self) -> str:
        """Why a fit stops that has lost patience; the name of its unit and `best_number` follow."""
        return f"validation {self.metric} has not risen since"
