"""Tied scores: what they may count, the orders that this stands for, and its words.

`expected` is the mean over all orders of the tied documents: a metric reckons with runs of them at
once (McSherry & Najork 2008), and no order is chosen.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.metrics.ragged import IntVector, best_first

Ties = Literal["expected", "pessimistic", "optimistic", "file-order"]


def order_by_label(
    ties: Ties, scores: NDArray[Any], labels: NDArray[Any], offsets: IntVector
) -> IntVector:
    """Positions of the documents by score; tied ones by label, as the policy says."""
    # The second sort is stable: among equal scores the order of the first one stays.
    order = best_first(labels if ties == "optimistic" else -labels, offsets)
    return order[best_first(scores[order], offsets)]


def tied_with_previous(ranked_scores: NDArray[Any], offsets: IntVector) -> NDArray[np.bool_]:
    """Whether each document, in ranked order, has the score of the one above it in its query."""
    tied = np.zeros(len(ranked_scores), dtype=np.bool_)
    tied[1:] = ranked_scores[1:] == ranked_scores[:-1]
    starts = offsets[:-1]
    tied[starts[starts < len(tied)]] = False
    return tied


def ties_words(ties: Ties) -> str:
    """What tied scores count."""
    return {
        "expected": "tied scores count their expected value",
        "pessimistic": "tied scores count in the worst order",
        "optimistic": "tied scores count in the best order",
        "file-order": "tied scores count in file order",
    }[ties]
