"""Statistics that hold at all times at once, so that an experiment may be looked at every day."""

from __future__ import annotations

import math

from owpc_ltr.evaluation.resampling import LEVEL

FEWEST = 100
"""Clients from which on the interval holds: it is asymptotic."""


def confidence_sequence(
    n: int, mean: float, sd: float, *, planned: int, level: float = LEVEL
) -> tuple[float, float]:
    """The interval of a mean of n values, in which the true one is at all n together.

    `mean ± sd √(2 (n ρ² + 1) / (n² ρ²) log(√(n ρ² + 1) / α))`, with
    `ρ² = (-2 log α + log(-2 log α + 1)) / planned`, which makes it narrowest at `planned` values
    (Waudby-Smith et al., arXiv 2103.06476). Infinite below `FEWEST` values.
    """
    if n < FEWEST:
        return -math.inf, math.inf
    half = sd * half_width(n, planned, level)
    return mean - half, mean + half


def half_width(n: int, planned: int, level: float = LEVEL) -> float:
    """Half the width of the interval, in standard deviations of one value."""
    twice = -2 * math.log(level)
    time = n * (twice + math.log(twice + 1)) / planned
    return math.sqrt(2 * (time + 1) / (n * time) * math.log(math.sqrt(time + 1) / level))


def lead_check(n_a: int, n_b: int) -> float:
    """The p-value of a fair coin that fell n_a and n_b times, valid at all times at once.

    1 over the Bayes factor of a share with a Beta(½, ½) prior against ½: it falls below p with at
    most the chance p, however often it is looked at (Lindon & Malek, NeurIPS 2022).
    """
    n = n_a + n_b
    log_factor = (
        math.lgamma(n_a + 0.5) + math.lgamma(n_b + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
    ) + n * math.log(2)
    return math.exp(min(0.0, -log_factor))
