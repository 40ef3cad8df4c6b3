"""The patterns of a dual problem, a few an example, and how room is kept for new ones.

See `dual`, which finds them and moves their dual variables.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled

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
