"""Pairwise classification: RankSVM (Joachims 2002) and RankNet's cost (Burges et al. 2005).

loss = Σ_{i,j: label_i > label_j} c_ij ℓ(s_i − s_j), with ℓ the hinge, its square, or the
logistic cost log(1 + exp(−t)). For the hinges O(m log m) for each grade above the lowest, by
one sort and cumulated sums (as Joachims 2006; Lee & Lin 2014); for the logistic all pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.host.settings import check_settings, choice_number
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel
from owpc_ltr.kernels.pairs import (
    Inner,
    add_pairs,
    lowest_grade,
    next_grade,
    reset,
    weight_of_pairs,
)
from owpc_ltr.protocols import Loss

Normalise = Literal["pairs", "relevant", "none"]

_PAIRS, _RELEVANT, _NONE = range(3)


@kernel
def _pairwise(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    if not reset(scores, gradient, curvature, False):
        return np.nan
    inner, margin, normalise = int(parameters[0]), parameters[1], int(parameters[2])
    documents, shares = np.empty(len(scores) + 1, dtype=np.int64), np.empty(len(scores))
    pairs, relevant = weight_of_pairs(labels, weights)
    value = 0.0
    grade = next_grade(labels, weights, lowest_grade(labels, weights))
    while grade < np.inf:
        n_upper = _split(labels, weights, grade, documents, shares)
        upper, lower = documents[:n_upper], _lower_of(labels, weights, grade, documents, n_upper)
        n_below = 0.0
        for j in lower:
            n_below += shares[j]
        scale = 1.0
        if normalise == _PAIRS:
            scale = 1.0 / pairs
        elif normalise == _RELEVANT:
            scale = 1.0 / (relevant * n_below)
        for i in upper:
            shares[i] *= scale
        value += add_pairs(inner, margin, scores, upper, lower, shares, gradient, curvature)
        grade = next_grade(labels, weights, grade)
    return value


@dataclass(frozen=True)
class Pairwise(KernelLoss):
    """mean over pairs (label_i > label_j) of ℓ(s_i − s_j), ℓ(t) = [margin − t]₊.

    `inner` is ℓ: hinge, squared hinge or logistic (RankNet's cost, which has no margin).
    `normalise`: pairs (the mean over all pairs of the query); relevant (for each document the
    mean over those of lower grade, then the mean over documents: with two grades, the same);
    none (the plain sum, as in SVM-rank, where long lists count more). A document of weight k
    counts as k copies.
    """

    name: ClassVar[str] = "pairwise"
    kernel: ClassVar[Kernel] = _pairwise
    has_curvature: ClassVar[bool] = True
    weights_are_copies: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True

    inner: Inner = "hinge"
    margin: float = 1.0
    normalise: Normalise = "pairs"

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 < self.margin < math.inf:
            raise ValueError(f"margin must be positive and finite, not {self.margin}")

    @property
    def smooth(self) -> bool:
        """Whether the gradient is continuous."""
        return self.inner != "hinge"

    def parameters(self) -> Vector:
        """ℓ, its margin, and how the sum is normalised."""
        inner, normalise = choice_number(self, "inner"), choice_number(self, "normalise")
        return np.array([inner, self.margin, normalise])


@compiled
def _split(
    labels: Labels, weights: Labels, grade: float, documents: IntVector, shares: Vector
) -> int:
    """Put the documents of this grade first; all shares become the weights; how many."""
    count = 0
    for i in range(len(labels)):
        shares[i] = weights[i]
        if labels[i] == grade and weights[i] > 0.0:
            documents[count] = i
            count += 1
    return count


@compiled
def _lower_of(
    labels: Labels, weights: Labels, grade: float, documents: IntVector, start: int
) -> IntVector:
    """The documents of lower grade, written to `documents` from `start` on."""
    end = start
    for j in range(len(labels)):
        documents[end] = j
        if labels[j] < grade and weights[j] > 0.0:
            end += 1
    return documents[start:end]


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss pairwise`."""
    return [Pairwise]
