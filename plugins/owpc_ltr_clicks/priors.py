"""Beta priors by moments: how rates vary between documents, taken from all of them together.

Of k clicks in m impressions of which each was looked at with a chance e, n = Σe are trials. Given
a pair's own rate r, k/n has the mean r, and k(k − 1)/(n² − Σe²) the mean r²: the mean of
k(k − 1)/(n² − Σe²) − 2pk/n + p² over pairs is the variance σ² of their rates about p, whatever n
has to do with the rates. (In a log it has much: what attracts stands high, where it is looked at.
The mean variance of k/n, less what chance would give to a rate of p, is another thing there.) Then
s = α + β = p(1 − p)/σ² − 1.

Pairs weigh n/(n + s) in p, as the inverse of their variance: what was shown often is not taken for
typical (Kleinman 1973). In σ² they weigh (n² − Σe²)/(1 + ρn)², ρ = σ²/(p(1 − p)), for the same
reason: what was seen once tells nothing of it.
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
    """α and β of the pairs' rates; `trials` of 0 tell nothing, `looked` is Σe²/Σe.

    >>> alpha, beta = beta_prior(np.array([0.0, 10.0] * 50), np.array([10.0] * 100))
    >>> round(alpha, 2), round(beta, 2)
    (0.5, 0.5)
    """
    told = trials > 0
    k, n = successes[told], trials[told]
    chance = np.broadcast_to(looked, trials.shape)[told]
    # Two looks at one pair are what tells how pairs differ.
    twice = np.maximum(n * (n - chance), 0.0)
    rho, mean = 0.1, 0.5
    for _ in range(_ROUNDS):
        strength = 1.0 / rho - 1.0
        weights = n / (n + strength)
        # Half a success and half a failure more: no rate is 0 or 1 for certain.
        known = float(n.sum())
        mean = float((weights * k / n).sum()) / max(float(weights.sum()), 1e-300)
        mean = (mean * known + 0.5) / (known + 1.0)
        mean = min(mean, 1.0 - 1e-6)
        before, rho = rho, _correlation(k, n, twice, mean, rho)
        if abs(rho - before) < 1e-9:
            break
    strength = 1.0 / rho - 1.0
    return mean * strength, (1.0 - mean) * strength


def posterior_mean(successes: Vector, trials: Vector, prior: tuple[float, float]) -> Vector:
    """The mean of each rate, given its trials."""
    alpha, beta = prior
    found: Vector = (successes + alpha) / (trials + alpha + beta)
    return found


def _correlation(k: Vector, n: Vector, twice: Vector, mean: float, rho: float) -> float:
    """ρ: how alike two trials of one pair are, beyond two of different ones."""
    shrink = (1.0 + rho * n) ** 2
    weights = twice / shrink
    total = float(weights.sum())
    if total <= 1e-12 * max(float(n.sum()), 1e-300):
        return _MOST
    # Of a pair that was looked at once, k(k − 1)/(n² − Σe²) is 0/0: it weighs nothing.
    squares = k * np.maximum(k - 1.0, 0.0) / shrink
    spread = float((squares + weights * (mean**2 - 2.0 * mean * k / n)).sum()) / total
    return float(np.clip(spread / (mean * (1.0 - mean)), _LEAST, _MOST))
