"""Compiled sums over pairs of documents, one of them better: what pairwise losses are made of.

A pair (i above j) costs ℓ(s_i − s_j), times the shares of both documents, where ℓ(t) is
hinge [margin − t]₊, squared hinge [margin − t]₊² or logistic log(1 + exp(−t)).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from owpc_ltr.arrays import IntVector, Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.kernels.kernel import sort_ascending

Inner = Literal["hinge", "squared-hinge", "logistic"]
"""Names of the price ℓ of one pair; a kernel reads its place among them (`choice_number`)."""

HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2

_FEW = 16  # upper documents: up to here, each lower one is compared with all of them


@compiled
def add_pairs(
    inner: int,
    margin: float,
    scores: Vector,
    upper: IntVector,
    lower: IntVector,
    shares: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    """Σ shares_i shares_j ℓ(s_i − s_j) over i in `upper` and j in `lower` (document numbers).

    Adds the gradient, and the curvature where that array is not empty. May sort both.
    The hinge has no second derivative: its curvature is |gradient| / margin, with which one
    Newton step moves a document by one margin.
    """
    if inner == LOGISTIC:
        total_cost: float = _add_logistic(scores, upper, lower, shares, gradient, curvature)
        return total_cost
    sort_ascending(scores, upper)
    # Scores are counted from the lowest upper one, so that large scores do not cancel.
    zero = scores[upper[0]]
    if not np.isfinite(zero):
        zero = 0.0
    square, n_upper = inner == SQUARED_HINGE, len(upper)
    heights, below, reached = _sums_below(scores, upper, zero, shares)
    few = n_upper <= _FEW
    if not few:
        sort_ascending(scores, lower)
    value, k = 0.0, 0
    for j in lower:
        d = scores[j] - zero + margin
        if few:
            # Without a branch to mispredict, many comparisons are faster than one.
            k = 0
            for height in heights:
                k += int(height < d)
        else:
            while k < n_upper and heights[k] < d:
                k += 1
        if k == 0:
            continue
        share = shares[j]
        reached[k, 0] += share
        reached[k, 1] += share * d
        slope = below[k, 0]
        if square:
            value += share * (d * (slope * d - 2.0 * below[k, 1]) + below[k, 2])
            slope = 2.0 * (slope * d - below[k, 1])
        else:
            value += share * (slope * d - below[k, 1])
        gradient[j] += share * slope
        if len(curvature):
            curvature[j] += share * (2.0 * below[k, 0] if square else slope / margin)
    # Each upper document is violated by all that reach beyond its place.
    count, total = 0.0, 0.0
    for k in range(n_upper - 1, -1, -1):
        count += reached[k + 1, 0]
        total += reached[k + 1, 1]
        if count > 0.0:
            slope = 2.0 * (total - count * heights[k]) if square else count
            gradient[upper[k]] -= shares[upper[k]] * slope
            if len(curvature):
                curvature[upper[k]] += shares[upper[k]] * (
                    2.0 * count if square else slope / margin
                )
    return value


@compiled
def _sums_below(
    scores: Vector, upper: IntVector, zero: float, shares: Vector
) -> tuple[Any, Any, Any]:
    """Heights e = s − zero; Σ share, Σ share e, Σ share e² of the k lowest; zeros of that size."""
    n = len(upper)
    sums = np.zeros((2 * n + 3, 3))
    below, reached = sums[: n + 1], sums[n + 1 : 2 * n + 2]
    heights = np.empty(n)
    for k in range(n):
        e, share = scores[upper[k]] - zero, shares[upper[k]]
        heights[k] = e
        below[k + 1, 0] = below[k, 0] + share
        below[k + 1, 1] = below[k, 1] + share * e
        below[k + 1, 2] = below[k, 2] + share * e * e
    return heights, below, reached


@compiled
def _add_logistic(
    scores: Vector,
    upper: IntVector,
    lower: IntVector,
    shares: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    value = 0.0
    for i in upper:
        for j in lower:
            share = shares[i] * shares[j]
            if share > 0.0:
                # Two infinite scores may be tied, though their difference is not a number.
                tied = scores[i] == scores[j]
                cost, slope = logistic(0.0 if tied else scores[i] - scores[j])
                value += share * cost
                gradient[i] -= share * slope
                gradient[j] += share * slope
                if len(curvature):
                    bend = share * slope * (1.0 - slope)
                    curvature[i] += bend
                    curvature[j] += bend
    return value


@compiled
def logistic(difference: float) -> tuple[float, float]:
    """log(1 + exp(−t)) and −(its derivative) 1 / (1 + exp(t)), for any t but NaN."""
    small = math.exp(-abs(difference))
    if small < 0.01:
        # The series to its seventh term is exact here, and much faster than the logarithm.
        tail = small * (1 / 5 - small * (1 / 6 - small / 7))
        cost = small * (1 - small * (1 / 2 - small * (1 / 3 - small * (1 / 4 - tail))))
    else:
        cost = math.log1p(small)
    if difference >= 0.0:
        return cost, small / (1.0 + small)
    return cost - difference, 1.0 / (1.0 + small)


@compiled
def reset(scores: Vector, gradient: Vector, curvature: Vector, finite: bool) -> bool:
    """Set gradient and curvature to 0; False, and the gradient NaN, where no loss is defined.

    That is where a score is NaN, or, for a loss that needs `finite` ones, infinite.
    """
    curvature[:] = 0.0
    undefined = False
    for score in scores:
        # True for NaN alone; of what is infinite, the difference is NaN.
        undefined |= score != score or (finite and score - score != 0.0)  # noqa: PLR0124
    gradient[:] = np.nan if undefined else 0.0
    return not undefined


@compiled
def next_grade(labels: Labels, weights: Labels, grade: float) -> float:
    """The smallest label above `grade` among documents of positive weight; inf without one."""
    next_label = np.inf
    for document in range(len(labels)):
        label = np.float64(labels[document])
        if grade < label < next_label and weights[document] > 0.0:
            next_label = label
    return next_label


@compiled
def lowest_grade(labels: Labels, weights: Labels) -> float:
    """The smallest label among documents of positive weight; inf without one."""
    grade: float = next_grade(labels, weights, -np.inf)
    return grade


@compiled
def grades_of(labels: Labels, weights: Labels) -> Any:
    """The different labels among documents of positive weight, lowest first."""
    grades = np.empty(len(labels))
    count = 0
    grade = lowest_grade(labels, weights)
    while grade < np.inf:
        grades[count] = grade
        count += 1
        grade = next_grade(labels, weights, grade)
    return grades[:count]


@compiled
def weight_of(labels: Labels, weights: Labels, grade: float) -> float:
    """The weight of all documents of a grade."""
    total = 0.0
    for document in range(len(labels)):
        if labels[document] == grade:
            total += weights[document]
    return total


@compiled
def weight_of_pairs(labels: Labels, weights: Labels) -> tuple[float, float]:
    """Weight of all pairs of different grade, and of all documents above the lowest grade."""
    below, pairs, relevant = 0.0, 0.0, 0.0
    lowest = lowest_grade(labels, weights)
    grade = lowest
    while grade < np.inf:
        level = weight_of(labels, weights, grade)
        pairs += level * below
        relevant += level if grade > lowest else 0.0
        below += level
        grade = next_grade(labels, weights, grade)
    return pairs, relevant


@compiled
def documents_of(labels: Labels, weights: Labels, grade: float) -> Any:
    """The numbers of the documents of a grade, of positive weight."""
    documents = np.empty(len(labels), dtype=np.int64)
    count = 0
    for document in range(len(labels)):
        if labels[document] == grade and weights[document] > 0.0:
            documents[count] = document
            count += 1
    return documents[:count]
