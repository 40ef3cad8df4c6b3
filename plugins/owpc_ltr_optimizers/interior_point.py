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
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

from owpc_ltr.interfaces import Vector

_STEPS = 60


class _Point(NamedTuple):
    """Dual (β, η), primal (w, ξ) and the slack z of each pattern, all strictly positive but w."""

    beta: Vector
    eta: Vector
    w: Vector
    xi: Vector
    z: Vector

    def moved(self, direction: _Point, step: float) -> _Point:
        return _Point(*(a + step * b for a, b in zip(self, direction, strict=True)))

    def gap(self) -> float:
        """Primal minus dual objective: the point is feasible for both."""
        return float(self.beta @ self.z + self.eta @ self.xi)

    def longest_step(self, direction: _Point) -> float:
        """How far one can go before something that must be positive is not."""
        step = 1.0
        for name in ("beta", "eta", "xi", "z"):
            value, change = getattr(self, name), getattr(direction, name)
            falling = change < 0
            if falling.any():
                step = min(step, float(np.min(-value[falling] / change[falling])))
        return step


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
    sizes = np.diff(np.append(cuts, len(offset)))
    group = np.repeat(np.arange(len(cuts)), sizes)
    share = (budget / (sizes + 1))[group]
    beta = 0.9 * beta + 0.1 * share
    eta = budget - np.add.reduceat(beta, cuts)
    w = -(beta @ slopes)
    value = offset + slopes @ w
    highest = np.maximum(np.maximum.reduceat(value, cuts), 0.0)
    xi = highest + 1e-2 * (np.mean(highest) + 1e-12)
    point = _Point(beta, eta, w, xi, xi[group] - value)
    for _ in range(_STEPS):
        if point.gap() <= target:
            break
        try:
            newton = _Newton(point, slopes, cuts, group)
        except LinAlgError:  # nothing more to gain in float64
            break
        mean = point.gap() / (len(beta) + len(eta))
        straight = newton.direction(0.0, 0.0, 0.0)
        reached = point.moved(straight, point.longest_step(straight)).gap()
        centre = mean * (reached / point.gap()) ** 3
        direction = newton.direction(centre, straight.beta * straight.z, straight.eta * straight.xi)
        moved = point.moved(direction, 0.995 * point.longest_step(direction))
        if not moved.gap() < point.gap():
            break
        point = moved
    # What only the barrier keeps above zero carries nothing: the dual stays sparse.
    kept = np.where(point.beta > 1e-5 * budget, point.beta, 0.0)
    total = np.add.reduceat(kept, cuts)
    return kept * np.minimum(1.0, budget / np.maximum(total, budget))[group]


class _Newton:
    """The Newton system at a point, reduced to w and factored once for two directions."""

    def __init__(
        self,
        point: _Point,
        slopes: NDArray[np.float64],
        cuts: NDArray[np.int64],
        group: NDArray[np.int64],
    ) -> None:
        self.point, self.slopes, self.cuts, self.group = point, slopes, cuts, group
        self.theta = point.beta / point.z
        self.pull, self.total, rows = _reduced(slopes, self.theta, point.eta / point.xi, cuts)
        matrix = dsyrk(1.0, rows.T, lower=1)
        matrix[np.diag_indices_from(matrix)] += 1.0
        self.factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)

    def direction(
        self, centre: float, bend_beta: Vector | float, bend_eta: Vector | float
    ) -> _Point:
        """Towards βz = ηξ = centre, corrected for the bend of the predictor."""
        point = self.point
        s = (centre - point.beta * point.z - bend_beta) / point.z
        s_eta = (centre - point.eta * point.xi - bend_eta) / point.xi
        r = s_eta + np.add.reduceat(s, self.cuts)
        w = cho_solve(self.factor, (r / self.total) @ self.pull - s @ self.slopes)
        xi = (r + self.pull @ w) / self.total
        z = xi[self.group] - self.slopes @ w
        beta = s - self.theta * z
        eta = s_eta - point.eta / point.xi * xi
        return _Point(beta, eta, w, xi, z)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _reduced(slopes: Any, theta: Any, none: Any, cuts: Any) -> tuple[Any, Any, Any]:
    """Σ θ slope and Σ θ of each group, and rows whose products sum to the reduced matrix.

    The pattern with slope zero counts with `none`. Slopes are taken around each group's mean,
    so that nothing cancels and the matrix stays definite.
    """
    patterns, features = slopes.shape
    pull, total = np.zeros((len(cuts), features)), none.copy()
    rows = np.empty((patterns + len(cuts), features))
    for g in range(len(cuts)):
        end = cuts[g + 1] if g + 1 < len(cuts) else patterns
        for p in range(cuts[g], end):
            total[g] += theta[p]
            for j in range(features):
                pull[g, j] += theta[p] * slopes[p, j]
        for p in range(cuts[g], end):
            root = np.sqrt(theta[p])
            for j in range(features):
                rows[p, j] = root * (slopes[p, j] - pull[g, j] / total[g])
        root = np.sqrt(none[g]) / total[g]
        for j in range(features):
            rows[patterns + g, j] = root * pull[g, j]
    return pull, total, rows
