"""What a reordering promises that explains its lists: terms that are all of what it did."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.protocols import ExplainingReordering, Reordering
from owpc_ltr.testing.promises import require

_TOLERANCE = 1e-6


def check_terms(name: str, reordering: Reordering, data: RankingDataset, base: Vector) -> None:
    """Check query by query that the terms' amounts add up, and what documents add to each.

    Nothing is checked of a reordering without `explain`. Raises AssertionError.
    """
    if not isinstance(reordering, ExplainingReordering):
        return
    for index in range(data.n_queries):
        rows = slice(int(data.offsets[index]), int(data.offsets[index + 1]))
        features, own = data.features[rows], base[rows]
        moved = reordering.rerank(features, own) - own
        terms = reordering.explain(features, own)
        total = np.zeros(len(own))
        for term in terms:
            require(
                np.shape(term.amounts) == own.shape,
                f"reranker '{name}' explains {len(own)} documents by amounts of shape "
                f"{np.shape(term.amounts)}",
            )
            total += term.amounts
            if term.by_document is not None:
                require(
                    np.shape(term.by_document) == (len(own), len(own))
                    and _close(np.sum(term.by_document, axis=1), term.amounts),
                    f"reranker '{name}' says by its term '{term.name}' what each document added, "
                    "and that does not add up to its amounts",
                )
        require(
            _close(total, moved),
            f"reranker '{name}' explains query {index} by terms that add up to {total}, and moved "
            f"its scores by {moved}",
        )


def _close(found: Vector, expected: Vector) -> bool:
    allowed = _TOLERANCE * max(float(np.abs(expected).max(initial=0.0)), 1e-9)
    return bool((np.abs(found - expected) <= allowed).all())
