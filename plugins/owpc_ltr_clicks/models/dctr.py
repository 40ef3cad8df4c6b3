"""The click-through rate of a document for a query, drawn to the mean of all where clicks are few.

DCTR of Craswell et al. (2008), with a beta prior. It ignores ranks, so that documents at high ranks
are overrated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.protocols import ClickFit, ClickModel
from owpc_ltr_clicks.grading import beta_prior, posterior_mean


@dataclass(frozen=True)
class DocumentClickThrough:
    """(clicks + α) / (impressions + α + β)."""

    name: ClassVar[str] = "dctr"

    def fit(self, counts: ClickCounts) -> ClickFit:
        """Clicks over impressions, as if users examined every rank."""
        clicks, shown = counts.by_pair(counts.clicked), counts.by_pair(counts.shown)
        prior = beta_prior(clicks, shown)
        rates = posterior_mean(clicks, shown, prior)
        return ClickFit(rates, shown, np.ones(counts.n_ranks), prior)


@hookimpl
def ltr_click_models() -> list[type[ClickModel]]:
    """Offer `--model dctr`."""
    return [DocumentClickThrough]
