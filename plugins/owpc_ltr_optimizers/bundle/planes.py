"""Tangent planes that bound a convex risk from below, and the best point of their maximum.

Teo, Vishwanathan, Smola & Le (JMLR 2010): with planes a_i·w + b_i below R, the minimum of
½‖w‖² + C max_i (a_i·w + b_i) is the maximum over the simplex of
D(α) = C b·α − ½C²‖Σ α_i a_i‖², at w = −C Σ α_i a_i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.kernels.cutting_planes import Origin

_PLANES = 500  # kept at most; beyond, they are merged into one (still a lower bound)
_IDLE = 50  # passes that a plane with α = 0 is kept for


class State(NamedTuple):
    """What a fit leaves for the next one: planes bound the risk whatever C is."""

    planes: Planes
    w: Vector


class Planes:
    """Tangents a_i·w + b_i of the risk, their Gram matrix, and the dual variables α."""

    def __init__(self, origin: Origin, C: float) -> None:
        self.origin, self.C = origin, C
        self.slopes = np.zeros((0, len(origin.slope)))
        self.offsets, self.alpha = np.zeros(0), np.zeros(0)
        self.gram = np.zeros((0, 0))
        self.idle = np.zeros(0, dtype=np.int64)

    def at(self, C: float) -> Planes:
        """A copy for another C; the fit that it comes from keeps its own."""
        copy = Planes(self.origin, C)
        copy.slopes, copy.offsets, copy.gram = self.slopes, self.offsets, self.gram
        copy.alpha, copy.idle = self.alpha.copy(), np.zeros_like(self.idle)
        return copy

    def add(self, slope: Vector, offset: float) -> None:
        """Keep one more plane, after making room for it."""
        self._keep(self.idle <= _IDLE)
        if len(self.alpha) >= _PLANES:
            self._merge()
        row = self.slopes @ slope
        corner = np.array([slope @ slope])
        self.gram = np.block([[self.gram, row[:, None]], [row[None, :], corner[None, :]]])
        self.slopes = np.vstack((self.slopes, slope))
        self.offsets = np.append(self.offsets, offset)
        self.alpha = np.append(self.alpha, 0.0 if len(self.alpha) else 1.0)
        self.idle = np.append(self.idle, 0)

    def solve(self, accuracy: float) -> tuple[float, Vector]:
        """Maximise D; its value, a lower bound on P, and w."""
        self.alpha = _maximise_on_simplex(
            self.C * self.gram, self.offsets, self.alpha, accuracy / self.C
        )
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        w = -self.C * (self.alpha @ self.slopes)
        return float(self.C * (self.alpha @ self.offsets) - 0.5 * (w @ w)), w

    def _merge(self) -> None:
        """Replace all planes by their α-weighted mean, which bounds the risk as well as they do."""
        slope, offset = self.alpha @ self.slopes, float(self.alpha @ self.offsets)
        self._keep(np.zeros(len(self.alpha), dtype=bool))
        self.add(slope, offset)

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        if kept.all():
            return
        self.slopes, self.offsets = self.slopes[kept], self.offsets[kept]
        self.alpha, self.idle = self.alpha[kept], self.idle[kept]
        self.gram = self.gram[np.ix_(kept, kept)]


def _maximise_on_simplex(Q: NDArray[np.float64], c: Vector, x: Vector, accuracy: float) -> Vector:
    """The maximum of c·x − ½xᵀQx over the simplex, from x on, by an active set.

    Newton steps within the support, cut short where an entry reaches 0; then the entry of the
    largest gradient joins. It ends when max gradient − x·gradient, the gap, is small enough.
    """
    support = x > 0
    joined = -1
    for _ in range(20 * len(x) + 20):
        slope = c - Q @ x
        # Rounding of the gradient is all that is left below this.
        negligible = max(accuracy, 1e-14 * float(np.abs(c).max() + np.abs(c - slope).max()))
        step = _newton_step(Q, slope, support, x)
        share = _largest_share(x, step)
        x = np.maximum(x + share * step, 0.0)
        if share < 1.0:
            blocked = support & (x <= 1e-15)
            x[blocked] = 0.0
            support &= ~blocked
            if share == 0.0 and joined >= 0 and blocked[joined]:
                break
            continue
        x /= x.sum()
        slope = c - Q @ x
        joined = int(np.argmax(slope))
        if slope[joined] - x @ slope <= negligible or support[joined]:
            break
        support[joined] = True
    x[~support] = 0.0
    result: Vector = x / x.sum()
    return result


def _newton_step(
    Q: NDArray[np.float64], slope: Vector, support: NDArray[np.bool_], x: Vector
) -> Vector:
    """The step to the maximum over the support, keeping Σ x: one entry pays for the others."""
    from scipy.linalg import cho_factor, cho_solve

    step = np.zeros_like(x)
    inside = np.flatnonzero(support)
    payer = inside[np.argmax(x[inside])]
    others = inside[inside != payer]
    if not len(others):
        return step
    block = Q[np.ix_(others, others)]
    curvature = block - Q[others, payer][:, None] - Q[payer, others][None, :] + Q[payer, payer]
    # Planes may be alike to the last bits: what is left of their curvature is rounding.
    ridge = 1e-13 * float(Q.diagonal().max()) + np.finfo(float).tiny
    while True:
        try:
            factor = cho_factor(curvature + ridge * np.eye(len(others)))
            break
        except np.linalg.LinAlgError:
            ridge *= 10.0
    step[others] = cho_solve(factor, slope[others] - slope[payer])
    step[payer] = -step[others].sum()
    return step


def _largest_share(x: Vector, step: Vector) -> float:
    """How much of a step can be taken before an entry would fall below 0; 1 at most."""
    falling = step < 0
    if not falling.any():
        return 1.0
    return min(1.0, float((x[falling] / -step[falling]).min()))
