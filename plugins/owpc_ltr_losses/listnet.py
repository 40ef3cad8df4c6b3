"""ListNet: cross entropy between two distributions over who stands first (Cao et al. 2007).

P_j(y) = exp(y_j) / Σ_k exp(y_k) is the chance of document j to be ranked first under the labels
(or (2^y_j − 1) / Σ_k (2^y_k − 1)), P_j(s) the same of the scores;
loss = Σ_j P_j(y) log( P_j(y) / P_j(s) ), their cross entropy less its least value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.host.settings import check_settings, choice_number
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel
from owpc_ltr.kernels.pairs import lowest_grade, next_grade, reset
from owpc_ltr.protocols import Loss

Target = Literal["exponential", "gain"]


@kernel
def _listnet(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    if not reset(scores, gradient, curvature, True):
        return np.nan
    lowest = lowest_grade(labels, weights)
    if not next_grade(labels, weights, lowest) < np.inf:
        return 0.0
    best, highest = -np.inf, -np.inf
    for j in range(len(scores)):
        if weights[j] > 0.0:
            best, highest = max(best, scores[j]), max(highest, np.float64(labels[j]))
    by_gain = parameters[0] == 1.0
    # Until the division, the chances of the scores stand in the gradient.
    target = np.empty(len(scores))
    of_scores, of_labels = 0.0, 0.0
    for j in range(len(scores)):
        label = np.float64(labels[j])
        target[j] = max(2.0**label - 1.0, 0.0) if by_gain else math.exp(label - highest)
        gradient[j] = math.exp(scores[j] - best) if weights[j] > 0.0 else 0.0
        of_labels += weights[j] * target[j]
        of_scores += weights[j] * gradient[j]
    if not of_labels > 0.0:
        gradient[:] = 0.0
        return 0.0
    value = 0.0
    for j in range(len(scores)):
        wanted, got = target[j] / of_labels, gradient[j] / of_scores
        if wanted > 0.0 and weights[j] > 0.0:
            value += weights[j] * wanted * (math.log(wanted * of_scores) - scores[j] + best)
        gradient[j] = weights[j] * (got - wanted)
        if len(curvature):
            chance = weights[j] * got
            curvature[j] = chance * max(1.0 - chance, 0.0)
    return max(value, 0.0)


@dataclass(frozen=True)
class ListNet(KernelLoss):
    """Divergence between the top-one chances under the labels and under the scores.

    `target` gives the chances under the labels: exponential (of the label, as in the paper) or
    gain (2^label − 1, so that irrelevant documents have none). Queries of a single grade are
    left out. A document of weight k counts as k copies.
    """

    name: ClassVar[str] = "listnet"
    kernel: ClassVar[Kernel] = _listnet
    has_curvature: ClassVar[bool] = True
    weights_are_copies: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    target: Target = "exponential"

    def __post_init__(self) -> None:
        check_settings(self)

    def parameters(self) -> Vector:
        """Which target."""
        return np.array([choice_number(self, "target")])


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss listnet`."""
    return [ListNet]
