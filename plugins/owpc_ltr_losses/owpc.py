"""Ordered weighted pairwise classification (Usunier, Buffoni & Gallinari, ICML 2009).

loss = 1/|R| Σ_{i∈R} owa_{j∈N} ℓ(s_i − s_j), where owa t = Σ_j α_j t_(j), t sorted in decreasing
order, with weights α that do not increase and sum to 1: from the mean of the pair losses (all α
alike: every pair counts the same) to their maximum (α_1 = 1: only the best-scored irrelevant
document counts). It is convex, and bounds the ranking error 1/|R| Σ_i Σ_{j ≤ rank_i} α_j from
above, if ℓ bounds [t ≤ 0] (their Prop. 2; the logistic ℓ does so when divided by log 2).

One sort serves every relevant document: ℓ decreases, so the order of the losses of i over N is
the order of the scores of N (their Prop. 3). O(m log m) for the hinges, O(m log m + |R| |N|) for
the logistic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.host.settings import check_settings, choice_number
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel, sort_ascending
from owpc_ltr.kernels.pairs import (
    LOGISTIC,
    Inner,
    add_pairs,
    lowest_grade,
    next_grade,
    reset,
    weight_of,
)
from owpc_ltr.protocols import Loss

Generator = Literal["constant", "top", "inverse", "exponential", "logarithmic"]
Grades = Literal["binary", "thresholds", "lower"]

_CONSTANT, _TOP, _INVERSE, _EXPONENTIAL, _LOGARITHMIC = range(5)
_BINARY, _THRESHOLDS, _LOWER = range(3)
_TABLE = 5  # where the table of the generator starts among the parameters


@kernel
def _owpc(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    if not reset(scores, gradient, curvature, False):
        return np.nan
    grades = int(parameters[2])
    if grades == _BINARY:
        smallest = 5e-324
        loss: float = _add_level(
            scores, labels, weights, smallest, np.inf, 1.0, parameters, gradient, curvature
        )
        return loss
    lowest = lowest_grade(labels, weights)
    # The mean over thresholds; or over all documents that are above the lowest grade.
    total = 0.0
    grade = next_grade(labels, weights, lowest)
    while grade < np.inf:
        total += 1.0 if grades == _THRESHOLDS else weight_of(labels, weights, grade)
        grade = next_grade(labels, weights, grade)
    value = 0.0
    grade = next_grade(labels, weights, lowest)
    while grade < np.inf:
        highest = np.inf if grades == _THRESHOLDS else grade
        part = 1.0 if grades == _THRESHOLDS else weight_of(labels, weights, grade)
        share = part / total
        value += _add_level(
            scores, labels, weights, grade, highest, share, parameters, gradient, curvature
        )
        grade = next_grade(labels, weights, grade)
    return value


@dataclass(frozen=True)
class OWPC(KernelLoss):
    """mean over relevant i of owa over irrelevant j of ℓ(s_i − s_j), ℓ(t) = [margin − t]₊.

    `generator` g gives the weights α_j = g(j) / Σ_k g(k) of n irrelevant documents: constant 1;
    top [j ≤ n p / 100] (j = 1 always counts); inverse 1 / j; exponential 2^(−(100 / p) j / n);
    logarithmic 1 / log(j + 1), so shifted because 1 / log j has no first term. `p` is in per
    cent, in (0, 100]. `inner` is ℓ: hinge, squared hinge or logistic (which has no margin).

    `grades`: binary (relevant is a label above 0); thresholds (the mean of the binary losses for
    each grade of the query, but the lowest, as the least relevant one); lower (each document
    against all those of lower grade). Work and time grow with the number of grades. Training takes
    thresholds where the metric that chooses has a use for several grades (`for_grades`).

    Irrelevant documents with equal scores share their weights α, so that the gradient does not
    depend on the order of the documents. A document of weight k counts as k copies.
    """

    name: ClassVar[str] = "owpc"
    kernel: ClassVar[Kernel] = _owpc
    has_curvature: ClassVar[bool] = True
    weights_are_copies: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    for_grades: ClassVar[Mapping[str, Any]] = MappingProxyType({"grades": "thresholds"})

    generator: Generator = "constant"
    p: float = 10.0
    inner: Inner = "hinge"
    margin: float = 1.0
    grades: Grades = "binary"

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 < self.p <= 100:
            raise ValueError(f"p is in per cent, above 0 and at most 100, not {self.p}")
        if not 0 < self.margin < math.inf:
            raise ValueError(f"margin must be positive and finite, not {self.margin}")

    @property
    def smooth(self) -> bool:
        """Whether the gradient is continuous: only with equal weights, else it jumps at swaps."""
        return self.generator == "constant" and self.inner != "hinge"

    def parameters(self) -> Vector:
        """The settings as numbers, then the generator's sums where they have no formula."""
        settings = [
            choice_number(self, "inner"),
            self.margin,
            choice_number(self, "grades"),
            choice_number(self, "generator"),
            self.p,
        ]
        return np.concatenate((settings, _table(self.generator)))


@lru_cache
def _table(generator: Generator, length: int = 16384) -> Vector:
    """Σ_{k≤j} g(k) for j = 0, 1, …: longer lists go on from its end."""
    j = np.arange(1, length)
    if generator == "inverse":
        return np.concatenate(([0.0], np.cumsum(1.0 / j)))
    if generator == "logarithmic":
        return np.concatenate(([0.0], np.cumsum(1.0 / np.log1p(j))))
    return np.zeros(0)


@compiled
def _add_level(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    lowest: float,
    highest: float,
    share: float,
    parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    """`share` times the loss of labels in [lowest, highest] against those below."""
    inner, margin, generator = int(parameters[0]), parameters[1], int(parameters[3])
    documents = np.empty(len(scores) + 1, dtype=np.int64)
    shares = np.empty(len(scores))
    relevant, n_relevant, n_irrelevant = 0, 0.0, 0.0
    floor = np.inf
    for i in range(len(scores)):
        if labels[i] < lowest:
            n_irrelevant += weights[i]
        elif labels[i] <= highest and weights[i] > 0.0:
            documents[relevant] = i
            relevant += 1
            n_relevant += weights[i]
            floor = min(floor, scores[i])
    if not (n_relevant > 0.0 and n_irrelevant > 0.0):
        return 0.0
    upper = documents[:relevant]
    for i in upper:
        shares[i] = weights[i] * share / n_relevant
    # Only what scores above the lowest relevant document, less the margin, costs anything.
    reach = -np.inf if inner == LOGISTIC else floor - margin
    end = relevant
    for j in range(len(scores)):
        # Written whether or not it is kept: cheaper than a branch that nobody can predict.
        documents[end] = j
        if (labels[j] < lowest) & (weights[j] > 0.0) & (scores[j] > reach):
            end += 1
    lower = documents[relevant:end]
    _order_shares(generator, scores, lower, weights, n_irrelevant, parameters, shares)
    value: float = add_pairs(inner, margin, scores, upper, lower, shares, gradient, curvature)
    return value


@compiled
def _order_shares(
    generator: int,
    scores: Vector,
    lower: IntVector,
    weights: Labels,
    n: float,
    parameters: Vector,
    shares: Vector,
) -> None:
    """Write α, in the order of decreasing scores, to the shares of the documents of `lower`.

    A document of weight k takes k of them, a fraction in proportion; ties share theirs.
    """
    if generator == _CONSTANT:
        for j in lower:
            shares[j] = weights[j] / n
        return
    sort_ascending(scores, lower)
    p, table = parameters[4], parameters[_TABLE:]
    # Beyond the table, the largest j that was reached, and its sum.
    beyond = (len(table) - 1.0, table[-1] if len(table) else 0.0)
    total, _ = _cumulated(generator, n, n, p, table, beyond)
    scale = 1.0 / total
    decay = math.exp(-math.log(2.0) * 100.0 / (p * n))
    end, passed, before, power = len(lower), 0.0, 0.0, 1.0
    while end > 0:
        start, tied = end - 1, np.float64(weights[lower[end - 1]])
        while start > 0 and scores[lower[start - 1]] == scores[lower[end - 1]]:
            start -= 1
            tied += weights[lower[start]]
        passed += tied
        if generator == _EXPONENTIAL:
            power *= decay if tied == 1.0 else decay**tied
            after = (1.0 - power) * scale
        else:
            after, beyond = _cumulated(generator, passed, n, p, table, beyond)
            after *= scale
        for k in range(start, end):
            part = 1.0 if end - start == 1 else weights[lower[k]] / tied
            shares[lower[k]] = (after - before) * part
        before, end = after, start


@compiled
def _cumulated(
    generator: int, t: float, n: float, p: float, table: Vector, beyond: tuple[float, float]
) -> tuple[float, tuple[float, float]]:
    """Σ_{j≤t} g(j), up to a constant factor; between whole numbers, a straight line."""
    if generator == _TOP:
        return min(t, max(1.0, math.floor(p * n / 100.0 + 1e-9))), beyond
    if generator == _EXPONENTIAL:
        return -math.expm1(-math.log(2.0) * 100.0 * t / (p * n)), beyond
    whole = int(t)
    if whole + 1 < len(table):
        return table[whole] + (t - whole) * (table[whole + 1] - table[whole]), beyond
    last, total = beyond
    while last < whole:
        last += 1.0
        total += _generator(generator, last)
    return total + (t - whole) * _generator(generator, whole + 1.0), (last, total)


@compiled
def _generator(generator: int, j: float) -> float:
    return 1.0 / j if generator == _INVERSE else 1.0 / math.log(j + 1.0)


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss owpc`."""
    return [OWPC]
