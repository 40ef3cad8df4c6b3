"""The share of misordered pairs, for any number of distinct labels, without visiting pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.metrics import Metric, RankedQueries
from owpc_ltr.metrics.metric import Empty, divide_defined


@dataclass(frozen=True)
class PairwiseError(Metric):
    """pairs of different labels in the wrong order, over all such pairs (Burges 2006).

    A pair whose better document was not retrieved is in the wrong order.
    A query without pairs would lower a mean of errors: it is left out unless asked for.
    """

    name: ClassVar[str] = "pairwise-error"
    cutoff_use: ClassVar[Literal["needed", "optional", "none"]] = "none"
    higher_is_better: ClassVar[bool] = False
    defined_on: ClassVar[str] = "pairs to compare"

    empty: Empty = field(default="skip", kw_only=True)

    @property
    def graded(self) -> bool:
        """Whether every grade counts."""
        return True

    def values(self, queries: RankedQueries) -> Vector:
        """Misordered pairs over pairs; a tied pair is wrong in half of the orders."""
        ranking = queries.whole_ranking(self.ties)
        levels, codes = np.unique(ranking.labels, return_inverse=True)
        wrong = np.zeros(queries.n_queries, dtype=np.int64)
        pairs = np.zeros(queries.n_queries, dtype=np.int64)
        tree = np.zeros(len(levels) + 1, dtype=np.int64)
        _count_pairs(codes + 1, ranking.first, ranking.query, ranking.size, tree, wrong, pairs)
        return divide_defined(wrong.astype(np.float64), 2 * pairs)

    @property
    def meaning(self) -> str:
        """Which pairs."""
        return "pairs of different labels in the wrong order, over all such pairs"


@compiled
def _count_pairs(
    codes: IntVector,
    first: IntVector,
    query: IntVector,
    size: IntVector,
    tree: IntVector,
    wrong: IntVector,
    pairs: IntVector,
) -> None:
    """Twice the misordered pairs, and the pairs of different labels, of each query.

    `codes` are the ranks of the labels, from 1 on, of the documents best first; the runs are those
    of a `Ranking`. `tree` counts the documents of each code that a query has shown so far, as sums
    that double in length (Fenwick 1994): all 0 before and after each query.
    """
    start = 0
    for run in range(len(first)):
        begin, end = first[run], first[run] + size[run]
        # Before its run is shown a document counts those above it, after it those tied with it as
        # well: each pair of different labels in a run is counted once of two.
        for document in range(begin, end):
            wrong[query[run]] += _below(tree, codes[document])
        for document in range(begin, end):
            _add(tree, codes[document], 1)
        for document in range(begin, end):
            wrong[query[run]] += _below(tree, codes[document])
        if run + 1 == len(first) or query[run + 1] != query[run]:
            for document in range(start, end):
                pairs[query[run]] += _below(tree, codes[document])
            for document in range(start, end):
                _add(tree, codes[document], -1)
            start = end


@compiled
def _below(tree: IntVector, code: int) -> int:
    """How many documents that were shown have a lower code."""
    count, place = 0, code - 1
    while place > 0:
        count += tree[place]
        place &= place - 1
    return count


@compiled
def _add(tree: IntVector, code: int, count: int) -> None:
    place = code
    while place < len(tree):
        tree[place] += count
        place += place & -place


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric pairwise-error`."""
    return [PairwiseError]
