"""The position-sensitive pairwise hinge (Riezler & De Bona 2009, Def. 1).

loss = Σ_{i above j} [ |r / y_i − r / y_j| − (s_i − s_j) ]₊, where y is the rank label: 1 for the
best grade of the query, 2 for the next, down to r, the number of grades. Confusing the best with
the second must be avoided by a margin of r / 2, the two last ones by only 1 / (r − 1). With all
labels different r is the number of documents, as in Def. 1; with two grades the margin is 1, as
in their Corollary 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.host.settings import check_settings, choice_number
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel
from owpc_ltr.kernels.pairs import HINGE, add_pairs, documents_of, grades_of, reset, weight_of_pairs
from owpc_ltr.protocols import Loss

Normalise = Literal["none", "pairs"]


@kernel
def _position_sensitive(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    if not reset(scores, gradient, curvature, False):
        return np.nan
    grades = grades_of(labels, weights)
    r = len(grades)
    share = 1.0
    if parameters[0] == 1.0 and r > 1:
        share = 1.0 / weight_of_pairs(labels, weights)[0]
    shares = np.empty(len(scores))
    for document in range(len(scores)):
        shares[document] = weights[document] * np.sqrt(share)
    value = 0.0
    for a in range(r - 1):
        # The lowest grade comes first: its rank label is r.
        lower = documents_of(labels, weights, grades[a])
        for b in range(a + 1, r):
            upper = documents_of(labels, weights, grades[b])
            margin = r / (r - b) - r / (r - a)
            value += add_pairs(HINGE, margin, scores, upper, lower, shares, gradient, curvature)
    return value


@dataclass(frozen=True)
class PositionSensitive(KernelLoss):
    """Sum over pairs of [|r / y_i − r / y_j| − (s_i − s_j)]₊, y the rank label, 1 to r.

    `normalise`: none (Def. 1, what the risk bounds of the paper are for) or pairs (the mean).
    Work grows with the square of the number of grades. A document of weight k counts as k copies.
    """

    name: ClassVar[str] = "position-sensitive"
    kernel: ClassVar[Kernel] = _position_sensitive
    has_curvature: ClassVar[bool] = True
    weights_are_copies: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = False

    normalise: Normalise = "none"

    def __post_init__(self) -> None:
        check_settings(self)

    def parameters(self) -> Vector:
        """Whether the mean is meant."""
        return np.array([choice_number(self, "normalise")])


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss position-sensitive`."""
    return [PositionSensitive]
