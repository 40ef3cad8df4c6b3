"""ClickCounts: how often each document of a query was shown and clicked at each rank.

ClickLists: single lists, and what was clicked in each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.text import ShortRepr

Codes = NDArray[np.int64]
Counts = NDArray[np.int64]
_MOVED = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class ClickCounts(ShortRepr):
    """The input of click models: counts by pair (a query and a document) and rank.

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
        """The lowest rank at which anything was shown."""
        return int(self.rank.max(initial=1))

    def by_pair(self, values: NDArray[np.int64] | Vector) -> Vector:
        """The sums of a column by pair."""
        sums: Vector = np.bincount(self.pair, values, self.n_pairs).astype(np.float64)
        return sums

    def by_rank(self, values: NDArray[np.int64] | Vector) -> Vector:
        """The sums of a column by rank, from rank 1."""
        sums: Vector = np.bincount(self.rank - 1, values, self.n_ranks).astype(np.float64)
        return sums

    @cached_property
    def moved(self) -> float:
        """The share of impressions at which a document stood away from its most frequent rank."""
        most = np.zeros(self.n_pairs, np.int64)
        np.maximum.at(most, self.pair, self.shown)
        total = int(self.shown.sum())
        return 1.0 - float(most.sum()) / total if total else 0.0

    def take(self, rows: NDArray[np.int64]) -> ClickCounts:
        """Some of the rows, or all in another order; pairs stay as they are."""
        names = ("pair", "rank", "shown", "clicked", "reached", "last", "value")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def ranks_vary(counts: ClickCounts) -> bool:
    """Whether documents change ranks, so that clicks on the same document can be compared by rank.

    They do if at least one impression in a hundred is not at its document's usual rank, or if there
    is only one rank.
    """
    return counts.n_ranks == 1 or counts.moved >= _MOVED


@dataclass(frozen=True, eq=False, repr=False)
class ClickLists(ShortRepr):
    """Lists that were shown: a row is a result, rows lie by list, then rank, from 1.

    `list` numbers the lists from 0; `pair` is as in the counts; `clicked` says whether it was.
    """

    list: Codes
    pair: Codes
    rank: Codes
    clicked: NDArray[np.bool_]

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return int(self.list[-1]) + 1 if len(self.list) else 0

    @cached_property
    def by_place(self) -> tuple[Codes, ...]:
        """The rows of the first results of all lists, then those of the second ones, and so on."""
        index = np.arange(len(self.list)) - np.searchsorted(self.list, self.list)
        order = np.argsort(index, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(index))[:-1])) if len(index) else ()
