"""The simplified dynamic Bayesian network (Chapelle & Zhang 2009): users read down to a last click.

Users examine the results down to their last click, or the whole list if they click on nothing. A
click satisfies the user, who then stops reading, with a probability of each document: the share of
its clicks that were the last of their lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists
from owpc_ltr.protocols import ClickFit, ClickModel
from owpc_ltr_clicks.grading import beta_prior, posterior_mean


@dataclass(frozen=True, eq=False, kw_only=True)
class CascadeFit(ClickFit):
    """Attractiveness, and `satisfaction`: the chance that a click on a pair is the last one."""

    satisfaction: Vector

    def conditional_click_probability(self, lists: ClickLists) -> Vector:
        """The chance that the user still reads, given the clicks above, times attractiveness.

        After a click on i users read on with chance 1 − satisfaction_i. Who passes over i may have
        stopped above it: read → read (1 − attractiveness_i) / (1 − read · attractiveness_i).
        """
        reads, chance = np.ones(lists.n_lists), np.empty(len(lists.pair))
        for rows in lists.by_place:
            pair, which = lists.pair[rows], lists.list[rows]
            attractive, read = self.attractiveness[pair], reads[which]
            chance[rows] = read * attractive
            passed = read * (1 - attractive) / np.maximum(1 - read * attractive, 1e-12)
            reads[which] = np.where(lists.clicked[rows], 1 - self.satisfaction[pair], passed)
        return chance


@dataclass(frozen=True)
class SimplifiedDBN:
    """(clicks + α) / (impressions at or above the last click + α + β)."""

    name: ClassVar[str] = "sdbn"

    def fit(self, counts: ClickCounts) -> ClickFit:
        """Clicks over the impressions that users reached."""
        clicks, reached = counts.by_pair(counts.clicked), counts.by_pair(counts.reached)
        prior = beta_prior(clicks, reached)
        attractive = posterior_mean(clicks, reached, prior)
        last = counts.by_pair(counts.last)
        return CascadeFit(
            attractive,
            reached,
            _examination(counts, attractive),
            prior,
            satisfaction=posterior_mean(last, clicks, beta_prior(last, clicks)),
        )


def _examination(counts: ClickCounts, attractive: Vector) -> Vector:
    """The share of each rank's attractiveness that is clicked: the share of users who reach it."""
    drawn = counts.by_rank(counts.shown * attractive[counts.pair])
    clicks = counts.by_rank(counts.clicked)
    share = np.divide(clicks, drawn, out=np.zeros_like(drawn), where=drawn > 0)
    return np.minimum(share, 1.0) if clicks.any() else np.ones_like(share)


@hookimpl
def ltr_click_models() -> list[type[ClickModel]]:
    """Offer `--model sdbn`."""
    return [SimplifiedDBN]
