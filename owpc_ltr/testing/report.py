"""Burges's tests of a loss, with the numbers: whether a cost exists, and is convex."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from owpc_ltr.protocols import Loss
from owpc_ltr.testing import calculus
from owpc_ltr.testing.samples import Sample, sample_queries


@dataclass(frozen=True)
class LossReport:
    """What was measured of a loss, beside what it claims.

    `asymmetry` is the largest |J − Jᵀ| over the largest |J|, with J = ∂λ/∂s: a cost exists, on
    stretches without a rank swap, where it is 0 (Poincaré; Burges 2006, eq. 11). `loop` is the
    integral of the gradient around closed walks across rank swaps, `side` the mismatch of its
    integral with the value, both as shares of the walk's effort. `smallest_eigenvalue` is that
    of −J: the cost is convex where it is not negative. `tangent_excess` is how far a tangent
    lies above the loss, `jump` how much the gradient jumps (relative to its changes), and
    `shift` the largest |Σ gradient| over Σ |gradient|: 0 where only score differences count.
    """

    name: str
    convex: bool
    conservative: bool
    smooth: bool
    slope_error: float
    asymmetry: float
    loop: float
    side: float
    smallest_eigenvalue: float
    tangent_excess: float
    jump: float
    shift: float

    @property
    def cost_exists(self) -> bool:
        """Whether the gradient is the gradient of something, as far as was seen."""
        return self.asymmetry < 1e-3 and self.loop < 5e-3

    @property
    def shift_invariant(self) -> bool:
        """Whether adding a number to all scores changes nothing, as far as was seen."""
        return self.shift < 1e-9

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        return asdict(self) | {
            "cost_exists": self.cost_exists,
            "shift_invariant": self.shift_invariant,
        }


def describe_loss(loss: Loss, seed: int = 0) -> LossReport:
    """Measure a loss; claims are shown, not checked."""
    samples = sample_queries(seed)
    hessians = [_hessian_numbers(loss, sample) for sample in samples]
    walks = [
        calculus.walk(loss, sample.labels, sample.points[corners])
        for sample in samples
        for corners in ([2, 3, 4], [3, 4, 5, 2])
    ]
    slopes = [
        calculus.slope_errors(loss, sample.labels, sample.points[:6], seed).max(initial=0.0)
        for sample in samples
    ]
    return LossReport(
        name=loss.name,
        convex=loss.convex,
        conservative=loss.conservative,
        smooth=loss.smooth,
        slope_error=float(max(slopes)),
        asymmetry=max(asymmetry for asymmetry, _ in hessians),
        loop=max(loop for loop, _ in walks),
        side=max(side for _, side in walks),
        smallest_eigenvalue=min(smallest for _, smallest in hessians),
        tangent_excess=max(
            float(calculus.tangent_violations(loss, sample.labels, sample.points).max())
            for sample in samples
        ),
        jump=max(
            calculus.largest_jump(loss, sample.labels, sample.points[start], sample.points[end])
            for sample in samples
            for start, end in ((2, 3), (4, 5), (4, 6), (2, 7))
        ),
        shift=max(_shift(loss, sample) for sample in samples),
    )


def _hessian_numbers(loss: Loss, sample: Sample) -> tuple[float, float]:
    """Asymmetry and smallest eigenvalue at a few points."""
    asymmetry, smallest = 0.0, np.inf
    for point in sample.points[:6]:
        matrix = calculus.hessian(loss, sample.labels, point)
        size = np.abs(matrix).max()
        if size > 0:
            asymmetry = max(asymmetry, float(np.abs(matrix - matrix.T).max() / size))
        smallest = min(smallest, float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]))
    return asymmetry, smallest


def _shift(loss: Loss, sample: Sample) -> float:
    _, gradients = calculus.evaluate(loss, sample.labels, sample.points)
    sizes = np.abs(gradients).sum(axis=1)
    sums = np.abs(gradients.sum(axis=1))
    return float((sums / np.where(sizes > 0, sizes, 1.0)).max())
