"""Whether queries look like a random sample of all, by values that are known of all."""

from __future__ import annotations

import math

import numpy as np

from owpc_ltr.evaluation.sampled_queries import SampledQueries
from owpc_ltr.evaluation.verdict import Doubt

UNLIKELY = 0.01
"""Samples that are random look so strange once in a hundred."""


def p_of_random(sample: SampledQueries) -> float:
    """How often a random sample (of each stratum) has means so far from those of all queries.

    Of the cheap differences and of their sizes, twice the smaller p (Bonferroni).
    """
    from scipy.special import stdtr

    p = 1.0
    for values in (sample.cheap, np.abs(sample.cheap)):
        own = values[sample.judged]
        centre = own.mean()
        # Importance says nothing of who was drawn: each query counts once.
        apart = float(sample.expansion @ own) / len(values) - float(values.mean())
        variance, degrees = sample.variance_of_mean(own - centre)
        if variance > 0.0 and math.isfinite(apart):
            p = min(p, 2.0 * float(stdtr(degrees, -abs(apart) / math.sqrt(variance))))
    return min(1.0, 2.0 * p)


def random_sample_doubts(p: float) -> tuple[Doubt, ...]:
    """The doubt about a sample that is visibly not random."""
    if p >= UNLIKELY:
        return ()
    return (
        Doubt(
            "not-random",
            "the human-labelled queries are not a random sample of the proxy-labelled ones: by "
            f"proxy labels, the rankers differ otherwise on them (p = {p:.2g})",
            "draw them at random (owpc-ltr judge next)",
        ),
    )
