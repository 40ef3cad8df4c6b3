"""Beta priors by moments: how rates vary between documents, taken from all of them together.

Of k clicks in m impressions of which each was looked at with a chance e, n = Σe are trials, and
k/n has the mean p of the rate, and the variance σ² + (p − (p² + σ²)ē)/n, with ē = Σe²/Σe: where
all were looked at, ē is 1 and n is m. The sum of squares of all pairs gives σ², and α + β =
p(1 − p)/σ² − 1. Pairs weigh n/(1 + ρ(n − 1)), ρ = σ²/(p(1 − p)), as the inverse of their variance:
what was shown often is not taken for typical (Kleinman 1973).
"""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector

_LEAST, _MOST = 1e-3, 0.5
"""Bounds of ρ: a prior of 1 to 1,000 trials."""
_ROUNDS = 50


def beta_prior(
    successes: Vector, trials: Vector, looked: Vector | float = 1.0
) -> tuple[float, float]:
    """α and β of the pairs' rates; `trials` of 0 tell nothing, `looked` is ē.

    >>> alpha, beta = beta_prior(np.array([0.0, 10.0] * 50), np.array([10.0] * 100))
    >>> round(alpha, 2), round(beta, 2)
    (0.5, 0.5)
    """
    told = trials > 0
    k, n = successes[told], trials[told]
    chance = np.broadcast_to(looked, trials.shape)[told]
    rho, mean = 0.1, 0.5
    for _ in range(_ROUNDS):
        weights = n / (1.0 + rho * np.maximum(n - 1.0, 0.0))
        # Half a success and half a failure more: no rate is 0 or 1 for certain.
        mean = (float((weights * k / n).sum()) + 0.5) / (float(weights.sum()) + 1.0)
        mean = min(mean, 1.0 - 1e-6)
        before, rho = rho, _correlation(k / n, n, chance, weights, mean)
        if abs(rho - before) < 1e-9:
            break
    strength = 1.0 / rho - 1.0
    return mean * strength, (1.0 - mean) * strength


def posterior_mean(successes: Vector, trials: Vector, prior: tuple[float, float]) -> Vector:
    """The mean of each rate, given its trials."""
    alpha, beta = prior
    found: Vector = (successes + alpha) / (trials + alpha + beta)
    return found


def _correlation(rates: Vector, n: Vector, looked: Vector, weights: Vector, mean: float) -> float:
    """ρ: how alike two trials of one pair are, beyond two of different ones."""
    share = weights * (1.0 - weights / max(float(weights.sum()), 1e-300))
    squares = float((weights * (rates - mean) ** 2).sum())
    chance = float((share * (mean - mean**2 * looked) / n).sum())
    size = float((share * np.maximum(1.0 - looked / n, 0.0)).sum())
    if size <= 1e-12 * max(float(share.sum()), 1e-300):
        return _MOST
    return float(np.clip((squares - chance) / size / (mean * (1.0 - mean)), _LEAST, _MOST))
