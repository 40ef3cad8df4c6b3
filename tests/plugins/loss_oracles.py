"""Slow and obvious versions of the losses, written from the papers' formulas."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector

Array = NDArray[np.float64]


def inner_loss(inner: str, t: Any, margin: float = 1.0) -> Any:
    if inner == "hinge":
        return np.maximum(0.0, margin - t)
    if inner == "squared-hinge":
        return np.maximum(0.0, margin - t) ** 2
    return np.logaddexp(0.0, -t)


def generator_weights(generator: str, n: int, p: float = 10.0) -> Array:
    """α_1 … α_n, from g(j, n)."""
    j = np.arange(1, n + 1)
    g = {
        "constant": np.ones(n),
        "top": ((j * 100 <= p * n) | (j == 1)).astype(float),
        "inverse": 1 / j,
        "exponential": 2.0 ** (-(100 / p) * j / n),
        "logarithmic": 1 / np.log(j + 1),
    }[generator]
    return np.asarray(g / g.sum())


def owa(alpha: Array, t: Array) -> float:
    """Yager (1988): the weights meet the values in decreasing order."""
    return float(alpha @ np.sort(t)[::-1])


def owa_by_permutations(alpha: Array, t: Array) -> float:
    return max(float(alpha @ np.array(order)) for order in permutations(t))


def owpc(
    scores: Array, relevant: Any, alpha: Array, inner: str = "hinge", margin: float = 1.0
) -> float:
    R, N = np.flatnonzero(relevant), np.flatnonzero(~np.asarray(relevant))
    if not (len(R) and len(N)):
        return 0.0
    losses = [inner_loss(inner, scores[i] - scores[N], margin) for i in R]
    return float(np.mean([owa(alpha, t) for t in losses]))


def owpc_by_structures(scores: Array, relevant: Any, alpha: Array) -> float:
    """Usunier et al. (2009), eqs 4–6: max over (σ, b) of Δ(σ, b) − ⟨w, Ξ(σ, b)⟩."""
    R, N = np.flatnonzero(relevant), np.flatnonzero(~np.asarray(relevant))
    best = -np.inf
    for b in product((0, 1), repeat=len(R) * len(N)):
        chosen = np.reshape(b, (len(R), len(N)))
        for sigma in permutations(range(len(N))):
            delta = sum(
                alpha[j] * chosen[i, sigma[j]] for i in range(len(R)) for j in range(len(N))
            )
            xi = sum(
                alpha[j] * chosen[i, sigma[j]] * (scores[R[i]] - scores[N[sigma[j]]])
                for i in range(len(R))
                for j in range(len(N))
            )
            best = max(best, (delta - xi) / len(R))
    return float(best)


def ranking_error(scores: Array, relevant: Any, alpha: Array) -> float:
    """Mean over R of Φ(rank), rank = irrelevant documents scored at least as high."""
    R, N = np.flatnonzero(relevant), np.flatnonzero(~np.asarray(relevant))
    return float(np.mean([alpha[: np.sum(scores[N] >= scores[i])].sum() for i in R]))


def pairwise(scores: Array, labels: Any, inner: str, normalise: str, margin: float = 1.0) -> float:
    total, pairs, means = 0.0, 0, []
    for i in range(len(scores)):
        costs = [
            float(inner_loss(inner, scores[i] - scores[j], margin))
            for j in range(len(scores))
            if labels[i] > labels[j]
        ]
        total += sum(costs)
        pairs += len(costs)
        means += [float(np.mean(costs))] if costs else []
    if not pairs:
        return 0.0
    return {"none": total, "pairs": total / pairs, "relevant": sum(means) / len(means)}[normalise]


@dataclass(frozen=True)
class Distance:
    """Half the squared distance of the scores from the labels, less a constant: negative."""

    name: ClassVar[str] = "distance"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    constant: float = 10.0

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        error = scores - labels
        return 0.5 * float(weights @ error**2) - self.constant, weights * error


@dataclass(frozen=True)
class Dented:
    """A liar: log(1 + error²) is not convex, whatever it claims."""

    name: ClassVar[str] = "dented"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        error = scores - np.where(labels > 0, 10.0, -10.0)
        return float(weights @ np.log1p(error**2)), 2 * weights * error / (1 + error**2)
