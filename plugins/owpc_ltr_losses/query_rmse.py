"""QueryRMSE: the squared error of scores within each query, whose level is free (CatBoost).

loss = ½ Σ_j (s_j − y_j − c)², with the c that makes it least: the mean of s − y. The gradient is
(s_j − mean s) − (y_j − mean y), and the curvature is taken as 1. CatBoost's documentation defines
it in "Ranking: objectives and metrics".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel
from owpc_ltr.kernels.pairs import lowest_grade, next_grade
from owpc_ltr.protocols import Loss


@kernel
def _query_rmse(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    _parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    gradient[:] = 0.0
    curvature[:] = 0.0
    lowest = lowest_grade(labels, weights)
    if not next_grade(labels, weights, lowest) < np.inf:
        return 0.0
    total, level = 0.0, 0.0
    for j in range(len(scores)):
        if weights[j] > 0.0:
            total += weights[j]
            level += weights[j] * (scores[j] - labels[j])
    level /= total
    value = 0.0
    for j in range(len(scores)):
        error = scores[j] - labels[j] - level if weights[j] > 0.0 else 0.0
        value += 0.5 * weights[j] * error * error
        gradient[j] = weights[j] * error
        if len(curvature):
            curvature[j] = weights[j]
    return value


@dataclass(frozen=True)
class QueryRMSE(KernelLoss):
    """Half the sum of (score − label − c)², c being the mean of score − label in the query.

    Scores meet the labels but for a constant of each query; queries of a single grade are left
    out. A document of weight k counts as k copies.
    """

    name: ClassVar[str] = "query-rmse"
    kernel: ClassVar[Kernel] = _query_rmse
    has_curvature: ClassVar[bool] = True
    weights_are_copies: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss query-rmse`."""
    return [QueryRMSE]
