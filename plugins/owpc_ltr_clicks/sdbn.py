"""The simplified dynamic Bayesian network (Chapelle & Zhang 2009): users read down to a last click.

What stands at the last click or above it was looked at, what stands below it was not; who clicks on
nothing has read it all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.behaviour.priors import beta_prior, posterior_mean
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.protocols import ClickFit, ClickModel


@dataclass(frozen=True)
class SimplifiedDBN:
    """(clicks + α) / (impressions at or above the last click + α + β)."""

    name: ClassVar[str] = "sdbn"

    def fit(self, counts: ClickCounts) -> ClickFit:
        """Clicks by impressions that were reached."""
        clicks, reached = counts.by_pair(counts.clicked), counts.by_pair(counts.reached)
        prior = beta_prior(clicks, reached)
        attractive = posterior_mean(clicks, reached, prior)
        return ClickFit(attractive, reached, _examination(counts, attractive), prior)


def _examination(counts: ClickCounts, attractive: Vector) -> Vector:
    """What share of each rank's attractiveness is clicked: how many users come to it."""
    drawn = counts.by_rank(counts.shown * attractive[counts.pair])
    clicks = counts.by_rank(counts.clicked)
    share = np.divide(clicks, drawn, out=np.zeros_like(drawn), where=drawn > 0)
    return np.minimum(share, 1.0) if clicks.any() else np.ones_like(share)


@hookimpl
def ltr_click_models() -> list[type[ClickModel]]:
    """Offer `--model sdbn`."""
    return [SimplifiedDBN]
