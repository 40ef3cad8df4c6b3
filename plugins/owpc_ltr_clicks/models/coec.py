"""Clicks over expected clicks: what a document got, beside what its ranks get (Zhang & Jones 2007).

A rank's click-through rate is the mean of what stands there, so that a good ranker, which puts the
good documents high, makes high ranks expect too much; PBM tells the two apart. Where documents
never change their ranks, a rank's rate is theirs, and dividing by it is no correction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ranks_vary
from owpc_ltr.protocols import ClickFit, ClickModel
from owpc_ltr_clicks.grading import beta_prior, expected_looks, posterior_mean


@dataclass(frozen=True)
class ClicksOverExpected:
    """(clicks + α) / (Σ_r impressions_r · ctr_r / max ctr + α + β)."""

    name: ClassVar[str] = "coec"

    def fit(self, counts: ClickCounts) -> ClickFit:
        """Impressions count as much as their rank is clicked, beside the most clicked rank."""
        examination = _by_rank(counts)
        clicks = counts.by_pair(counts.clicked)
        expected, chance = expected_looks(counts, examination)
        # Nothing is clicked more often than it is looked at.
        trials = np.maximum(expected, clicks)
        prior = beta_prior(clicks, expected, chance)
        rates = posterior_mean(clicks, trials, prior)
        return ClickFit(rates, trials, examination, prior, identified=ranks_vary(counts))


def _by_rank(counts: ClickCounts) -> Vector:
    """Click-through rates, relative to the greatest; 1 everywhere where nothing was clicked."""
    shown, clicks = counts.by_rank(counts.shown), counts.by_rank(counts.clicked)
    rates = np.divide(clicks, shown, out=np.zeros_like(shown), where=shown > 0)
    greatest = rates.max(initial=0.0)
    return rates / greatest if greatest > 0 else np.ones_like(rates)


@hookimpl
def ltr_click_models() -> list[type[ClickModel]]:
    """Offer `--model coec`."""
    return [ClicksOverExpected]
