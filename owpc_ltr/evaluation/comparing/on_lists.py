"""Rankers by the lists that they make of a whole index, most of whose documents nobody judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from owpc_ltr.evaluation.comparing.on_data import RankerValues, top_of
from owpc_ltr.evaluation.live_lists import LiveLists, within_window
from owpc_ltr.metrics import Metric


def measure_lists(lists: LiveLists, metrics: Sequence[Metric], unjudged: str) -> RankerValues:
    """Each metric of the lists, as far as they go. Raises UsageError for one that looks further."""
    values, shares = [], []
    for metric in metrics:
        seen = within_window(metric, lists.depth)
        share = 1.0 - lists.judged_at(top_of(seen) or lists.depth)
        of_metric = (
            lists.condensed(seen) if unjudged == "condensed" else lists.unjudged_irrelevant(seen)
        )
        if unjudged == "skip":
            of_metric = np.where(share > 0, np.nan, of_metric)
        values.append(of_metric)
        shares.append(share)
    return RankerValues(values, shares)
