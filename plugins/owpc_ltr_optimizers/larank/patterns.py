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
    """Add a pattern, with β = 0, to those of a group."""
    k = _room(group, dual)
    dual.slopes[group, k] = slope
    dual.offset[group, k] = offset
    dual.beta[group, k] = 0.0
    dual.idle[group, k] = 0
    dual.owned[group] = k + 1
    _fill_gram(group, k, dual)


@compiled
def _room(group: int, dual: Any) -> int:
    """The place of a group's next pattern; two old ones are merged where all are taken."""
    if dual.owned[group] == dual.beta.shape[1]:
        order = np.argsort(dual.beta[group])
        if dual.beta[group, order[0]] > 0:
            _merge(group, order[0], order[1], dual)
        _drop(group, order[0], dual)
    return int(dual.owned[group])


@compiled
def _fill_gram(group: int, k: int, dual: Any) -> None:
    slopes, gram = dual.slopes[group], dual.gram[group]
    for other in range(dual.owned[group]):
        gram[k, other] = gram[other, k] = dot(slopes[k], slopes[other])


@compiled
def _merge(group: int, a: int, b: int, dual: Any) -> None:
    """Replace pattern b by the β-weighted mean of two patterns: w and D stay as they are."""
    slopes, offset, beta = dual.slopes[group], dual.offset[group], dual.beta[group]
    total = beta[a] + beta[b]
    share = beta[a] / total
    slopes[b] = share * slopes[a] + (1 - share) * slopes[b]
    offset[b] = share * offset[a] + (1 - share) * offset[b]
    beta[a], beta[b] = 0.0, total
    _fill_gram(group, b, dual)


@compiled
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


@compiled
def prune(dual: Any) -> None:
    """Forget patterns that have carried no weight for some passes."""
    for group in range(len(dual.owned)):
        k = 0
        while k < dual.owned[group]:
            dual.idle[group, k] = dual.idle[group, k] + 1 if dual.beta[group, k] == 0.0 else 0
            if dual.idle[group, k] > _IDLE:
                _drop(group, k, dual)
            else:
                k += 1


@compiled(fastmath={"reassoc", "contract", "nsz"})
def dot(a: Any, b: Any) -> float:
    """The inner product, by vector instructions."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total
