"""Bregman divergences that are consistent with NDCG (Ravikumar, Tewari & Yang, AISTATS 2011).

loss = D_ψ(Ḡ, (∇ψ)⁻¹(s)) = ψ(Ḡ) + ψ*(s) − ⟨Ḡ, s⟩, with Ḡ_j = (2^label_j − 1) / ideal DCG, and ψ*
the conjugate of ψ: convex in the scores, and 0 where s = ∇ψ(Ḡ). The minimiser of its expectation
orders documents by their expected Ḡ, which is the order that maximises the expected NDCG.

The three ψ are those of Pareek & Ravikumar (NIPS 2014), c the scale:
cross-entropy  ψ(x) = c (Σ x log x − x)   ψ*(s) = c Σ exp(s / c)       c = 0.01
square         ψ(x) = c ‖x‖²              ψ*(s) = ‖s‖² / (4 c)         c = 1
q-norm         ψ(x) = c ‖x‖_q²            ψ*(s) = ‖s‖_p² / (4 c)       c = 1, q = log m + 2,
with 1/p + 1/q = 1 and m documents. The latter paper leaves the link of s to an appendix; it is read
as ∇ψ, with which each of these is convex in s and the factor of ψ matters, as the paper says.

Beyond s = 10 c the exponential goes on as a straight line, so that a score far off costs much but
not infinitely much; the best s are c log Ḡ ≤ 0. A linear model needs a constant feature for those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.host.settings import check_settings, choice_number
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel
from owpc_ltr.kernels.pairs import reset
from owpc_ltr.protocols import Loss

Psi = Literal["cross-entropy", "square", "q-norm"]

_CROSS_ENTROPY, _SQUARE, _Q_NORM = range(3)
_STEEPEST = 10.0  # s / c: the slope there is 22,026 times that of any gain


@kernel
def _bregman(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    if not reset(scores, gradient, curvature, True):
        return np.nan
    psi, c = int(parameters[0]), parameters[1]
    value: float
    ideal = _ideal_dcg(labels, weights)
    if not ideal > 0.0:
        return 0.0
    shares = np.empty(len(scores))
    for j in range(len(scores)):
        shares[j] = max(2.0 ** np.float64(labels[j]) - 1.0, 0.0) / ideal
    if psi == _CROSS_ENTROPY:
        value = _cross_entropy(c, scores, shares, weights, gradient, curvature)
        return value
    documents = np.float64(weights.sum())
    p = 2.0
    if psi == _Q_NORM:
        q = math.log(max(documents, 1.0)) + 2.0
        p = q / (q - 1.0)
    value = _norm(p, c, scores, shares, weights, gradient, curvature)
    return value


@dataclass(frozen=True)
class Bregman(KernelLoss):
    """ψ(Ḡ) + ψ*(s) − ⟨Ḡ, s⟩, with Ḡ the gains of the documents over the ideal DCG.

    `psi` is cross-entropy, square or q-norm; `scale` the factor c of ψ, none for the paper's
    (0.01, 1, 1): it sets the size of the scores that fit best. The scores count as they are,
    not only their differences. A document of weight k counts as k copies, a fraction in
    proportion.
    """

    name: ClassVar[str] = "bregman"
    kernel: ClassVar[Kernel] = _bregman
    has_curvature: ClassVar[bool] = True
    weights_are_copies: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True

    psi: Psi = "cross-entropy"
    scale: float | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be positive and finite, not {self.scale}")

    @property
    def smooth(self) -> bool:
        """Whether the gradient is continuous; that of the q-norm is, but infinitely steep at 0."""
        return self.psi != "q-norm"

    def parameters(self) -> Vector:
        """ψ and its scale."""
        papers = 0.01 if self.psi == "cross-entropy" else 1.0
        scale = papers if self.scale is None else self.scale
        return np.array([choice_number(self, "psi"), scale])


@compiled
def _ideal_dcg(labels: Labels, weights: Labels) -> float:
    """Σ (2^label − 1) / log2(1 + rank), best labels first, each as often as its weight."""
    order = np.argsort(-labels)
    rank, left, total = 0.0, 0.0, 0.0
    for j in order:
        gain = 2.0 ** np.float64(labels[j]) - 1.0
        if not gain > 0.0:
            break
        weight = np.float64(weights[j])
        while weight > 0.0:
            if left <= 0.0:
                rank += 1.0
                left = 1.0
            part = min(weight, left)
            total += gain * part / math.log2(1.0 + rank)
            weight -= part
            left -= part
    return total


@compiled
def _cross_entropy(
    c: float, scores: Vector, shares: Vector, weights: Labels, gradient: Vector, curvature: Vector
) -> float:
    value = 0.0
    for j in range(len(scores)):
        exponent = scores[j] / c
        slope = math.exp(min(exponent, _STEEPEST))
        conjugate = c * slope * (1.0 + max(exponent - _STEEPEST, 0.0))
        entropy = 0.0
        if shares[j] > 0.0:
            entropy = c * shares[j] * (math.log(shares[j]) - 1.0)
        value += weights[j] * (entropy + conjugate - shares[j] * scores[j])
        gradient[j] = weights[j] * (slope - shares[j])
        if len(curvature):
            curvature[j] = weights[j] * slope / c
    return max(value, 0.0)


@compiled
def _norm(
    p: float,
    c: float,
    scores: Vector,
    shares: Vector,
    weights: Labels,
    gradient: Vector,
    curvature: Vector,
) -> float:
    """The norms: c ‖Ḡ‖_q² + ‖s‖_p² / (4 c) − ⟨Ḡ, s⟩."""
    largest = np.abs(scores * (weights > 0.0)).max()
    q = p / (p - 1.0)
    of_scores, of_shares, product = 0.0, 0.0, 0.0
    for j in range(len(scores)):
        if weights[j] > 0.0 and largest > 0.0:
            of_scores += weights[j] * (abs(scores[j]) / largest) ** p
        of_shares += weights[j] * shares[j] ** q
        product += weights[j] * shares[j] * scores[j]
    # Relative to the largest score, so that no power leaves the range.
    norm = of_scores ** (1.0 / p)
    for j in range(len(scores)):
        slope, bend = 0.0, 1.0
        if largest > 0.0:
            ratio = abs(scores[j]) / (largest * norm) if norm > 0.0 else 0.0
            slope = math.copysign(largest * norm * ratio ** (p - 1.0), scores[j])
            # The second derivative is infinite at 0 where p < 2.
            bend = (2.0 - p) * ratio ** (2.0 * p - 2.0) * weights[j]
            bend += (p - 1.0) * max(ratio, 1e-3) ** (p - 2.0)
        gradient[j] = weights[j] * (slope / (2.0 * c) - shares[j])
        if len(curvature):
            curvature[j] = weights[j] * bend / (2.0 * c)
    whole = largest * norm
    value: float = c * of_shares ** (2.0 / q) + whole * whole / (4.0 * c) - product
    return max(value, 0.0)


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss bregman`."""
    return [Bregman]
