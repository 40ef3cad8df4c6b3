"""LaRank's dual: a few patterns a group of queries, kept sparse, and their β balanced all at once.

The problem, with its dual variables β ≥ 0, Σ_{p of g} β_p ≤ C and w = −Σ β slope: minimise
½‖w‖² + C Σ_g ξ_g over w and ξ, subject to ξ_g ≥ 0 and, for each pattern p of group g,
ξ_g ≥ offset_p + slope_p · w.

Coordinate steps stall once the patterns outnumber the features and C is large. Then Mehrotra's
predictor-corrector (1992), an interior-point method, goes on from a strictly feasible point: each
step factors one matrix of the features' size, whatever the number of patterns, and about fifteen
steps suffice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled

_PATTERNS = 16  # of one group at most; beyond, the two smallest are merged (still a lower bound)
_IDLE = 8  # passes that a pattern with β = 0 is kept for

_STEPS = 60


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


def balance(
    slopes: NDArray[np.float64],
    offset: Vector,
    beta: Vector,
    cuts: NDArray[np.int64],
    budget: float,
    target: float,
) -> Vector:
    """The β that solve the problem to a gap of `target`, starting near the given ones.

    Group g has the patterns (rows of `slopes`) from `cuts[g]` on; none is empty.
    """
    patterns = _Patterns(slopes, np.append(cuts, len(offset)))
    point = _start(patterns, offset, beta, budget)
    gap = _gap(point)
    for _ in range(_STEPS):
        if gap <= target:
            break
        newton = _Newton(point, patterns)
        if newton.failed:  # nothing more to gain in float64
            break
        straight = newton.direction(0.0)
        reached = _gap(_moved(point, straight, _longest_step(point, straight)))
        aim = gap / (len(beta) + len(cuts)) * (reached / gap) ** 3
        bent = newton.direction(aim, straight)
        moved = _moved(point, bent, 0.995 * _longest_step(point, bent))
        before, gap = gap, _gap(moved)
        if not gap < before:
            break
        point = moved
    # What only the barrier keeps above zero carries nothing: the dual stays sparse.
    beta = np.where(point.beta > 1e-5 * budget, point.beta, 0.0)
    spent = np.add.reduceat(beta, cuts)
    share = np.minimum(1.0, budget / np.maximum(spent, budget))
    result: Vector = beta * np.repeat(share, np.diff(patterns.cuts))
    return result


@compiled
def keep(group: int, slope: Vector, offset: float, dual: Dual) -> None:
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
def prune(dual: Dual) -> None:
    """Forget patterns that have carried no weight for some passes."""
    for group in range(len(dual.owned)):
        for left in range(dual.owned[group], 0, -1):
            k = dual.owned[group] - left
            dual.idle[group, k] = dual.idle[group, k] + 1 if dual.beta[group, k] == 0.0 else 0
            if dual.idle[group, k] > _IDLE:
                _drop(group, k, dual)


@compiled(fastmath={"reassoc", "contract", "nsz"})
def dot(a: Vector, b: Vector) -> float:
    """The inner product, by vector instructions."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@compiled
def _fill_gram(group: int, k: int, dual: Dual) -> None:
    for other in range(dual.owned[group]):
        product = dot(dual.slopes[group, k], dual.slopes[group, other])
        dual.gram[group, k, other] = dual.gram[group, other, k] = product


@compiled
def _merge_two(group: int, dual: Dual) -> None:
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
def _smallest_two(beta: Vector) -> tuple[int, int]:
    """Where the smallest entry of sixteen is, and the next.

    Of equal ones, those that come first after one partition about the median of the first, eighth
    and last: which idle pattern goes decides the bits of what is learned.
    """
    order, high = np.arange(len(beta)), len(beta) - 1
    middle = high // 2
    for place, other in ((0, middle), (middle, high), (0, middle)):
        if beta[order[other]] < beta[order[place]]:
            order[place], order[other] = order[other], order[place]
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
def _drop(group: int, k: int, dual: Dual) -> None:
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


class _Point(NamedTuple):
    """Dual (β, η), primal (w, ξ) and the slack z of each pattern, all strictly positive but w."""

    beta: Vector
    eta: Vector
    w: Vector
    xi: Vector
    z: Vector


class _Patterns(NamedTuple):
    """Slopes, one row a pattern, and the patterns at which groups start and the last one ends."""

    slopes: NDArray[np.float64]
    cuts: NDArray[np.int64]


class _Newton:
    """The Newton system at a point, reduced to w: θ = β/z, and each group's Σ θ slope and Σ θ.

    The pattern with slope zero counts with η/ξ. Slopes are taken around each group's mean, so
    that nothing cancels and the matrix stays definite.
    """

    def __init__(self, point: _Point, patterns: _Patterns) -> None:
        from scipy.linalg.blas import dsyrk
        from scipy.linalg.lapack import dpotrf

        self.point, self.patterns = point, patterns
        slopes, cuts = patterns
        self.theta, self.total = point.beta / point.z, point.eta / point.xi
        root_of_none = np.sqrt(self.total)
        self.pull = np.zeros((len(self.total), slopes.shape[1]))
        _add_by_group(self.total, self.theta, cuts)
        _add_by_group(self.pull, self.theta[:, None] * slopes, cuts)
        mean = self.pull / self.total[:, None]
        around = slopes - np.repeat(mean, np.diff(cuts), axis=0)
        rows = np.concatenate([np.sqrt(self.theta)[:, None] * around, root_of_none[:, None] * mean])
        matrix = dsyrk(1.0, rows.T, lower=1)
        matrix[np.diag_indices_from(matrix)] += 1.0
        self.factor, self.failed = dpotrf(matrix, lower=1, overwrite_a=1)

    def direction(self, aim: float, straight: _Point | None = None) -> _Point:
        """Towards βz = ηξ = aim, corrected for the bend of the way straight to 0 where known."""
        from scipy.linalg.lapack import dpotrs

        point, (slopes, cuts) = self.point, self.patterns
        # What is missing to βz = aim a pattern and to ηξ = aim a group, reduced to w.
        s, r = (aim - point.beta * point.z) / point.z, (aim - point.eta * point.xi) / point.xi
        if straight is not None:
            s -= straight.beta * straight.z / point.z
            r -= straight.eta * straight.xi / point.xi
        _add_by_group(r, s, cuts)
        right = _combined(r / self.total, self.pull) - _combined(s, slopes)
        w, _ = dpotrs(self.factor, right, lower=1)
        xi = (r + _products(self.pull, w)) / self.total
        z = np.repeat(xi, np.diff(cuts)) - _products(slopes, w)
        eta = r - point.eta / point.xi * xi
        _add_by_group(eta, -s, cuts)
        return _Point(s - self.theta * z, eta, w, xi, z)


def _start(patterns: _Patterns, offset: Vector, old: Vector, budget: float) -> _Point:
    """A strictly feasible point near the given β."""
    slopes, cuts = patterns
    sizes = np.diff(cuts)
    beta = 0.9 * old + np.repeat(0.1 * budget / (sizes + 1), sizes)
    eta = np.full(len(sizes), budget)
    _add_by_group(eta, -beta, cuts)
    w = -_combined(beta, slopes)
    value = offset + _products(slopes, w)
    xi = np.maximum(np.maximum.reduceat(value, cuts[:-1]), 0.0)
    # Added one after another, as everything here: the same bits everywhere.
    xi += 1e-2 * (np.add.accumulate(xi)[-1] / len(xi) + 1e-12)
    return _Point(beta, eta, w, xi, np.repeat(xi, sizes) - value)


def _gap(point: _Point) -> float:
    """Primal minus dual objective: the point is feasible for both."""
    from scipy.linalg.blas import ddot

    return float(ddot(point.beta, point.z) + ddot(point.eta, point.xi))


def _moved(point: _Point, direction: _Point, step: float) -> _Point:
    return _Point(*(part + step * change for part, change in zip(point, direction, strict=True)))


def _longest_step(point: _Point, direction: _Point) -> float:
    """How far one can go before something that must be positive is not; 1 at most."""
    step = 1.0
    for part in ("beta", "eta", "xi", "z"):
        value, change = getattr(point, part), getattr(direction, part)
        falling = change < 0
        step = min(step, (-value[falling] / change[falling]).min(initial=step))
    return float(step)


def _add_by_group(totals: NDArray[np.float64], values: NDArray[Any], cuts: NDArray[Any]) -> None:
    """Add to each group's total the values of its patterns, one after another."""
    sizes = np.diff(cuts)
    for place in range(sizes.max()):
        groups = np.flatnonzero(sizes > place)
        totals[groups] += values[cuts[groups] + place]


def _combined(shares: Vector, rows: NDArray[np.float64]) -> Vector:
    """The sum of rows, each times its share."""
    from scipy.linalg.blas import dgemv

    combined: Vector = dgemv(1.0, rows.T, shares)
    return combined


def _products(rows: NDArray[np.float64], w: Vector) -> Vector:
    """The product of each row with w."""
    from scipy.linalg.blas import dgemv

    products: Vector = dgemv(1.0, rows.T, w, trans=1)
    return products
