"""The dual of a max-margin problem with a few patterns an example, kept sparse.

Bordes, Bottou, Gallinari & Weston (ICML 2007): ProcessNew meets an example's most violated
pattern, ProcessOld and Optimize re-balance the dual variables of those that are kept. An example
is a group of queries. See `larank`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.kernels.kernel import BoundLoss, call_kernel
from owpc_ltr.kernels.linear import add_rows, query_blocks, score_rows
from owpc_ltr_optimizers.larank.interior_point import balance

_PATTERNS = 16  # of one group at most; beyond, the two smallest are merged (still a lower bound)
_IDLE = 8  # passes that a pattern with β = 0 is kept for


class Dual(NamedTuple):
    """Patterns, their dual variables, and w = −Σ β slope.

    Group g has `owned[g]` patterns, the first of `slopes[g]`, `offset[g]`, `beta[g]` and
    `idle[g]`, with the inner products of their slopes in `gram[g]`; their β may sum to `budget`.
    """

    budget: float
    w: Vector
    owned: NDArray[np.int64]
    slopes: NDArray[np.float64]
    offset: NDArray[np.float64]
    beta: NDArray[np.float64]
    idle: NDArray[np.int64]
    gram: NDArray[np.float64]


def empty_dual(groups: int, features: int, budget: float) -> Dual:
    """No patterns, and w = 0. Memory is taken as patterns come."""
    return Dual(
        budget=budget,
        w=np.zeros(features),
        owned=np.zeros(groups, dtype=np.int64),
        slopes=np.zeros((groups, _PATTERNS, features)),
        offset=np.zeros((groups, _PATTERNS)),
        beta=np.zeros((groups, _PATTERNS)),
        idle=np.zeros((groups, _PATTERNS), dtype=np.int64),
        gram=np.zeros((groups, _PATTERNS, _PATTERNS)),
    )


def at_budget(dual: Dual, budget: float) -> Dual:
    """A copy whose β are scaled to another budget."""
    copy = Dual._make([budget, *(part.copy() for part in dual[1:])])
    copy.beta[:] *= budget / dual.budget
    copy.idle[:] = 0
    refresh(copy)
    return copy


def refresh(dual: Dual) -> float:
    """Recompute w from the dual variables, free of rounding; the dual objective."""
    used = np.nonzero(dual.beta)
    beta = dual.beta[used]
    dual.w[:] = -(beta @ dual.slopes[used])
    return float(beta @ dual.offset[used] - 0.5 * (dual.w @ dual.w))


@compiled
def keep(group: int, slope: Any, offset: float, dual: Any) -> None:
    """Add a pattern, with β = 0, to those of a group; two are merged where all places are taken."""
    if dual.owned[group] == dual.beta.shape[1]:
        _merge_two(group, dual)
    k = dual.owned[group]
    for j in range(len(slope)):
        dual.slopes[group, k, j] = slope[j]
    dual.offset[group, k] = offset
    dual.beta[group, k] = 0.0
    dual.idle[group, k] = 0
    dual.owned[group] = k + 1
    _fill_gram(group, k, dual)


@compiled
def _fill_gram(group: int, k: int, dual: Any) -> None:
    for other in range(dual.owned[group]):
        product = dot(dual.slopes[group, k], dual.slopes[group, other])
        dual.gram[group, k, other] = dual.gram[group, other, k] = product


@compiled
def _merge_two(group: int, dual: Any) -> None:
    """Drop the pattern of the smallest β; a positive one goes into that of the next, as their mean.

    Weighted by β, so that w and D stay as they are.
    """
    slopes, offset, beta = dual.slopes[group], dual.offset[group], dual.beta[group]
    a, b = _smallest_two(beta)
    if beta[a] > 0:
        total = beta[a] + beta[b]
        share = beta[a] / total
        for j in range(slopes.shape[1]):
            slopes[b, j] = share * slopes[a, j] + (1 - share) * slopes[b, j]
        offset[b] = share * offset[a] + (1 - share) * offset[b]
        beta[a], beta[b] = 0.0, total
        _fill_gram(group, b, dual)
    _drop(group, a, dual)


@compiled
def _smallest_two(beta: Any) -> tuple[int, int]:
    """Where the smallest entry of sixteen is, and the next.

    Of equal ones, those that come first after one partition about the median of the first, eighth
    and last: which idle pattern goes decides the bits of what is learned.
    """
    order, high = np.arange(len(beta)), len(beta) - 1
    middle = high // 2
    for one, other in ((0, middle), (middle, high), (0, middle)):
        if beta[order[other]] < beta[order[one]]:
            order[one], order[other] = order[other], order[one]
    pivot = beta[order[middle]]
    order[middle], order[high] = order[high], order[middle]
    i, j = 0, high - 1
    while True:
        while i < high and beta[order[i]] < pivot:
            i += 1
        while j >= 0 and pivot < beta[order[j]]:
            j -= 1
        if i >= j:
            break
        order[i], order[j] = order[j], order[i]
        i, j = i + 1, j - 1
    order[i], order[high] = order[high], order[i]
    a, b = 0, 1
    if beta[order[b]] < beta[order[a]]:
        a, b = b, a
    for k in range(2, len(beta)):
        if beta[order[k]] < beta[order[a]]:
            a, b = k, a
        elif beta[order[k]] < beta[order[b]]:
            b = k
    return order[a], order[b]


@compiled
def _drop(group: int, k: int, dual: Any) -> None:
    """Forget pattern k of a group, whose β is 0; the last one takes its place."""
    last = dual.owned[group] - 1
    dual.owned[group] = last
    for j in range(dual.slopes.shape[2]):
        dual.slopes[group, k, j] = dual.slopes[group, last, j]
    dual.offset[group, k] = dual.offset[group, last]
    dual.beta[group, k] = dual.beta[group, last]
    dual.idle[group, k] = dual.idle[group, last]
    dual.beta[group, last] = 0.0
    if k < last:
        _fill_gram(group, k, dual)


@compiled
def prune(dual: Any) -> None:
    """Forget patterns that have carried no weight for some passes."""
    for group in range(len(dual.owned)):
        for left in range(dual.owned[group], 0, -1):
            k = dual.owned[group] - left
            dual.idle[group, k] = dual.idle[group, k] + 1 if dual.beta[group, k] == 0.0 else 0
            if dual.idle[group, k] > _IDLE:
                _drop(group, k, dual)


@compiled(fastmath={"reassoc", "contract", "nsz"})
def dot(a: Any, b: Any) -> float:
    """The inner product, by vector instructions."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


_GROUPS = 4  # of queries for each feature at most: more say little of w, and cost much
_SWEEPS = 40  # over the kept patterns, before they are balanced all at once
_TIGHT = 0.01  # of the gap asked for: near a vertex the dual is sparse


def groups_of(data: RankingDataset) -> NDArray[np.int64]:
    """The queries at which groups start and the last one ends: one query a group if few."""
    if data.n_queries <= _GROUPS * data.n_features:
        return np.arange(data.n_queries + 1)
    return np.array(query_blocks(data.offsets, _GROUPS * data.n_features))


def pass_over(
    data: RankingDataset,
    bound: BoundLoss,
    groups: NDArray[np.int64],
    order: NDArray[np.int64],
    dual: Dual,
    best: Vector,
    towards: float,
    target: float,
) -> None:
    """One pass of ProcessNew over the groups, then ProcessOld until `target` is its gap.

    Tangents touch the loss at best + towards · (w − best).
    """
    rows = (data.features, data.labels, data.weights, data.offsets, data.scales)
    gap = _process(
        bound.address,
        bound.parameters,
        rows,
        data.query_importance,
        groups,
        order,
        best,
        towards,
        target,
        dual,
    )
    bound.raise_failure()
    if gap > target:
        _finish(dual, target)
    prune(dual)


def _finish(dual: Dual, target: float) -> None:
    """Solve for all β at once, where coordinate steps are slow."""
    owned = dual.owned[dual.owned > 0]
    if not len(owned):
        return
    kept = np.nonzero(np.arange(dual.beta.shape[1]) < dual.owned[:, None])
    before, beta = refresh(dual), dual.beta[kept]
    dual.beta[kept] = balance(
        dual.slopes[kept],
        dual.offset[kept],
        beta,
        np.cumsum(owned) - owned,
        dual.budget,
        _TIGHT * target,
    )
    if refresh(dual) < before:
        dual.beta[kept] = beta
        refresh(dual)


@compiled
def _process(
    address: int,
    parameters: Any,
    rows: Any,
    importance: Any,
    groups: Any,
    order: Any,
    best: Any,
    towards: float,
    target: float,
    dual: Any,
) -> float:
    """Visit each group: its tangent becomes a pattern if the current w violates it; `_re_balance`.

    Returns the gap that is left.
    """
    slope, touch = np.empty(len(dual.w)), np.empty(len(dual.w))
    for group in order:
        for j in range(len(touch)):
            touch[j] = best[j] + towards * (dual.w[j] - best[j])
        first, last = groups[group], groups[group + 1]
        value = _tangent(address, parameters, rows, importance, first, last, touch, slope)
        offset = value - dot(slope, touch)
        if offset + dot(slope, dual.w) > _slack_and_support(group, dual)[0]:
            keep(group, slope, offset, dual)
        _optimize(group, dual, 0.0)
    gap: float = _re_balance(order, target, dual)
    return gap


@compiled
def _tangent(
    address: int,
    parameters: Any,
    rows: Any,
    importance: Any,
    first: int,
    last: int,
    touch: Any,
    slope: Any,
) -> float:
    """The weighted loss of queries first … last − 1 at the weights `touch`, and its slope."""
    features, labels, weights, offsets, scales = rows
    longest = 0
    for query in range(first, last):
        longest = max(longest, offsets[query + 1] - offsets[query])
    all_scores, all_gradients, no_curvature = np.empty(longest), np.empty(longest), np.empty(0)
    scaled, total = np.empty(len(touch)), 0.0
    for j in range(len(touch)):
        scaled[j], slope[j] = touch[j] * scales[j], 0.0
    for query in range(first, last):
        if importance[query] == 0.0:
            continue
        start, end = offsets[query], offsets[query + 1]
        scores, gradient = all_scores[: end - start], all_gradients[: end - start]
        score_rows(features[start:end], scaled, scores)
        total += importance[query] * call_kernel(
            address,
            scores,
            labels[start:end],
            weights[start:end],
            parameters,
            gradient,
            no_curvature,
        )
        if importance[query] != 1.0:
            for i in range(end - start):
                gradient[i] *= importance[query]
        add_rows(features[start:end], gradient, slope)
    for j in range(len(touch)):
        slope[j] *= scales[j]
    return total


@compiled
def _re_balance(order: Any, target: float, dual: Any) -> float:
    """Re-balance kept patterns, group after group, down to the target; returns the gap left."""
    negligible = 0.3 * target / len(order)
    gap = 0.0
    for _ in range(_SWEEPS):
        gap = 0.0
        for group in order:
            gap += _optimize(group, dual, negligible)
        if gap <= target:
            break
    return gap


@compiled
def _slack_and_support(group: int, dual: Any) -> tuple[float, float]:
    """The largest value of a group's patterns (0 is one of them), and Σ β value."""
    slack, support = 0.0, 0.0
    for k in range(dual.owned[group]):
        value = dual.offset[group, k] + dot(dual.slopes[group, k], dual.w)
        slack = max(slack, value)
        support += dual.beta[group, k] * value
    return slack, support


@compiled
def _optimize(group: int, dual: Any, negligible: float) -> float:
    """Maximise D over one group's β by steps between two patterns; the gap found there."""
    slack, support = _slack_and_support(group, dual)
    gap: float = dual.budget * slack - support
    if gap <= negligible:
        return gap
    n = dual.owned[group]
    gram = dual.gram[group]
    # The last entry is the loss's lower bound 0: the pattern with slope and offset zero.
    value, beta = np.zeros(n + 1), np.zeros(n + 1)
    beta[n] = dual.budget
    for k in range(n):
        value[k] = dual.offset[group, k] + dot(dual.slopes[group, k], dual.w)
        beta[k] = dual.beta[group, k]
        beta[n] -= beta[k]
    beta[n] = max(beta[n], 0.0)
    for _ in range(10 * (n + 1)):
        up, down = _most_violating(value, beta)
        difference = value[up] - value[down]
        if difference * dual.budget <= 0.05 * gap:
            break
        curvature = 0.0
        if up < n:
            curvature += gram[up, up]
        if down < n:
            curvature += gram[down, down]
        if up < n and down < n:
            curvature -= 2 * gram[up, down]
        whole = curvature * beta[down] <= difference
        step = beta[down] if whole else difference / curvature
        beta[up] += step
        beta[down] = 0.0 if whole else beta[down] - step
        for k in range(n):
            if up < n:
                value[k] -= step * gram[k, up]
            if down < n:
                value[k] += step * gram[k, down]
    for k in range(n):
        change = beta[k] - dual.beta[group, k]
        if change != 0.0:
            dual.beta[group, k] = beta[k]
            for j in range(len(dual.w)):
                dual.w[j] -= change * dual.slopes[group, k, j]
    return gap


@compiled
def _most_violating(value: Any, beta: Any) -> tuple[int, int]:
    """Where β should grow, and where it can shrink."""
    up, down = 0, -1
    for k in range(len(value)):
        if value[k] > value[up]:
            up = k
        if beta[k] > 0 and (down < 0 or value[k] < value[down]):
            down = k
    return up, max(down, 0)
