"""Clicks by looks, where it is known how users look. An example of a click model.

An experiment (results in random order, or eyes that were tracked) told with what chance users look
at rank r: as r to the power of −steepness. An impression counts so many looks, and every pair has
some looks more, which were clicked as often as all are.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.types import ClickCounts, ClickFit, ClickModel


@dataclass(frozen=True)
class KnownLooks:
    """(clicks + strength · p) / (Σ_r impressions_r · r^−steepness + strength)."""

    name: ClassVar[str] = "known-looks"

    steepness: float = 0.5
    strength: float = 5.0

    def fit(self, counts: ClickCounts) -> ClickFit:
        """One pass over the counts: there is nothing to find."""
        looked = np.arange(1.0, counts.n_ranks + 1) ** -self.steepness
        clicks = counts.by_pair(counts.clicked)
        looks = counts.by_pair(counts.shown * looked[counts.rank - 1])
        # No more clicks than looks, whatever the experiment said.
        looks = np.maximum(looks, clicks)
        mean = (clicks.sum() + 0.5) / (looks.sum() + 1.0)
        prior = (float(self.strength * mean), float(self.strength * (1.0 - mean)))
        attractiveness = (clicks + prior[0]) / (looks + self.strength)
        return ClickFit(attractiveness, looks, looked, prior)


@hookimpl
def ltr_click_models() -> list[type[ClickModel]]:
    """Offer `--model known-looks`."""
    return [KnownLooks]
