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
    return _expand(point, patterns, newton, s, r, w)


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
    return _Point(*(here + step * there for here, there in zip(point, direction, strict=True)))


def _longest_step(point: _Point, direction: _Point) -> float:
    """How far one can go before something that must be positive is not; 1 at most."""
    step = 1.0
    for value, change in (
        (point.beta, direction.beta),
        (point.eta, direction.eta),
        (point.xi, direction.xi),
        (point.z, direction.z),
    ):
        falling = change < 0
        step = min(step, (-value[falling] / change[falling]).min(initial=step))
    return float(step)


def _reduced(point: _Point, patterns: _Patterns) -> tuple[_Newton, NDArray[np.float64]]:
    """The Newton system, and rows whose products sum to its matrix (less the identity).

    The pattern with slope zero counts with η/ξ. Slopes are taken around each group's mean, so
    that nothing cancels and the matrix stays definite.
    """
    slopes, cuts = patterns
    theta, total = point.beta / point.z, point.eta / point.xi
    root_of_none = np.sqrt(total)
    pull = np.zeros((len(total), slopes.shape[1]))
    _add_by_group(total, theta, cuts)
    _add_by_group(pull, theta[:, None] * slopes, cuts)
    mean = pull / total[:, None]
    around = slopes - np.repeat(mean, np.diff(cuts), axis=0)
    rows = np.concatenate([np.sqrt(theta)[:, None] * around, root_of_none[:, None] * mean])
    return _Newton(theta, pull, total), rows


def _right_hand_side(
    point: _Point, patterns: _Patterns, newton: _Newton, aim: float, bend: _Point, bent: bool
) -> tuple[Vector, Vector, Vector]:
    """What is missing to βz = aim a pattern and to ηξ = aim a group, reduced to w."""
    slopes, cuts = patterns
    s, r = (aim - point.beta * point.z) / point.z, (aim - point.eta * point.xi) / point.xi
    if bent:
        s -= bend.beta * bend.z / point.z
        r -= bend.eta * bend.xi / point.xi
    _add_by_group(r, s, cuts)
    return s, r, _combined(r / newton.total, newton.pull) - _combined(s, slopes)


def _expand(
    point: _Point, patterns: _Patterns, newton: _Newton, s: Vector, r: Vector, w: Vector
) -> _Point:
    """The whole direction of which the part in w is known."""
    slopes, cuts = patterns
    xi = (r + _products(newton.pull, w)) / newton.total
    z = np.repeat(xi, np.diff(cuts)) - _products(slopes, w)
    eta = r - point.eta / point.xi * xi
    _add_by_group(eta, -s, cuts)
    return _Point(s - newton.theta * z, eta, w, xi, z)


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
