"""LambdaRank: forces between documents, scaled by what a swap would change (Burges 2006).

λ_ij = p(s_i − s_j) |Δ_ij| pushes i (the better one) up and j down, where Δ_ij is the change of a
measure when i and j trade places. p is RankNet's logistic 1 / (1 + exp(x)), or the margin form
(Burges 2006, "Ranking as Learning Structured Outputs", eqs 4–6): 1 for x < 0, δ − x up to the
margin δ, then 0. Ranks come from the current scores, so the forces jump at each rank swap and
are the gradient of no cost.

The normalisations are LightGBM's (`lambdarank_norm`): |Δ_ij| / (0.01 + |s_i − s_j|), unless all
scores are equal, and a query's forces times log2(1 + Σλ) / Σλ, with each pair twice in Σλ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import Refused
from owpc_ltr.host.settings import check_settings, choice_number
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel, sort_ascending
from owpc_ltr.kernels.pairs import logistic, reset
from owpc_ltr.metrics.metric import Gain
from owpc_ltr.protocols import Loss

Measure = Literal["ndcg", "map", "mrr", "winner-takes-all", "pairwise-error"]
Pair = Literal["logistic", "margin"]
Normalise = Literal["none", "pairs", "queries", "both"]

_NDCG, _MAP, _MRR, _WINNER, _PAIRWISE_ERROR = range(5)
_MARGIN = 1
_NONE, _PAIRS, _QUERIES, _BOTH = range(4)
_SCORE, _WEIGHT, _UP, _DOWN, _GAIN, _DISCOUNT = range(6)
_SLOPE, _BEND, _VALUE, _FORCE = range(4)
_EXPONENTIAL = 0
_HIGHEST_LABEL = 31  # of an exponential gain; XGBoost has the same
_LANES = 8  # float64 numbers in the longest vector of a processor
_NEAR = 0.01
_WIDE = 600.0  # a range of scores whose exponentials are still finite


@kernel
def _lambdarank(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    if not reset(scores, gradient, curvature, False):
        return np.nan
    ranked = _rank(scores, labels, weights, _ranks_that_count(parameters))
    # From here on everything is in the order of the ranks: neighbours in memory, too.
    n = len(ranked)
    # Columns beyond the last rank have weight 0: every row is a whole number of vectors.
    width = n + -n % _LANES
    query, sums = np.zeros((6, width)), np.zeros((4, width))
    _fill_best_first(ranked, scores, weights, parameters, query)
    if int(parameters[0]) == _NDCG:
        last = _fill_worth(ranked, labels, parameters, query)
        _add_ndcg(n, last, query, parameters, sums)
    else:
        _add_others(ranked, labels, query, parameters, sums)
    value, force = 0.0, 0.0
    for rank in range(n):
        value += sums[_VALUE, rank]
        force += sums[_FORCE, rank]
    share, alpha = _share(force, int(parameters[5])), parameters[4]
    value *= share
    for rank in range(n):
        document = ranked[rank]
        spring = alpha * weights[document]
        value += 0.5 * spring * scores[document] * scores[document] if spring > 0.0 else 0.0
        gradient[document] = share * sums[_SLOPE, rank]
        gradient[document] += spring * scores[document] if spring > 0.0 else 0.0
        if len(curvature):
            curvature[document] = share * sums[_BEND, rank] + spring
    return float(value)


@dataclass(frozen=True)
class LambdaRank(KernelLoss):
    """pairwise forces times |change of the measure when the two documents trade places|.

    `measure`: ndcg (discount 1 / log2(1 + rank), down to rank `truncation`, 0 for all ranks),
    pairwise-error (any grades), map, mrr, winner-takes-all (relevant is a label above 0). `gain`
    is that of ndcg: 2^label − 1 (exponential) or the label (linear). Where it is not set, training
    takes that of the metric that chooses (`ndcg@10,gain=linear`). `pair` is the force: logistic, or
    margin, with its width `margin`. `alpha` adds α s_i to the slope, which regularises.
    `normalise`: pairs (near ones count more), queries (those of large forces count less), both, or
    none. With both and rank 30 it is LightGBM's.

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
    from_metric: ClassVar[tuple[str, ...]] = ("gain",)

    measure: Measure = "ndcg"
    truncation: int = 30
    pair: Pair = "logistic"
    margin: float = 1.0
    alpha: float = 0.0
    normalise: Normalise = "both"
    gain: Gain = "exponential"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.truncation < 0:
            raise ValueError(f"truncation is a rank, or 0 for none, not {self.truncation}")
        if not (0 < self.margin < math.inf and 0 <= self.alpha < math.inf):
            raise ValueError("margin must be positive, alpha not negative, both finite")

    def parameters(self) -> Vector:
        """The settings as numbers."""
        measure, pair = choice_number(self, "measure"), choice_number(self, "pair")
        normalise, gain = choice_number(self, "normalise"), choice_number(self, "gain")
        return np.array([measure, self.truncation, pair, self.margin, self.alpha, normalise, gain])

    def check_labels(self, highest: float) -> None:
        """Refuse labels beside whose gain 2^label − 1 all others count nothing."""
        exponential = self.measure == "ndcg" and self.gain == "exponential"
        if exponential and highest > _HIGHEST_LABEL:
            raise Refused(
                f"the largest label is {highest:g}, and loss '{self.name}' takes labels up to "
                f"{_HIGHEST_LABEL} with the gain 2^label − 1: set loss.gain=linear, or use "
                '`metric="ndcg@10,gain=linear"`, whose gain the loss takes over'
            )


@compiled
def _ranks_that_count(parameters: Vector) -> int:
    """How many of the first ranks matter; 0 for all. NDCG sees none beyond its truncation."""
    return int(parameters[1]) if int(parameters[0]) == _NDCG else 0


@compiled
def _rank(scores: Vector, labels: Labels, weights: Labels, top: int) -> IntVector:
    """Documents of positive weight, best score first; among equal scores low labels first.

    With `top` only so many are put in order, ahead of all others: one pass in place of a sort.
    """
    documents, n = np.empty(len(weights), dtype=np.int64), 0
    for document in range(len(weights)):
        if weights[document] > 0.0:
            documents[n] = document
            n += 1
    present = documents[:n]
    if top == 0 or 4 * top > n:
        keys = np.empty(len(scores))
        for document in range(len(scores)):
            keys[document] = -scores[document]
        sort_ascending(keys, present)
        _sort_ties(scores, labels, present, keys)
        return present
    for k in range(1, n):
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
def _sort_ties(scores: Vector, labels: Labels, ranked: IntVector, keys: Vector) -> None:
    """Sort each run of equal scores by the labels; equal labels keep their order.

    `keys` has room for one number a document.
    """
    first = 0
    for rank in range(1, len(ranked) + 1):
        if rank == len(ranked) or scores[ranked[rank]] != scores[ranked[first]]:
            if rank - first > 1:
                tied = ranked[first:rank]
                for document in tied:
                    keys[document] = labels[document]
                sort_ascending(keys, tied)
            first = rank


@compiled
def _goes_before(document: int, other: int, scores: Vector, labels: Labels) -> bool:
    if scores[document] != scores[other]:
        return bool(scores[document] > scores[other])
    if labels[document] != labels[other]:
        return bool(labels[document] < labels[other])
    return document < other


@compiled
def _fill_best_first(
    ranked: IntVector,
    scores: Vector,
    weights: Labels,
    parameters: Vector,
    query: NDArray[np.float64],
) -> None:
    """Write one column a rank: score, weight, exp(s − c) and exp(c − s), c in the middle.

    exp(−|s_i − s_j|) is a product of two of them: exponentials of documents, not of pairs. They
    are 0 where they would overflow, and with the margin, which needs none.
    """
    low, high = np.inf, -np.inf
    for rank in range(len(ranked)):
        score = scores[ranked[rank]]
        low, high = min(low, score), max(high, score)
        query[_SCORE, rank], query[_WEIGHT, rank] = score, weights[ranked[rank]]
    if int(parameters[2]) != _MARGIN and high - low < _WIDE:
        middle = 0.5 * (low + high)
        for rank in range(len(ranked)):
            query[_UP, rank] = math.exp(query[_SCORE, rank] - middle)
            query[_DOWN, rank] = 1.0 / query[_UP, rank]


@compiled
def _add_others(
    ranked: IntVector,
    labels: Labels,
    query: NDArray[np.float64],
    parameters: Vector,
    sums: NDArray[np.float64],
) -> None:
    """Add the forces of all pairs of a query, for the measures other than NDCG."""
    grades, n = np.empty(len(ranked)), len(ranked)
    lowest, highest = np.inf, -np.inf
    for rank in range(n):
        grades[rank] = labels[ranked[rank]]
        lowest, highest = min(lowest, grades[rank]), max(highest, grades[rank])
    limit = 0.0
    if int(parameters[0]) == _PAIRWISE_ERROR:
        limit = 0.5 * (lowest + highest)
        for rank in range(n):
            if lowest < grades[rank] < highest:
                _add_error(grades, query, parameters, sums)
                return
    for rank in range(n):
        grades[rank] = 1.0 if grades[rank] > limit else 0.0
    _add_binary(grades, query, parameters, sums)


@compiled
def _push(
    row: int,
    last: int,
    sizes: Vector,
    query: NDArray[np.float64],
    parameters: Vector,
    sums: NDArray[np.float64],
) -> None:
    """Add the forces between the document of rank `row` and those before rank `last`.

    A size is |Δ| where the document of the row is the better one, −|Δ| where the other is, and 0
    where there is no force. Each row of `sums` has one entry a document: slope, curvature, and
    what the pairs of a row add to the value and to Σ λ.
    """
    weights = query[_WEIGHT]
    for k in range(last):
        sizes[k] *= weights[row] * weights[k]
    near, far = _divisor(query, len(sizes), parameters)
    if query[_UP, 0] > 0.0:
        _push_many(row, np.uint64(last), sizes, query, near, far, sums)
    else:
        for k in range(last):
            if sizes[k] != 0.0:
                _push_one(row, k, sizes[k], query[_SCORE], near, far, parameters, sums)


@compiled
def _divisor(query: NDArray[np.float64], n: int, parameters: Vector) -> tuple[float, float]:
    """Two numbers: the size of a pair at distance d is divided by the first + the second · d."""
    normalise = int(parameters[5])
    divided = normalise == _PAIRS or normalise == _BOTH  # noqa: PLR1714 - compiles far faster
    if divided and query[_SCORE, 0] != query[_SCORE, n - 1]:
        return _NEAR, 1.0
    return 1.0, 0.0


@compiled(fastmath={"reassoc", "contract", "nsz"})
def _push_many(
    row: int,
    last: np.uint64,
    sizes: Vector,
    query: NDArray[np.float64],
    near: float,
    far: float,
    sums: NDArray[np.float64],
) -> None:
    """The logistic forces of a row, without a branch: the processor adds several at once."""
    scores, up, down = query[_SCORE], query[_UP], query[_DOWN]
    slopes, bends = sums[_SLOPE], sums[_BEND]
    score, own_up, own_down = scores[row], up[row], down[row]
    slope, bend, value, force = 0.0, 0.0, 0.0, 0.0
    for k in range(last):
        push, curve, cost = _logistic_force(
            sizes[k], score - scores[k], own_up * down[k], own_down * up[k], near, far
        )
        value += cost
        force += abs(push)
        slope += push
        slopes[k] += push
        bend += curve
        bends[k] += curve
    slopes[row] -= slope
    bends[row] += bend
    sums[_VALUE, row] += value
    sums[_FORCE, row] += 2.0 * force


@compiled(fastmath={"reassoc", "contract", "nsz"})
def _logistic_force(
    size: float, difference: float, rising: float, falling: float, near: float, far: float
) -> tuple[float, float, float]:
    """Slope, curvature and value of a pair; `rising` is exp(difference), `falling` its inverse."""
    gap = abs(difference)
    small = falling if falling < rising else rising
    divisor, one_and, two_and = near + far * gap, 1.0 + small, 2.0 + small
    # One division in place of three.
    share = 1.0 / (divisor * one_and * two_and)
    half = share * divisor * two_and
    z = small * share * divisor * one_and
    size *= share * one_and * two_and
    right = size * difference >= 0.0
    push = size * half * (small if right else 1.0)
    size = abs(size)
    curve = size * small * half * half
    return push, curve, size * (2.0 * z * _artanh_over(z * z) + (0.0 if right else gap))


@compiled(fastmath={"reassoc", "contract", "nsz"})
def _artanh_over(square: float) -> float:
    """artanh(z) / z of z²: log(1 + x) is 2 artanh(x / (2 + x)). Here z is up to 1/3.

    The series ends where the rest is below 1e-10.
    """
    total = 0.0
    for k in range(17, 0, -2):
        total = total * square + 1.0 / k
    return total


@compiled
def _push_one(
    row: int,
    k: int,
    size: float,
    scores: Vector,
    near: float,
    far: float,
    parameters: Vector,
    sums: NDArray[np.float64],
) -> None:
    """The force of one pair, of any scores."""
    i, j = (row, k) if size > 0.0 else (k, row)
    x = 0.0 if scores[i] == scores[j] else scores[i] - scores[j]
    size = abs(size) / (near + far * abs(x)) if far > 0.0 else abs(size)
    if size == 0.0:
        return
    if int(parameters[2]) == _MARGIN:
        cost, slope, bend = _margin_cost(x, parameters[3])
    else:
        cost, slope = logistic(x)
        bend = slope * (1.0 - slope)
    sums[_SLOPE, i] -= size * slope
    sums[_SLOPE, j] += size * slope
    sums[_BEND, i] += size * bend
    sums[_BEND, j] += size * bend
    sums[_VALUE, row] += size * cost
    sums[_FORCE, row] += 2.0 * size * slope


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
def _share(total: float, normalise: int) -> float:
    """What multiplies the forces of a query, of the sum Σ λ."""
    divided = normalise == _QUERIES or normalise == _BOTH  # noqa: PLR1714 - compiles far faster
    if divided and 0.0 < total < np.inf:
        return math.log2(1.0 + total) / total
    return 1.0


@compiled
def _fill_worth(
    ranked: IntVector, labels: Labels, parameters: Vector, query: NDArray[np.float64]
) -> int:
    """Write gain / ideal and discount of each rank; the number of ranks with a discount.

    It is 0 where no document has a gain.
    """
    n = len(ranked)
    last = n if parameters[1] == 0.0 else min(n, int(parameters[1]))
    gains, discounts = query[_GAIN], query[_DISCOUNT]
    for rank in range(last):
        discounts[rank] = 1.0 / math.log2(rank + 2.0)
    best, ideal = np.empty(n), 0.0
    _fill_gains(ranked, labels, int(parameters[6]) == _EXPONENTIAL, gains[:n], best)
    for rank in range(last):
        ideal += best[n - 1 - rank] * discounts[rank]
    if not ideal > 0.0:
        return 0
    for rank in range(n):
        gains[rank] /= ideal
    return last


@compiled
def _add_ndcg(
    n: int, last: int, query: NDArray[np.float64], parameters: Vector, sums: NDArray[np.float64]
) -> None:
    """|Δ| = |gain_i − gain_j| |discount_i − discount_j| / ideal, of n documents; ranks from 0."""
    if last == 0:
        return
    near, far = _divisor(query, n, parameters)
    if query[_UP, 0] > 0.0:
        _push_all(last, query, near, far, sums)
        return
    scores, weights, gains, discounts = (
        query[_SCORE],
        query[_WEIGHT],
        query[_GAIN],
        query[_DISCOUNT],
    )
    for a in range(last):
        for b in range(a + 1, n):
            size = (gains[a] - gains[b]) * (discounts[a] - discounts[b])
            if size != 0.0:
                size *= weights[a] * weights[b]
                _push_one(a, b, size, scores, near, far, parameters, sums)


@compiled
def _fill_gains(
    ranked: IntVector, labels: Labels, exponential: bool, gains: Vector, increasing: Vector
) -> None:
    """Write the gain of each rank, and all gains in increasing order."""
    highest, whole = 0.0, True
    for rank in range(len(ranked)):
        label = float(labels[ranked[rank]])
        gains[rank] = label
        highest = max(highest, label)
        whole &= 0.0 <= label <= _HIGHEST_LABEL and label == math.floor(label)
    if whole:
        _fill_whole_gains(exponential, gains, increasing)
        return
    if exponential:
        # All gains are divided by 2^highest, and so is the ideal: no label is too large.
        for rank in range(len(gains)):
            gains[rank] = 2.0 ** (gains[rank] - highest) - 2.0**-highest
    order = np.empty(len(gains), dtype=np.int64)
    for rank in range(len(gains)):
        order[rank] = rank
    sort_ascending(gains, order)
    for place in range(len(gains)):
        increasing[place] = gains[order[place]]


@compiled
def _fill_whole_gains(exponential: bool, gains: Vector, increasing: Vector) -> None:
    """The same for whole labels, which `gains` holds: counting them is faster than a sort."""
    counts = np.zeros(_HIGHEST_LABEL + 1, dtype=np.int64)
    for rank in range(len(gains)):
        level = int(gains[rank])
        counts[level] += 1
        gains[rank] = (1 << level) - 1 if exponential else level
    first = 0
    for level in range(len(counts)):
        for place in range(first, first + counts[level]):
            increasing[place] = (1 << level) - 1 if exponential else level
        first += counts[level]


@compiled(fastmath={"reassoc", "contract", "nsz"})
def _push_all(
    last: int, query: NDArray[np.float64], near: float, far: float, sums: NDArray[np.float64]
) -> None:
    """The logistic forces of NDCG between each rank before `last` and all ranks below it.

    A row begins at a whole vector: of the ranks above its own, |Δ| is taken as 0.
    """
    scores, weights, up, down = query[_SCORE], query[_WEIGHT], query[_UP], query[_DOWN]
    gains, discounts = query[_GAIN], query[_DISCOUNT]
    slopes, bends = sums[_SLOPE], sums[_BEND]
    for row in range(last):
        score, own_up, own_down = scores[row], up[row], down[row]
        gain, discount, weight = gains[row], discounts[row], weights[row]
        slope, bend, value, force = 0.0, 0.0, 0.0, 0.0
        for k in range(np.uint64(row - row % _LANES), np.uint64(len(scores))):
            drop = discount - discounts[k]
            drop = drop if drop > 0.0 else 0.0
            size = (gain - gains[k]) * drop * (weight * weights[k])
            push, curve, cost = _logistic_force(
                size, score - scores[k], own_up * down[k], own_down * up[k], near, far
            )
            value += cost
            force += abs(push)
            slope += push
            slopes[k] += push
            bend += curve
            bends[k] += curve
        slopes[row] -= slope
        bends[row] += bend
        sums[_VALUE, row] += value
        sums[_FORCE, row] += 2.0 * force


@compiled
def _add_error(
    labels: Vector, query: NDArray[np.float64], parameters: Vector, sums: NDArray[np.float64]
) -> None:
    """|Δ| = pairs put right when the better of two takes the upper place, over all pairs.

    A document k between the two adds sign(label_k − label_j) + sign(label_i − label_k), with i
    the better one. `above[a]` is Σ_k sign(label_k − label_a) over those between a and b.
    """
    n = len(labels)
    pairs = 0
    for a in range(n):
        for b in range(a):
            pairs += int(labels[a] != labels[b])
    above, sizes = np.zeros(n), np.empty(n)
    for b in range(n):
        below = 0.0  # Σ_k sign(label_b − label_k)
        for a in range(b - 1, -1, -1):
            sign = int(labels[b] > labels[a]) - int(labels[b] < labels[a])
            sizes[a] = (sign + above[a] + below) / pairs if sign != 0 else 0.0
            below += sign
            above[a] += sign
        _push(b, b, sizes, query, parameters, sums)


@compiled
def _add_binary(
    relevant: Vector,
    query: NDArray[np.float64],
    parameters: Vector,
    sums: NDArray[np.float64],
) -> None:
    """Forces between each relevant (1) and each irrelevant (0) document, |Δ| in constant time."""
    measure, n = int(parameters[0]), len(relevant)
    # hits[r] relevant documents, with 1/rank summed in shares[r], within the r first ranks.
    hits, shares, sizes = np.zeros(n + 1), np.zeros(n + 1), np.empty(n)
    first, second = np.inf, np.inf
    for r in range(1, n + 1):
        hits[r] = hits[r - 1] + relevant[r - 1]
        shares[r] = shares[r - 1] + relevant[r - 1] / r
        if relevant[r - 1] > 0.0 and hits[r] == 1.0:
            first = float(r)
        elif relevant[r - 1] > 0.0 and hits[r] == 2.0:
            second = float(r)
    pairs = hits[n] * (n - hits[n])
    for r in range(1, n + 1):
        if relevant[r - 1] == 0.0:
            continue
        for k in range(1, n + 1):
            size = 0.0
            a, b = min(r, k), max(r, k)
            if relevant[k - 1] > 0.0:
                size = 0.0
            elif measure == _MAP:
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
            sizes[k - 1] = max(size, 0.0)
        _push(r - 1, n, sizes, query, parameters, sums)


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss lambdarank`."""
    return [LambdaRank]
