"""How much of a score is ties, and what no score at all would be worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.metrics.metric import Metric
from owpc_ltr.metrics.ragged import IntVector, best_first, counts_by_query
from owpc_ltr.metrics.ranking import checked_offsets, checked_scores, tied_with_previous


def tied_share(scores: NDArray[Any], offsets: NDArray[Any]) -> float:
    """The share of documents that have the score of another document of their query."""
    offsets = checked_offsets(offsets, len(scores))
    scores = checked_scores(scores, offsets)
    tied = tied_with_previous(scores[best_first(scores, offsets)], offsets)
    shares = tied | np.append(tied[1:], False)[: len(tied)]
    return float(shares.mean()) if len(shares) else 0.0


def constant_queries(scores: NDArray[Any], offsets: NDArray[Any]) -> IntVector:
    """Which queries (counted from 0) have two documents or more, all with the same score."""
    offsets = checked_offsets(offsets, len(scores))
    scores = checked_scores(scores, offsets)
    lengths = np.diff(offsets)
    # Only documents that exist are compared, each with the first of its query.
    different = scores != np.repeat(scores[offsets[:-1][lengths > 0]], lengths[lengths > 0])
    return np.flatnonzero((counts_by_query(different, offsets) == 0) & (lengths > 1))


def zero_score_baseline(metric: Metric, labels: NDArray[Any], offsets: NDArray[Any]) -> float:
    """What a ranker that scores every document 0 is given: the floor of any comparison.

    Under `ties=file-order` it shows how much the order of the file alone is worth.
    """
    return metric.mean(np.zeros(len(labels)), labels, offsets)
