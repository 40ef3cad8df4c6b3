"""The dual of a max-margin problem with a few patterns a query, kept sparse.

Bordes, Bottou, Gallinari & Weston (ICML 2007): ProcessNew meets a query's most violated pattern,
ProcessOld and Optimize re-balance the dual variables of those that are kept. See `larank`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from owpc_ltr.data import RankingDataset
from owpc_ltr.interfaces import Fit, Vector
from owpc_ltr.kernels import BoundLoss, call_kernel
from owpc_ltr.linear import add_rows, score_rows
from owpc_ltr_optimizers.interior_point import balance

_PATTERNS = 16  # of one query at most; beyond, the two smallest are merged (still a lower bound)
_SWEEPS = 40  # over the kept patterns, before they are balanced all at once
_IDLE = 8  # passes that a pattern with β = 0 is kept for


class Dual(NamedTuple):
    """Patterns, their dual variables, and w = −Σ β slope.

    Patterns live in one pool (`slopes`, `offset`, `beta`, `idle`); the first `n_free` entries of
    `free` are the unused places. Query q owns the places `slots[q, : owned[q]]`, with the inner
    products of their slopes in `gram[q]`, and may spend `budget[q]` = C v_q.
    """

    w: Vector
    budget: Vector
    owned: NDArray[np.int64]
    slots: NDArray[np.int64]
    gram: NDArray[np.float64]
    slopes: NDArray[np.float64]
    offset: Vector
    beta: Vector
    idle: NDArray[np.int64]
    free: NDArray[np.int64]
    n_free: NDArray[np.int64]


def start_dual(data: RankingDataset, C: float, start: Fit | None) -> Dual:
    """β = 0, or the β of a fit of the same loss to the same data, scaled to this C."""
    queries, features = data.n_queries, data.n_features
    budget = C * data.query_importance
    other = start.state if start is not None else None
    if isinstance(other, Dual) and other.gram.shape[0] == queries and len(other.w) == features:
        copy = Dual._make(part.copy() for part in other)
        copy.beta[:] *= budget.sum() / max(copy.budget.sum(), np.finfo(float).tiny)
        copy.budget[:] = budget
        refresh(copy)
        return copy
    return Dual(
        w=np.zeros(features),
        budget=budget,
        owned=np.zeros(queries, dtype=np.int64),
        slots=np.full((queries, _PATTERNS), -1, dtype=np.int64),
        gram=np.zeros((queries, _PATTERNS, _PATTERNS)),
        slopes=np.zeros((0, features)),
        offset=np.zeros(0),
        beta=np.zeros(0),
        idle=np.zeros(0, dtype=np.int64),
        free=np.zeros(0, dtype=np.int64),
        n_free=np.zeros(1, dtype=np.int64),
    )


def with_room(dual: Dual, more: int) -> Dual:
    """The same dual, with places for as many new patterns as one pass can make."""
    unused, old = int(dual.n_free[0]), len(dual.beta)
    if unused >= more:
        return dual
    added = max(more - unused, old // 2)

    def grown(part: Any) -> Any:
        return np.concatenate((part, np.zeros((added, *part.shape[1:]), dtype=part.dtype)))

    free = np.concatenate((dual.free[:unused], np.arange(old, old + added), dual.free[unused:]))
    return dual._replace(
        slopes=grown(dual.slopes),
        offset=grown(dual.offset),
        beta=grown(dual.beta),
        idle=grown(dual.idle),
        free=free,
        n_free=np.array([unused + added]),
    )


def refresh(dual: Dual) -> float:
    """Recompute w from the dual variables, free of rounding; the dual objective."""
    dual.w[:] = -(dual.beta @ dual.slopes)
    return float(dual.beta @ dual.offset - 0.5 * (dual.w @ dual.w))


def pass_over(data: RankingDataset, bound: BoundLoss, dual: Dual, order: Any) -> float:
    """One pass of ProcessNew over the data, then ProcessOld; the gap that the pass saw."""
    rows = (data.features, data.labels, data.weights, data.offsets, data.scales)
    gap: float = _process_new(bound.address, bound.parameters, rows, order, dual)
    bound.raise_failure()
    target = 0.1 * gap
    if _process_old(order, target, dual) > target:
        _finish(dual, target)
    _prune(dual)
    return gap


def _finish(dual: Dual, target: float) -> None:
    """Solve for all β at once, where coordinate steps are slow."""
    queries = np.flatnonzero((dual.owned > 0) & (dual.budget > 0))
    owned = dual.owned[queries]
    if not len(queries):
        return
    cuts = np.cumsum(owned) - owned
    within = np.arange(owned.sum()) - np.repeat(cuts, owned)
    places = dual.slots[np.repeat(queries, owned), within]
    before = refresh(dual)
    kept = dual.beta[places].copy()
    dual.beta[places] = balance(
        dual.slopes[places], dual.offset[places], kept, cuts, dual.budget[queries], 0.01 * target
    )
    if refresh(dual) < before:
        dual.beta[places] = kept
        refresh(dual)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _process_new(address: int, parameters: Any, rows: Any, order: Any, dual: Any) -> float:
    """Visit each query: its tangent at the current w becomes a pattern if it is violated."""
    features, labels, weights, offsets, scales = rows
    longest = 0
    for query in order:
        longest = max(longest, offsets[query + 1] - offsets[query])
    all_scores, all_gradients, no_curvature = np.empty(longest), np.empty(longest), np.empty(0)
    gap = 0.0
    for query in order:
        start, end = offsets[query], offsets[query + 1]
        scores, gradient = all_scores[: end - start], all_gradients[: end - start]
        score_rows(features[start:end], dual.w * scales, scores)
        value = call_kernel(
            address,
            scores,
            labels[start:end],
            weights[start:end],
            parameters,
            gradient,
            no_curvature,
        )
        slack, support = _slack_and_support(query, dual)
        gap += dual.budget[query] * value - support
        if value > slack:
            dual.n_free[0] -= 1
            new = dual.free[dual.n_free[0]]
            slope = dual.slopes[new]
            slope[:] = 0.0
            add_rows(features[start:end], gradient, slope)
            slope *= scales
            dual.offset[new] = value - _dot(slope, dual.w)
            dual.beta[new] = 0.0
            dual.idle[new] = 0
            _keep(query, new, dual)
        _optimize(query, dual, 0.0)
    return gap


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _process_old(order: Any, target: float, dual: Any) -> float:
    """Re-balance kept patterns, query after query, down to the target; returns the gap left."""
    negligible = 0.3 * target / len(order)
    gap = 0.0
    for _ in range(_SWEEPS):
        gap = 0.0
        for query in order:
            gap += _optimize(query, dual, negligible)
        if gap <= target:
            break
    return gap


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _slack_and_support(query: int, dual: Any) -> tuple[float, float]:
    """The largest value of a query's patterns (0 is one of them), and Σ β value."""
    slack, support = 0.0, 0.0
    for k in range(dual.owned[query]):
        p = dual.slots[query, k]
        value = dual.offset[p] + _dot(dual.slopes[p], dual.w)
        slack = max(slack, value)
        support += dual.beta[p] * value
    return slack, support


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _optimize(query: int, dual: Any, negligible: float) -> float:
    """Maximise D over one query's β by steps between two patterns; the gap found there."""
    slack, support = _slack_and_support(query, dual)
    gap: float = dual.budget[query] * slack - support
    if gap <= negligible:
        return gap
    n = dual.owned[query]
    slots, gram = dual.slots[query], dual.gram[query]
    # The last entry is the loss's lower bound 0: the pattern with slope and offset zero.
    value, beta = np.zeros(n + 1), np.zeros(n + 1)
    beta[n] = dual.budget[query]
    for k in range(n):
        value[k] = dual.offset[slots[k]] + _dot(dual.slopes[slots[k]], dual.w)
        beta[k] = dual.beta[slots[k]]
        beta[n] -= beta[k]
    beta[n] = max(beta[n], 0.0)
    for _ in range(10 * (n + 1)):
        up, down = _most_violating(value, beta)
        difference = value[up] - value[down]
        if difference * dual.budget[query] <= 0.05 * gap:
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
        change = beta[k] - dual.beta[slots[k]]
        if change != 0.0:
            dual.beta[slots[k]] = beta[k]
            for j in range(len(dual.w)):
                dual.w[j] -= change * dual.slopes[slots[k], j]
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
def _keep(query: int, new: int, dual: Any) -> None:
    """Add a pattern to a query's block, after making room for it."""
    if dual.owned[query] == dual.slots.shape[1]:
        smallest, second = _two_smallest(query, dual)
        if dual.beta[dual.slots[query, smallest]] > 0:
            _merge(query, smallest, second, dual)
        _drop(query, smallest, dual)
    dual.slots[query, dual.owned[query]] = new
    dual.owned[query] += 1
    _fill_gram(query, dual.owned[query] - 1, dual)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fill_gram(query: int, k: int, dual: Any) -> None:
    slots, gram = dual.slots[query], dual.gram[query]
    for other in range(dual.owned[query]):
        gram[k, other] = gram[other, k] = _dot(dual.slopes[slots[k]], dual.slopes[slots[other]])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _two_smallest(query: int, dual: Any) -> tuple[int, int]:
    """The two patterns of smallest β."""
    beta = dual.beta[dual.slots[query]]
    order = np.argsort(beta)
    return order[0], order[1]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _merge(query: int, source: int, target: int, dual: Any) -> None:
    """Replace `target` by the β-weighted mean of two patterns: w and D stay as they are."""
    a, b = dual.slots[query, source], dual.slots[query, target]
    total = dual.beta[a] + dual.beta[b]
    share = dual.beta[a] / total
    dual.slopes[b] = share * dual.slopes[a] + (1 - share) * dual.slopes[b]
    dual.offset[b] = share * dual.offset[a] + (1 - share) * dual.offset[b]
    dual.beta[b] = total
    dual.beta[a] = 0.0
    _fill_gram(query, target, dual)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _drop(query: int, k: int, dual: Any) -> None:
    """Take pattern number k out of a query's block; the last one takes its place."""
    dual.free[dual.n_free[0]] = dual.slots[query, k]
    dual.n_free[0] += 1
    last = dual.owned[query] - 1
    dual.slots[query, k] = dual.slots[query, last]
    dual.slots[query, last] = -1
    dual.owned[query] = last
    if k < last:
        _fill_gram(query, k, dual)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _prune(dual: Any) -> None:
    """Forget patterns that have carried no weight for some passes."""
    for query in range(len(dual.owned)):
        k = 0
        while k < dual.owned[query]:
            p = dual.slots[query, k]
            dual.idle[p] = dual.idle[p] + 1 if dual.beta[p] == 0.0 else 0
            if dual.idle[p] > _IDLE:
                _drop(query, k, dual)
            else:
                k += 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _dot(a: Any, b: Any) -> float:
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total
