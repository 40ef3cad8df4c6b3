"""The dual of a max-margin problem with a few patterns an example, kept sparse.

Bordes, Bottou, Gallinari & Weston (ICML 2007): ProcessNew meets an example's most violated
pattern, ProcessOld and Optimize re-balance the dual variables of those that are kept. An example
is a group of queries. See `larank`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from owpc_ltr.data import RankingDataset
from owpc_ltr.interfaces import Vector
from owpc_ltr.kernels import BoundLoss, call_kernel
from owpc_ltr.linear import add_rows, query_blocks, score_rows
from owpc_ltr_optimizers.interior_point import balance

_GROUPS = 4  # of queries for each feature at most: more say little of w, and cost much
_PATTERNS = 16  # of one group at most; beyond, the two smallest are merged (still a lower bound)
_SWEEPS = 40  # over the kept patterns, before they are balanced all at once
_IDLE = 8  # passes that a pattern with β = 0 is kept for
_TIGHT = 0.01  # of the gap asked for: near a vertex the dual is sparse


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


def groups_of(data: RankingDataset) -> NDArray[np.int64]:
    """The queries at which groups start and the last one ends: one query a group if few."""
    if data.n_queries <= _GROUPS * data.n_features:
        return np.arange(data.n_queries + 1)
    return np.array(query_blocks(data.offsets, _GROUPS * data.n_features))


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
    _process_new(
        bound.address,
        bound.parameters,
        rows,
        data.query_importance,
        groups,
        order,
        best,
        towards,
        dual,
    )
    bound.raise_failure()
    if _process_old(order, target, dual) > target:
        _finish(dual, target)
    _prune(dual)


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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _process_new(
    address: int,
    parameters: Any,
    rows: Any,
    importance: Any,
    groups: Any,
    order: Any,
    best: Any,
    towards: float,
    dual: Any,
) -> None:
    """Visit each group: its tangent becomes a pattern if the current w violates it."""
    slope = np.empty(len(dual.w))
    for group in order:
        touch = best + towards * (dual.w - best)
        first, last = groups[group], groups[group + 1]
        value = _tangent(address, parameters, rows, importance, first, last, touch, slope)
        offset = value - _dot(slope, touch)
        if offset + _dot(slope, dual.w) > _slack_and_support(group, dual)[0]:
            k = _room(group, dual)
            dual.slopes[group, k] = slope
            dual.offset[group, k] = offset
            dual.beta[group, k] = 0.0
            dual.idle[group, k] = 0
            dual.owned[group] = k + 1
            _fill_gram(group, k, dual)
        _optimize(group, dual, 0.0)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
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
    scaled, total = touch * scales, 0.0
    slope[:] = 0.0
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
            gradient *= importance[query]
        add_rows(features[start:end], gradient, slope)
    slope *= scales
    return total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _process_old(order: Any, target: float, dual: Any) -> float:
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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _slack_and_support(group: int, dual: Any) -> tuple[float, float]:
    """The largest value of a group's patterns (0 is one of them), and Σ β value."""
    slack, support = 0.0, 0.0
    for k in range(dual.owned[group]):
        value = dual.offset[group, k] + _dot(dual.slopes[group, k], dual.w)
        slack = max(slack, value)
        support += dual.beta[group, k] * value
    return slack, support


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
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
        value[k] = dual.offset[group, k] + _dot(dual.slopes[group, k], dual.w)
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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _most_violating(value: Any, beta: Any) -> tuple[int, int]:
    """Where β should grow, and where it can shrink."""
    up, down = 0, -1
    for k in range(len(value)):
        if value[k] > value[up]:
            up = k
        if beta[k] > 0 and (down < 0 or value[k] < value[down]):
            down = k
    return up, max(down, 0)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _room(group: int, dual: Any) -> int:
    """The place of a group's next pattern; two old ones are merged where all are taken."""
    if dual.owned[group] == dual.beta.shape[1]:
        order = np.argsort(dual.beta[group])
        if dual.beta[group, order[0]] > 0:
            _merge(group, order[0], order[1], dual)
        _drop(group, order[0], dual)
    return int(dual.owned[group])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fill_gram(group: int, k: int, dual: Any) -> None:
    slopes, gram = dual.slopes[group], dual.gram[group]
    for other in range(dual.owned[group]):
        gram[k, other] = gram[other, k] = _dot(slopes[k], slopes[other])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _merge(group: int, a: int, b: int, dual: Any) -> None:
    """Replace pattern b by the β-weighted mean of two patterns: w and D stay as they are."""
    slopes, offset, beta = dual.slopes[group], dual.offset[group], dual.beta[group]
    total = beta[a] + beta[b]
    share = beta[a] / total
    slopes[b] = share * slopes[a] + (1 - share) * slopes[b]
    offset[b] = share * offset[a] + (1 - share) * offset[b]
    beta[a], beta[b] = 0.0, total
    _fill_gram(group, b, dual)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _drop(group: int, k: int, dual: Any) -> None:
    """Forget pattern k of a group, whose β is 0; the last one takes its place."""
    last = dual.owned[group] - 1
    dual.owned[group] = last
    dual.slopes[group, k] = dual.slopes[group, last]
    dual.offset[group, k] = dual.offset[group, last]
    dual.beta[group, k] = dual.beta[group, last]
    dual.idle[group, k] = dual.idle[group, last]
    dual.beta[group, last] = 0.0
    if k < last:
        _fill_gram(group, k, dual)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _prune(dual: Any) -> None:
    """Forget patterns that have carried no weight for some passes."""
    for group in range(len(dual.owned)):
        k = 0
        while k < dual.owned[group]:
            dual.idle[group, k] = dual.idle[group, k] + 1 if dual.beta[group, k] == 0.0 else 0
            if dual.idle[group, k] > _IDLE:
                _drop(group, k, dual)
            else:
                k += 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _dot(a: Any, b: Any) -> float:
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total
