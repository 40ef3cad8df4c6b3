"""RankCosine: one minus the cosine of scores and labels, halved (Qin et al. 2008).

loss = ½ (1 − Σ_j y_j s_j / (‖y‖ ‖s‖)), between 0 and 1; the size of the scores does not count.
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
from owpc_ltr.kernels.pairs import reset
from owpc_ltr.protocols import Loss

Target = Literal["label", "gain"]
_SMALLEST = 1e-130
"""Smaller scores count as 0: their squares, and the curvature, would leave the range of numbers."""


@kernel
def _cosine(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    if not reset(scores, gradient, curvature, True):
        return np.nan
    by_gain = parameters[0] == 1.0
    # Scores are measured by the largest, so that neither squares nor their sum leave the range.
    largest = np.abs(scores * (weights > 0.0)).max()
    product, of_labels, of_scores = 0.0, 0.0, 0.0
    for j in range(len(scores)):
        label = np.float64(labels[j])
        gradient[j] = 2.0**label - 1.0 if by_gain else label
        score = scores[j] / largest if largest > _SMALLEST else 0.0
        product += weights[j] * gradient[j] * score
        of_labels += weights[j] * gradient[j] * gradient[j]
        of_scores += weights[j] * score * score
    if not of_labels > 0.0:
        gradient[:] = 0.0
        return 0.0
    if not of_scores > 0.0:
        # No direction: as far from right as from wrong.
        gradient[:] = 0.0
        return 0.5
    size = math.sqrt(of_labels * of_scores)
    cosine = product / size
    for j in range(len(scores)):
        score = scores[j] / largest
        slope = gradient[j] / size - cosine * score / of_scores
        gradient[j] = -0.5 * weights[j] * slope / largest
        if len(curvature):
            curvature[j] = 0.5 * weights[j] / of_scores / (largest * largest)
    return max(0.5 * (1.0 - cosine), 0.0)


@dataclass(frozen=True)
class Cosine(KernelLoss):
    """½ (1 − cosine of scores and labels); not convex, and ½ where all scores are 0.

    `target` compares with: label, or gain (2^label − 1). The gradient is continuous but at
    scores of 0, where it is given as 0. The curvature, 1 / (2 ‖s‖²), is the one at right angles
    to scores that fit exactly. A document of weight k counts as k copies.
    """

    name: ClassVar[str] = "cosine"
    kernel: ClassVar[Kernel] = _cosine
    has_curvature: ClassVar[bool] = True
    weights_are_copies: ClassVar[bool] = True
    convex: ClassVar[bool] = False
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    target: Target = "label"

    def __post_init__(self) -> None:
        check_settings(self)

    def parameters(self) -> Vector:
        """Which target."""
        return np.array([choice_number(self, "target")])


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss cosine`."""
    return [Cosine]
