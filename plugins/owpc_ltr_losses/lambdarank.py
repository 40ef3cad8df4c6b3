"""LambdaRank: forces between documents, scaled by what a swap would change (Burges 2006).

λ_ij = p(s_i − s_j) |Δ_ij| pushes i (the better one) up and j down, where Δ_ij is the change of a
measure when i and j trade places. p is RankNet's logistic 1 / (1 + exp(x)), or the margin form
(Burges 2006, "Ranking as Learning Structured Outputs", eqs 4–6): 1 for x < 0, δ − x up to the
margin δ, then 0. Ranks come from the current scores, so the forces jump at each rank swap and
are the gradient of no cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.host.settings import check_settings, choice_number
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel
from owpc_ltr.kernels.pairs import has_nan, logistic
from owpc_ltr.protocols import Loss

Measure = Literal["ndcg", "map", "mrr", "winner-takes-all", "pairwise-error"]
Pair = Literal["logistic", "margin"]

_NDCG, _MAP, _MRR, _WINNER, _PAIRWISE_ERROR = range(5)
_MARGIN = 1


@kernel
def _lambdarank(
    scores: Any, labels: Any, weights: Any, parameters: Any, gradient: Any, curvature: Any
) -> float:
    gradient[:] = 0.0
    curvature[:] = 0.0
    if has_nan(scores):
        gradient[:] = np.nan
        return np.nan
    ranked = _rank(scores, labels, weights, _ranks_that_count(parameters))
    # From here on everything is in the order of the ranks: neighbours in memory, too.
    n = len(ranked)
    best_first = scores[ranked], labels[ranked].astype(np.float64), weights[ranked]
    slopes, bends = np.zeros(n), np.zeros(n if len(curvature) else 0)
    value = _forces(best_first, parameters, slopes, bends)
    alpha = parameters[4]
    for rank in range(n):
        document = ranked[rank]
        spring = alpha * weights[document]
        value += 0.5 * spring * scores[document] * scores[document] if spring > 0.0 else 0.0
        gradient[document] = slopes[rank] + (spring * scores[document] if spring > 0.0 else 0.0)
        if len(curvature):
            curvature[document] = bends[rank] + spring
    return float(value)


@dataclass(frozen=True)
class LambdaRank(KernelLoss):
    """pairwise forces times |change of the measure when the two documents trade places|.

    `measure`: ndcg (gain 2^label − 1, discount 1 / log2(1 + rank), down to rank `truncation`,
    0 for all ranks), pairwise-error (any grades), map, mrr, winner-takes-all (relevant is a
    label above 0). `pair` is the force: logistic, or margin, with its width `margin`. `alpha`
    adds α s_i to the slope, which regularises.

    The value is Σ |Δ_ij| C(s_i − s_j), with C the cost of the pair force alone: it serves to
    watch the training, and its gradient is the one returned only where |Δ| is held fixed.
    Time grows with the number of pairs: of rank `truncation` or better with any (ndcg),
    relevant with irrelevant (the binary ones), or all (pairwise-error of three grades or more).
    Among equal scores the lower grade is ranked first (ties count against the ranker), then the
    order of the documents decides. Each document has one rank; the force of a pair is
    multiplied by the weights of both, and one of weight 0 is not there.
    """

    name: ClassVar[str] = "lambdarank"
    kernel: ClassVar[Kernel] = _lambdarank
    has_curvature: ClassVar[bool] = True
    convex: ClassVar[bool] = False
    conservative: ClassVar[bool] = False
    smooth: ClassVar[bool] = False

    measure: Measure = "ndcg"
    truncation: int = 10
    pair: Pair = "logistic"
    margin: float = 1.0
    alpha: float = 0.0

    def __post_init__(self) -> None:
        check_settings(self)
        if self.truncation < 0:
            raise ValueError(f"truncation is a rank, or 0 for none, not {self.truncation}")
        if not (0 < self.margin < math.inf and 0 <= self.alpha < math.inf):
            raise ValueError("margin must be positive, alpha not negative, both finite")

    def parameters(self) -> Vector:
        """The settings as numbers."""
        measure, pair = choice_number(self, "measure"), choice_number(self, "pair")
        return np.array([measure, self.truncation, pair, self.margin, self.alpha])


@compiled
def _ranks_that_count(parameters: Any) -> int:
    """How many of the first ranks matter; 0 for all. NDCG sees none beyond its truncation."""
    return int(parameters[1]) if int(parameters[0]) == _NDCG else 0


@compiled
def _rank(scores: Any, labels: Any, weights: Any, top: int) -> Any:
    """Documents of positive weight, best score first; among equal scores low labels first.

    With `top` only so many are put in order, ahead of all others: one pass in place of a sort.
    """
    present = np.flatnonzero(weights > 0.0)
    if top == 0 or 4 * top > len(present):
        by_label = present[np.argsort(labels[present], kind="mergesort")]
        return by_label[np.argsort(-scores[by_label], kind="mergesort")]
    for k in range(1, len(present)):
        document, place = present[k], k
        if k >= top:
            if not _goes_before(document, present[top - 1], scores, labels):
                continue
            place = top - 1
            present[k] = present[place]
        while place > 0 and _goes_before(document, present[place - 1], scores, labels):
            present[place] = present[place - 1]
            place -= 1
        present[place] = document
    return present


@compiled
def _goes_before(one: int, other: int, scores: Any, labels: Any) -> bool:
    if scores[one] != scores[other]:
        return bool(scores[one] > scores[other])
    if labels[one] != labels[other]:
        return bool(labels[one] < labels[other])
    return one < other


@compiled
def _forces(query: Any, parameters: Any, slopes: Any, bends: Any) -> float:
    """Forces of all pairs on `query`: its scores, labels and weights, best score first."""
    measure, labels = int(parameters[0]), query[1]
    value: float
    if measure == _NDCG:
        value = _ndcg_forces(query, parameters, slopes, bends)
        return value
    relevant = labels > 0.0
    if measure == _PAIRWISE_ERROR and len(labels) > 0:
        middle = 0.5 * (labels.min() + labels.max())
        relevant = labels > middle
        two_grades = ((labels == labels.min()) | (labels == labels.max())).all()
        if not two_grades:
            value = _error_forces(query, parameters, slopes, bends)
            return value
    value = _binary_forces(relevant, query, parameters, slopes, bends)
    return value


@compiled
def _add_force(
    i: int, j: int, size: float, query: Any, parameters: Any, slopes: Any, bends: Any
) -> float:
    """Push rank i up and rank j down; the pair's part of the value."""
    scores, _, weights = query
    size *= weights[i] * weights[j]
    x = 0.0 if scores[i] == scores[j] else scores[i] - scores[j]
    if int(parameters[2]) == _MARGIN:
        cost, slope, bend = _margin_cost(x, parameters[3])
    else:
        cost, slope = logistic(x)
        bend = slope * (1.0 - slope)
    slopes[i] -= size * slope
    slopes[j] += size * slope
    if len(bends):
        bends[i] += size * bend
        bends[j] += size * bend
    value: float = size * cost
    return value


@compiled
def _margin_cost(x: float, margin: float) -> tuple[float, float, float]:
    """Burges (2006) eqs 7–9 plus ½δ² (so that it ends at 0), λ (eqs 4–6), and a curvature.

    Where the cost is straight (x < 0), the curvature is λ / δ: one Newton step is one margin.
    """
    rest = 0.5 * margin * margin
    if x < 0.0:
        return rest - x, 1.0, 1.0 / margin
    if x <= margin:
        return rest + 0.5 * x * x - margin * x, margin - x, 1.0
    return 0.0, 0.0, 0.0


@compiled
def _ndcg_forces(query: Any, parameters: Any, slopes: Any, bends: Any) -> float:
    """|Δ| = |gain_i − gain_j| |discount_i − discount_j| / ideal; ranks from 0 here."""
    labels = query[1]
    n = len(labels)
    last = n if parameters[1] == 0.0 else min(n, int(parameters[1]))
    gains, discounts = 2.0**labels - 1.0, np.zeros(n)
    best, ideal = np.sort(gains), 0.0
    for rank in range(last):
        discounts[rank] = 1.0 / math.log2(rank + 2.0)
        ideal += best[n - 1 - rank] * discounts[rank]
    value = 0.0
    if not ideal > 0.0:
        return value
    for a in range(last):
        for b in range(a + 1, n):
            difference = gains[a] - gains[b]
            if difference != 0.0:
                i, j = (a, b) if difference > 0.0 else (b, a)
                size = abs(difference) * (discounts[a] - discounts[b]) / ideal
                value += _add_force(i, j, size, query, parameters, slopes, bends)
    return value


@compiled
def _error_forces(query: Any, parameters: Any, slopes: Any, bends: Any) -> float:
    """|Δ| = pairs put right when the better of two takes the upper place, over all pairs.

    A document k between the two adds sign(label_k − label_j) + sign(label_i − label_k), with i
    the better one. `above[a]` is Σ_k sign(label_k − label_a) over those between a and b.
    """
    labels = query[1]
    n = len(labels)
    pairs = 0
    for a in range(n):
        for b in range(a):
            pairs += int(labels[a] != labels[b])
    above = np.zeros(n)
    value = 0.0
    for b in range(n):
        below = 0.0  # Σ_k sign(label_b − label_k)
        for a in range(b - 1, -1, -1):
            sign = np.sign(labels[b] - labels[a])
            if sign != 0.0:
                i, j = (b, a) if sign > 0.0 else (a, b)
                size = (1.0 + sign * (above[a] + below)) / pairs
                value += _add_force(i, j, size, query, parameters, slopes, bends)
            below += sign
            above[a] += sign
    return value


@compiled
def _binary_forces(relevant: Any, query: Any, parameters: Any, slopes: Any, bends: Any) -> float:
    """Forces between each relevant and each irrelevant document, |Δ| in constant time."""
    measure, n = int(parameters[0]), len(relevant)
    # hits[r] relevant documents, with 1/rank summed in shares[r], within the r first ranks.
    hits, shares = np.zeros(n + 1), np.zeros(n + 1)
    first, second = np.inf, np.inf
    for r in range(1, n + 1):
        hits[r] = hits[r - 1] + relevant[r - 1]
        shares[r] = shares[r - 1] + relevant[r - 1] / r
        if relevant[r - 1] and hits[r] == 1.0:
            first = float(r)
        elif relevant[r - 1] and hits[r] == 2.0:
            second = float(r)
    pairs = hits[n] * (n - hits[n])
    value = 0.0
    for r in range(1, n + 1):
        if not relevant[r - 1]:
            continue
        for k in range(1, n + 1):
            if relevant[k - 1]:
                continue
            a, b = min(r, k), max(r, k)
            size = 0.0
            if measure == _MAP:
                size = (hits[a - 1] + 1.0) / a - hits[b] / b + shares[b - 1] - shares[a]
                size /= hits[n]
            elif measure == _PAIRWISE_ERROR:
                size = (b - a) / pairs
            elif measure == _MRR:
                if k < first:
                    size = 1.0 / k - 1.0 / first
                elif r == first:
                    size = 1.0 / r - 1.0 / min(second, k)
            elif a == 1:
                size = 1.0
            if size > 0.0:
                value += _add_force(r - 1, k - 1, size, query, parameters, slopes, bends)
    return value


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss lambdarank`."""
    return [LambdaRank]
