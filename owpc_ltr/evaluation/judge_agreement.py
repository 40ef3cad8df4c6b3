"""How far a cheap judge and people agree on two rankers, query by query."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from owpc_ltr.evaluation.sampled_queries import SampledQueries


@dataclass(frozen=True)
class Agreement:
    """Of the queries that people judged, what the cheap judge says of the two rankers.

    `correlation` is that of the two judges' differences, each query weighed as in means; None where
    one of them sees no difference, or the same in all. People prefer a ranker in `differ` queries;
    in `same` of these the cheap judge prefers the same one, in `opposite` the other.
    """

    correlation: float | None
    differ: int
    same: int
    opposite: int


def agreement_of(sample: SampledQueries) -> Agreement:
    """The agreement on a sample."""
    cheap = sample.cheap[sample.judged]
    human = sample.human
    signs = np.sign(cheap) * np.sign(human)
    return Agreement(
        _correlation(sample), int((human != 0).sum()), int((signs > 0).sum()),
        int((signs < 0).sum()),
    )  # fmt: skip


def _correlation(sample: SampledQueries) -> float | None:
    cheap = sample.cheap[sample.judged]
    of_cheap = cheap - sample.mean(cheap)
    of_people = sample.human - sample.mean(sample.human)
    spread = sample.mean(of_cheap**2) * sample.mean(of_people**2)
    # Equal values less their mean may be next to nothing.
    least = 1e-24 * sample.mean(cheap**2) * sample.mean(sample.human**2)
    if spread <= least:
        return None
    found = sample.mean(of_cheap * of_people) / math.sqrt(spread)
    return min(1.0, max(-1.0, found))
