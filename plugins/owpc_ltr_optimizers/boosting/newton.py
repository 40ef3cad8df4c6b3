"""Newton: a loss as XGBoost's objective, of data in memory or in a folder of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.errors import Refused
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import losses_of_scores
from owpc_ltr.protocols import Loss

_NOTHING = 1e-30  # beside a mean curvature of 1; float32 has no finer grid much below it


class Newton:
    """A loss as XGBoost's objective: gradient and curvature of every document."""

    def __init__(self, loss: Loss, data: RankingDataset | PartitionedDataset, threads: int) -> None:
        self.loss, self.data, self.threads = loss, data, threads
        self.bound = bind(loss)
        self.importance = _importance(data)
        self.largest = np.zeros(0 if self.bound.has_curvature else data.n_documents)
        self.unit = 0.0
        self.risks: list[float] = []

    def __call__(self, scores: NDArray[np.float32], _matrix: Any) -> tuple[Vector, Vector]:
        """The gradient and the curvature at these scores."""
        risk, gradient, curvature = self._losses(scores)
        self.risks.append(risk)
        if not np.isfinite(self.risks[-1]):
            raise Refused(
                f"loss '{self.loss.name}' became {self.risks[-1]} at tree {len(self.risks)}: use "
                "a smaller eta, or a larger leaf"
            )
        if not self.bound.has_curvature:
            np.maximum(self.largest, np.abs(gradient), out=self.largest)
            curvature = self.largest
        if self.importance is not None:
            gradient, curvature = gradient * self.importance, curvature * self.importance
        if not self.unit:
            mean = self.mean_of(curvature)
            self.unit = 1.0 / mean if mean > 0 else 1.0
        gradient, curvature = gradient * self.unit, curvature * self.unit
        sizes = self.largest_of(gradient), self.largest_of(curvature)
        return _on_grid(gradient, sizes[0]), _on_grid(curvature, sizes[1])

    def total(self, risks: list[float]) -> float:
        """The risk of all data, from those of the parts that are here."""
        whole = 0.0
        for risk in risks:
            whole += risk
        return whole

    def mean_of(self, curvature: Vector) -> float:
        """The mean over the documents of all data."""
        return float(curvature.mean())

    def largest_of(self, values: Vector) -> float:
        """The largest size of a value of all data."""
        return largest_of(values)

    def risk_of(self, score: Callable[[Matrix], Vector]) -> float:
        """The weighted sum of the losses, by how features are scored."""
        if isinstance(self.data, PartitionedDataset):
            parts = self.data.each(lambda part: self._of(part, score(part.features))[0])
            return self.total(list(parts))
        return self._of(self.data, score(self.data.features))[0]

    def _losses(self, scores: NDArray[np.float32]) -> tuple[float, Vector, Vector]:
        """The risk, and gradient and curvature of every document, without the queries' weights."""
        if not isinstance(self.data, PartitionedDataset):
            return self._of(self.data, scores.astype(np.float64))
        gradient = np.empty(self.data.n_documents)
        curvature = np.empty(len(gradient) if self.bound.has_curvature else 0)
        risks: list[float] = []
        first = 0
        for part in self.data.each(lambda part: part):
            rows = slice(first, first + part.n_documents)
            own = self._of(part, scores[rows].astype(np.float64))
            risks.append(own[0])
            gradient[rows] = own[1]
            if self.bound.has_curvature:
                curvature[rows] = own[2]
            first = rows.stop
        return self.total(risks), gradient, curvature

    def _of(self, data: RankingDataset, scores: Vector) -> tuple[float, Vector, Vector]:
        values, gradient, curvature = losses_of_scores(data, self.bound, scores, self.threads)
        return float(values @ data.query_importance), gradient, curvature


def _importance(data: RankingDataset | PartitionedDataset) -> Vector | None:
    """The weight of each document's query; None where they have none."""
    if isinstance(data, PartitionedDataset):
        if "query_weights" not in data.columns:
            return None
        return np.concatenate(
            list(data.each(lambda part: np.repeat(part.query_importance, np.diff(part.offsets))))
        )
    if data.query_weights is None:
        return None
    return np.repeat(data.query_importance, np.diff(data.offsets))


def _on_grid(values: Vector, largest: float | None = None) -> Vector:
    """Values rounded to multiples of 2⁻²⁴ of a power of two that bounds them: float32 exactly.

    `largest` is the size of the largest, which others may have.
    """
    largest = largest_of(values) if largest is None else largest
    if largest < _NOTHING:
        return np.zeros_like(values)
    step = np.exp2(np.ceil(np.log2(largest)) - 24)
    rounded: Vector = np.rint(values / step) * step
    return rounded


def largest_of(values: Vector) -> float:
    """The largest size of a value."""
    return float(np.abs(values).max(initial=0.0))
