"""A metric as a sum over ranks, in the form that compiled loops evaluate again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.metrics.ranking import RankedQueries

Kind = Literal["discounted-gain", "relevant-found", "precisions", "first-relevant"]


@dataclass(frozen=True)
class RankSum:
    """What each query's documents are worth at each rank, and what their sum is divided by.

    `kind` is the sum: worth times the discount of the rank; the relevant documents found; the
    precisions at them; one over the rank of the first. `worth` has one entry a document (1 or 0
    where only relevance counts), `whole` one a query: the divisor, 0 where the metric is
    undefined. `discounts` are those of ranks 1 to the longest query's last.
    """

    kind: Kind
    worth: Vector
    whole: Vector
    discounts: Vector
    cutoff: int | None

    @classmethod
    def of_relevant(
        cls,
        kind: Kind,
        queries: RankedQueries,
        relevant_above: float,
        whole: Vector,
        cutoff: int | None,
    ) -> RankSum:
        """A sum in which only relevance counts, and ranks count as one over themselves."""
        worth = (queries.labels > relevant_above).astype(np.float64)
        longest = int(queries.lengths.max(initial=0))
        return cls(kind, worth, whole, np.divide(1.0, np.arange(1.0, longest + 1.0)), cutoff)
