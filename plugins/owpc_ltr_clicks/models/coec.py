"""Clicks over expected clicks: what a document got, beside what its ranks get (Zhang & Jones 2007).

The click-through rate of a rank includes the quality of the documents there. A good ranker puts
good documents first, so that too many clicks are expected at high ranks; PBM separates the two.
Where documents never change their ranks, the rate of a rank is that of its documents, and dividing
by it corrects nothing.
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
        """An impression counts as its rank's click-through rate over the highest rate."""
        examination = _by_rank(counts)
        clicks = counts.by_pair(counts.clicked)
        expected, chance = expected_looks(counts, examination)
        # A click implies a look, so that there are at least as many looks as clicks.
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
