"""Clicks by themselves, weighted by the inverse of how many users look at their rank.

What users would have clicked on had they looked at everything (Joachims, Swaminathan & Schnabel
2017): a click at a rank that one user in ten looks at counts for ten. Weights are clipped, for a
few clicks at the bottom would decide all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.errors import UsageError
from owpc_ltr.protocols import ClickFit
from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.judging import judged_pairs

_FEW = 0.2
"""Below this share of the clicks, the effective sample is small."""


@dataclass(frozen=True)
class Effective:
    """How many clicks there are, how many equal ones they are worth, how many were clipped.

    So many `queries` have clicks, and so many are `silent`: nobody clicked, and nothing is learnt.
    """

    clicks: int
    effective: float
    clipped: int
    queries: int = 0
    silent: int = 0

    @property
    def share(self) -> float:
        """The effective sample as a share of the clicks."""
        return self.effective / self.clicks if self.clicks else 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to doubt."""
        found = []
        if self.share < _FEW:
            found.append(
                f"{self.clicks:,} clicks, weighted, are worth {self.effective:,.0f} equal ones: a "
                "few of them decide; lower --clip, or collect more"
            )
        if self.silent > self.queries:
            found.append(
                f"{self.silent:,} of {self.queries + self.silent:,} queries have no click: nothing "
                "is learnt of them"
            )
        return tuple(found)


def weighted_clicks(
    behaviour: Behaviour, fit: ClickFit, clip: float = 10.0
) -> tuple[pa.Table, Effective]:
    """Grade 1 and a weight for what was clicked, grade 0 and weight 1 for the rest of the lists.

    A click at rank r weighs 1 / examination, `clip` at most; all of a document are added up, and
    divided by the mean of those that were clicked.
    """
    if not clip >= 1:
        raise UsageError(f"weights cannot be clipped at {clip:g}: give 1 or more")
    counts = behaviour.counts
    looked = fit.examination[np.minimum(counts.rank, len(fit.examination)) - 1]
    inverse = 1.0 / np.maximum(looked, 1e-12)
    each = np.minimum(inverse, clip)
    summed = counts.by_pair(counts.clicked * each)
    clicked = summed > 0
    mean = float(summed[clicked].mean()) if clicked.any() else 1.0
    total = float((counts.clicked * each).sum())
    squares = float((counts.clicked * each**2).sum())
    effective = Effective(
        int(counts.clicked.sum()),
        total**2 / squares if squares else 0.0,
        int(counts.clicked[inverse > clip].sum()),
        *_heard(counts, clicked),
    )
    columns = judged_pairs(behaviour, clicked.astype(np.float64))
    columns["weight"] = pa.array(np.where(clicked, summed / mean, 1.0))
    return pa.table(columns), effective


def _heard(counts: ClickCounts, clicked: NDArray[np.bool_]) -> tuple[int, int]:
    """How many queries have a click, and how many none."""
    heard = len(np.unique(counts.pair_query[clicked]))
    return heard, len(counts.queries) - heard
