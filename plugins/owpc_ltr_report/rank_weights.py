"""Rank weights: how strongly a loss pushes down an irrelevant document, by its rank."""

from __future__ import annotations

import numpy as np

from owpc_ltr.protocols import Loss

RANKS = 20
"""Irrelevant documents above the relevant one."""
_APART = 1e-3


def rank_weights(loss: Loss, ranks: int = RANKS) -> list[float]:
    """Shares of the pull on irrelevant documents that stand above one relevant document.

    They are the loss's own gradient at scores that hardly differ, so that ranks alone do: of OWPC
    with the hinge the weights α_j of its generator. Empty for a loss that pulls nothing there.
    """
    scores = np.asarray(-_APART / ranks * np.arange(ranks + 1), dtype=np.float64)
    labels = np.zeros(ranks + 1, dtype=np.float32)
    labels[-1] = 1.0
    _, gradient = loss.value_and_gradient(scores, labels, np.ones(ranks + 1, dtype=np.float32))
    pull = np.maximum(np.asarray(gradient[:ranks], dtype=np.float64), 0.0)
    total = pull.sum()
    if not (np.isfinite(total) and total > 0):
        return []
    return [float(share) for share in pull / total]
