"""Documents in the order of their scores, with the runs that share a score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput
from owpc_ltr.metrics.ragged import IntVector, best_first, counts_by_query, sorted_down
from owpc_ltr.metrics.ties import Ties, order_by_label, tied_with_previous

if TYPE_CHECKING:
    from owpc_ltr.arrays import Labels


@dataclass(frozen=True)
class Ranking:
    """The documents of every query, best first, cut into runs.

    A run is the documents that share a score where ties count by their expected value, and one
    document otherwise. `labels` has one entry a document, in ranked order; the other arrays
    have one a run: the position of its first document in `labels`, its query, how many
    documents of the query are ranked above it, and how many it has.
    """

    labels: Labels
    first: IntVector
    query: IntVector
    above: IntVector
    size: IntVector

    @property
    def tied(self) -> bool:
        """Whether any run has several documents."""
        return len(self.first) < len(self.labels)

    def run_sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum over each run of a number per document."""
        return np.add.reduceat(values, self.first) if self.tied else values

    def head(self, cutoff: int | None) -> Ranking:
        """Only the runs that begin within the first `cutoff` ranks of their query."""
        return self if cutoff is None else self.only(self.above < cutoff)

    def only(self, kept: NDArray[np.bool_]) -> Ranking:
        """Only these runs, below which there are none of the same query."""
        size = self.size[kept]
        labels = self.labels[np.repeat(kept, self.size) if self.tied else kept]
        return Ranking(labels, np.cumsum(size) - size, self.query[kept], self.above[kept], size)


class RankedQueries:
    """Scores and labels of whole queries; every metric reads the same ordering of them.

    `scores` and `labels` have one entry a document, `offsets` one more than there are queries.
    `retrieved` marks the documents that were retrieved, without it all of them: the others have no
    rank, whatever their scores, and count as relevant or not all the same (`ideal`, `n_relevant`).
    Raises BadInput where the arrays do not fit each other, or hold what cannot be ranked.
    """

    def __init__(
        self,
        scores: NDArray[Any],
        labels: NDArray[Any],
        offsets: NDArray[Any],
        retrieved: NDArray[np.bool_] | None = None,
    ) -> None:
        """Check the arrays; nothing is sorted yet."""
        self.offsets = checked_offsets(offsets, len(labels))
        self.labels = _checked_labels(labels, self.offsets)
        self.retrieved = None if retrieved is None or retrieved.all() else retrieved
        if self.retrieved is None:
            self.scores = checked_scores(scores, self.offsets)
        else:
            own = checked_scores(np.where(self.retrieved, scores, 0.0), self.offsets)
            self.scores = _above_the_others(own, self.labels, self.retrieved)
        self.lengths = np.diff(self.offsets)
        self._rankings: dict[Ties, Ranking] = {}

    @property
    def n_queries(self) -> int:
        """How many queries there are, those without documents included."""
        return len(self.lengths)

    def ranking(self, ties: Ties) -> Ranking:
        """The documents retrieved, ranked under a tie policy.

        They are sorted once however many metrics ask for it.
        """
        if not self._tied.any():
            ties = "file-order"
        if ties not in self._rankings:
            ranking = self._rank(ties)
            if self.retrieved is not None:
                counts = counts_by_query(self.retrieved, self.offsets)
                ranking = ranking.only(ranking.above < counts[ranking.query])
            self._rankings[ties] = ranking
        return self._rankings[ties]

    def whole_ranking(self, ties: Ties) -> Ranking:
        """The same, and below it the documents that were not retrieved, the best ones last."""
        return self.ranking(ties) if self.retrieved is None else self._rank(ties)

    @cached_property
    def ideal(self) -> Ranking:
        """The ranking by the labels themselves."""
        return self._single_runs(sorted_down(self.labels, self.offsets))

    def n_relevant(self, relevant_above: float) -> IntVector:
        """How many documents of each query have a label above `relevant_above`."""
        return counts_by_query(self.labels > relevant_above, self.offsets)

    @cached_property
    def _order(self) -> IntVector:
        return best_first(self.scores, self.offsets)

    @cached_property
    def _tied(self) -> NDArray[np.bool_]:
        """Whether each document in ranked order has the score of the one just above it."""
        return tied_with_previous(self.scores[self._order], self.offsets)

    @cached_property
    def _query(self) -> IntVector:
        return np.repeat(np.arange(self.n_queries), self.lengths)

    @cached_property
    def _above(self) -> IntVector:
        return np.arange(len(self.labels)) - np.repeat(self.offsets[:-1], self.lengths)

    def _rank(self, ties: Ties) -> Ranking:
        if ties == "expected":
            first = np.flatnonzero(~self._tied)
            size = np.diff(first, append=len(self.labels))
            labels = self.labels[self._order]
            return Ranking(labels, first, self._query[first], self._above[first], size)
        order = self._order
        if ties != "file-order":
            order = order_by_label(ties, self.scores, self.labels, self.offsets)
        return self._single_runs(self.labels[order])

    def _single_runs(self, labels: Labels) -> Ranking:
        first, size = np.arange(len(labels)), np.ones(len(labels), dtype=np.int64)
        return Ranking(labels, first, self._query, self._above, size)


def checked_offsets(offsets: NDArray[Any], n_documents: int) -> IntVector:
    """The offsets as int64, or BadInput."""
    offsets = np.asarray(offsets, dtype=np.int64)
    if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise BadInput("query offsets must begin with 0 and never decrease: one more than queries")
    if offsets[-1] != n_documents:
        raise BadInput(
            f"query offsets end at {offsets[-1]} but there are {n_documents} documents: "
            "the last offset is the number of documents"
        )
    return offsets


def checked_scores(scores: NDArray[Any], offsets: IntVector) -> NDArray[Any]:
    """The scores as floats, one a document and none of them NaN, or BadInput."""
    scores = np.asarray(scores)
    if scores.dtype not in (np.float32, np.float64):
        scores = scores.astype(np.float64)
    if scores.shape != (offsets[-1],):
        raise BadInput(
            f"scores have shape {scores.shape} but there are {offsets[-1]} documents: "
            "give one score a document"
        )
    missing = np.isnan(scores)
    if missing.any():
        query = _query_at(offsets, int(missing.argmax()))
        raise BadInput(
            f"query {query} (counted from 0) has a score that is NaN, which has no place in an "
            f"order ({missing.sum()} such scores in all): mend the model or its features"
        )
    return scores


def _above_the_others(
    scores: NDArray[Any], labels: Labels, retrieved: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Scores in the order of the documents retrieved, below these the others, by falling label."""
    own = np.empty(len(labels))
    own[retrieved] = np.unique(scores[retrieved], return_inverse=True)[1]
    own[~retrieved] = -1.0 - np.unique(labels[~retrieved], return_inverse=True)[1]
    return own


def _checked_labels(labels: NDArray[Any], offsets: IntVector) -> Labels:
    labels = np.asarray(labels, dtype=np.float32)
    if labels.ndim != 1:
        raise BadInput(f"labels have shape {labels.shape}: give one label a document")
    strange = ~np.isfinite(labels)
    if strange.any():
        place = int(strange.argmax())
        raise BadInput(
            f"query {_query_at(offsets, place)} (counted from 0) has the label {labels[place]}: "
            "labels must be finite numbers"
        )
    return labels


def _query_at(offsets: IntVector, document: int) -> int:
    return int(np.searchsorted(offsets, document, side="right")) - 1
