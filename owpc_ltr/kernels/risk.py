"""The risk of linear weights, R(w) = Σ_q v_q L_q(X_q w), in memory or over parts of the data.

A pass over the data gives R and its gradient at a point, or R and its slope at several points of a
line, which cost one read of the matrix together. The sums of parts are added in the order of the
parts: the result is the same whoever reckoned which part.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import linear_risk, linear_scores, losses_of_scores
from owpc_ltr.protocols import Loss


class RiskOfWeights(Protocol):
    """What optimizers of linear models ask of the data; weights are for scaled features."""

    @property
    def n_features(self) -> int:
        """How many weights there are."""
        ...

    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        """R(w) and ∇R(w); one pass."""
        ...

    def along(self, weights: Vector, step: Vector, shares: Vector) -> tuple[Vector, Vector]:
        """R(w + k·step) and its slope in k, one entry for each share k; one pass."""
        ...


class Sums(NamedTuple):
    """The risk of a part at some weights for features as they are, and its gradient."""

    risk: float
    gradient: Vector


class Line(NamedTuple):
    """The risk of a part at several points of a line, and its slope along the line there."""

    risks: Vector
    slopes: Vector


def part_sums(part: RankingDataset, loss: Loss, weights: Vector) -> Sums:
    """The sums of a part, by which the data as a whole are known."""
    return Sums(*linear_risk(part, bind(loss), weights))


def part_line(
    part: RankingDataset, loss: Loss, weights: Vector, step: Vector, shares: Vector
) -> Line:
    """The same along a line; the matrix is read twice, whatever the number of points."""
    bound, importance = bind(loss), part.query_importance
    scores, moves = linear_scores(part.features, weights), linear_scores(part.features, step)
    # The slope along the line, weighted: nothing is kept of a document.
    weighted = moves * np.repeat(importance, np.diff(part.offsets))
    risks, slopes = np.empty(len(shares)), np.empty(len(shares))
    for number, share in enumerate(shares):
        values, gradient, _ = losses_of_scores(part, bound, scores + share * moves)
        risks[number], slopes[number] = values @ importance, gradient @ weighted
    return Line(risks, slopes)


class InMemory:
    """The risk of a dataset in memory."""

    def __init__(self, loss: Loss, data: RankingDataset, threads: int = 1) -> None:
        self.loss, self.bound, self.data, self.threads = loss, bind(loss), data, threads

    @property
    def n_features(self) -> int:
        """How many weights there are."""
        return self.data.n_features

    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        """R(w) and ∇R(w)."""
        return linear_risk(self.data, self.bound, weights, self.threads)

    def along(self, weights: Vector, step: Vector, shares: Vector) -> tuple[Vector, Vector]:
        """R(w + k·step) and its slope in k."""
        scales = self.data.scales
        return part_line(self.data, self.loss, weights * scales, step * scales, shares)


class OverParts:
    """The risk of a folder of parts, few of which are in memory at a time."""

    def __init__(self, loss: Loss, data: PartitionedDataset, threads: int = 1) -> None:
        self.loss, self.data, self.threads = loss, data.without_missing(), threads

    @property
    def n_features(self) -> int:
        """How many weights there are."""
        return self.data.n_features

    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        """R(w) and ∇R(w)."""
        scaled, risk, gradient = weights * self.data.scales, 0.0, np.zeros(self.n_features)
        sums = partial(part_sums, loss=self.loss, weights=scaled)
        for part in self.data.each(sums, self.threads):
            risk += part.risk
            gradient += part.gradient
        return risk, gradient * self.data.scales

    def along(self, weights: Vector, step: Vector, shares: Vector) -> tuple[Vector, Vector]:
        """R(w + k·step) and its slope in k."""
        risks, slopes, scales = np.zeros(len(shares)), np.zeros(len(shares)), self.data.scales
        line = partial(
            part_line, loss=self.loss, weights=weights * scales, step=step * scales, shares=shares
        )
        for part in self.data.each(line, self.threads):
            risks += part.risks
            slopes += part.slopes
        return risks, slopes
