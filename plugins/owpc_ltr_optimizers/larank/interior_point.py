"""Many small simplexes and one vector: a quadratic problem solved by an interior-point method.

minimise ½‖w‖² + C Σ_g ξ_g over w and ξ, subject to ξ_g ≥ 0 and, for each pattern p of group g,
ξ_g ≥ offset_p + slope_p · w. Its dual variables are β ≥ 0 with Σ_{p of g} β_p ≤ C and
w = −Σ β slope.

Mehrotra's predictor-corrector (1992) from a strictly feasible point: each step factors one matrix
of the features' size, whatever the number of patterns, and about fifteen steps suffice, where
coordinate steps stall once the patterns outnumber the features and C is large.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled

_STEPS = 60


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


class _Newton(NamedTuple):
    """The Newton system at a point, reduced to w: θ = β/z, and each group's Σ θ slope and Σ θ."""

    theta: Vector
    pull: NDArray[np.float64]
    total: Vector


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
    from scipy.linalg.blas import dsyrk
    from scipy.linalg.lapack import dpotrf

    patterns = _Patterns(slopes, np.append(cuts, len(offset)))
    point = _start(patterns, offset, beta, budget)
    gap = _gap(point)
    for _ in range(_STEPS):
        if gap <= target:
            break
        newton, rows = _reduced(point, patterns)
        matrix = dsyrk(1.0, rows.T, lower=1)
        matrix[np.diag_indices_from(matrix)] += 1.0
        factor, failed = dpotrf(matrix, lower=1, overwrite_a=1)
        if failed:  # nothing more to gain in float64
            break
        straight = _direction(point, patterns, newton, factor, 0.0, None)
        reached = _gap(_moved(point, straight, _longest_step(point, straight)))
        aim = gap / (len(beta) + len(cuts)) * (reached / gap) ** 3
        bent = _direction(point, patterns, newton, factor, aim, straight)
        moved = _moved(point, bent, 0.995 * _longest_step(point, bent))
        before, gap = gap, _gap(moved)
        if not gap < before:
            break
        point = moved
    # What only the barrier keeps above zero carries nothing: the dual stays sparse.
    kept = np.where(point.beta > 1e-5 * budget, point.beta, 0.0)
    spent = np.add.reduceat(kept, cuts)
    share = np.minimum(1.0, budget / np.maximum(spent, budget))
    result: Vector = kept * np.repeat(share, np.diff(patterns.cuts))
    return result


def _direction(
    point: _Point,
    patterns: _Patterns,
    newton: _Newton,
    factor: NDArray[np.float64],
    aim: float,
    straight: _Point | None,
) -> _Point:
    """Towards βz = ηξ = aim, corrected for the bend of the way straight to 0 where it is known."""
    from scipy.linalg.lapack import dpotrs

    bend = point if straight is None else straight
    s, r, right = _right_hand_side(point, patterns, newton, aim, bend, straight is not None)
    w, _ = dpotrs(factor, right, lower=1)
    found: _Point = _expand(point, patterns, newton, s, r, w)
    return found


@compiled
def _start(patterns: Any, offset: Any, old: Any, budget: float) -> Any:
    """A strictly feasible point near the given β."""
    slopes, cuts = patterns
    groups = len(cuts) - 1
    beta, eta = np.empty(len(old)), np.full(groups, budget)
    for g in range(groups):
        for p in range(cuts[g], cuts[g + 1]):
            beta[p] = 0.9 * old[p] + 0.1 * budget / (cuts[g + 1] - cuts[g] + 1)
            eta[g] -= beta[p]
    w = -np.dot(beta, slopes)
    value = offset + np.dot(slopes, w)
    xi = np.zeros(groups)
    for g in range(groups):
        for p in range(cuts[g], cuts[g + 1]):
            xi[g] = max(xi[g], value[p])
    xi += 1e-2 * (np.mean(xi) + 1e-12)
    z = np.empty(len(old))
    for g in range(groups):
        for p in range(cuts[g], cuts[g + 1]):
            z[p] = xi[g] - value[p]
    return _Point(beta, eta, w, xi, z)


@compiled
def _gap(point: Any) -> float:
    """Primal minus dual objective: the point is feasible for both."""
    gap: float = np.dot(point.beta, point.z) + np.dot(point.eta, point.xi)
    return gap


@compiled
def _moved(point: Any, direction: Any, step: float) -> Any:
    return _Point(
        point.beta + step * direction.beta,
        point.eta + step * direction.eta,
        point.w + step * direction.w,
        point.xi + step * direction.xi,
        point.z + step * direction.z,
    )


@compiled
def _longest_step(point: Any, direction: Any) -> float:
    """How far one can go before something that must be positive is not; 1 at most."""
    step = 1.0
    for value, change in (
        (point.beta, direction.beta),
        (point.eta, direction.eta),
        (point.xi, direction.xi),
        (point.z, direction.z),
    ):
        for i in range(len(value)):
            if change[i] < 0:
                step = min(step, -value[i] / change[i])
    return step


@compiled
def _reduced(point: Any, patterns: Any) -> Any:
    """The Newton system, and rows whose products sum to its matrix (less the identity).

    The pattern with slope zero counts with η/ξ. Slopes are taken around each group's mean, so
    that nothing cancels and the matrix stays definite.
    """
    slopes, cuts = patterns
    groups, features = len(cuts) - 1, slopes.shape[1]
    theta, total = point.beta / point.z, point.eta / point.xi
    pull, rows = np.zeros((groups, features)), np.empty((len(slopes) + groups, features))
    for g in range(groups):
        root_of_none = np.sqrt(total[g])
        for p in range(cuts[g], cuts[g + 1]):
            total[g] += theta[p]
            for j in range(features):
                pull[g, j] += theta[p] * slopes[p, j]
        mean = pull[g] / total[g]
        for p in range(cuts[g], cuts[g + 1]):
            root = np.sqrt(theta[p])
            for j in range(features):
                rows[p, j] = root * (slopes[p, j] - mean[j])
        for j in range(features):
            rows[len(slopes) + g, j] = root_of_none * mean[j]
    return _Newton(theta, pull, total), rows


@compiled
def _right_hand_side(
    point: Any, patterns: Any, newton: Any, aim: float, bend: Any, bent: bool
) -> Any:
    """What is missing to βz = aim a pattern and to ηξ = aim a group, reduced to w."""
    slopes, cuts = patterns
    s, r = (aim - point.beta * point.z) / point.z, (aim - point.eta * point.xi) / point.xi
    if bent:
        s -= bend.beta * bend.z / point.z
        r -= bend.eta * bend.xi / point.xi
    for g in range(len(cuts) - 1):
        for p in range(cuts[g], cuts[g + 1]):
            r[g] += s[p]
    return s, r, np.dot(r / newton.total, newton.pull) - np.dot(s, slopes)


@compiled
def _expand(point: Any, patterns: Any, newton: Any, s: Any, r: Any, w: Any) -> Any:
    """The whole direction of which the part in w is known."""
    slopes, cuts = patterns
    xi = (r + np.dot(newton.pull, w)) / newton.total
    along = np.dot(slopes, w)
    beta, z = np.empty(len(s)), np.empty(len(s))
    eta = r - point.eta / point.xi * xi
    for g in range(len(cuts) - 1):
        for p in range(cuts[g], cuts[g + 1]):
            z[p] = xi[g] - along[p]
            beta[p] = s[p] - newton.theta[p] * z[p]
            eta[g] -= s[p]
    return _Point(beta, eta, w, xi, z)
