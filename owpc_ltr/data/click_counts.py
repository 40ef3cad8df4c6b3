"""ClickCounts: how often each document of a query was shown and clicked at each rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector

Codes = NDArray[np.int64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClickCounts:
    """All that click models learn from: counts by pair (a query and a document) and rank.

    `queries` and `documents` are texts, each once, in order; `people` says of each query how many
    asked it. Pair i is of `queries[pair_query[i]]` and `documents[pair_document[i]]`; pairs lie by
    query, then document. A row is a pair at a rank (from 1), rows lie by pair, then rank:

    - `shown`: how often it was there, in lists that somebody got;
    - `clicked`: in how many of these it was clicked, once each;
    - `reached`: in how many of these it stood at the last click or above it, or nobody clicked;
    - `last`: in how many of these it was the last that was clicked;
    - `value`: the sum of the values of its actions, the greatest of each list; a click's is 1.
    """

    queries: pa.StringArray
    documents: pa.StringArray
    people: Counts
    pair_query: Codes
    pair_document: Codes
    pair: Codes
    rank: Codes
    shown: Counts
    clicked: Counts
    reached: Counts
    last: Counts
    value: Vector

    @property
    def n_pairs(self) -> int:
        """Number of documents, over all queries."""
        return len(self.pair_query)

    @cached_property
    def n_ranks(self) -> int:
        """The lowest place at which anything was shown."""
        return int(self.rank.max(initial=1))

    def by_pair(self, values: NDArray[np.int64] | Vector) -> Vector:
        """Sums of what there is a row, a pair each."""
        found: Vector = np.bincount(self.pair, values, self.n_pairs).astype(np.float64)
        return found

    def by_rank(self, values: NDArray[np.int64] | Vector) -> Vector:
        """Sums of what there is a row, a rank each; the first is that of rank 1."""
        found: Vector = np.bincount(self.rank - 1, values, self.n_ranks).astype(np.float64)
        return found

    def take(self, rows: NDArray[np.int64]) -> ClickCounts:
        """Some of the rows, or all in another order; pairs stay as they are."""
        names = ("pair", "rank", "shown", "clicked", "reached", "last", "value")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})
