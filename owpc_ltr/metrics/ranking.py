"""Queries ranked by scores: sorted once, ties found, sums over ranks, and rank agreement (tau-b).

Where ties count by their expected value (`expected`), a run of t tied documents below a others
stands for all t! orders of it at once. McSherry & Najork (ECIR 2008) give the closed forms for
precision, recall, average precision, reciprocal rank and NDCG. A run of one document is the usual
formula.

Queries of many lengths are cut into rectangles of equal length, without padding. There are at most
√(2n) distinct lengths among rows that hold n entries together, so a loop over lengths is short
whatever the data are, and everything inside it is one NumPy call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import IntVector, Labels, Vector
from owpc_ltr.compiling import SMALL, compiled
from owpc_ltr.errors import BadInput
from owpc_ltr.kernels.kernel import sort_ascending
from owpc_ltr.text import ShortRepr

Ties = Literal["expected", "file-order"]
Gain = Literal["exponential", "linear"]
Empty = Literal["zero", "skip", "one"]
Short = Literal["normal", "zero"]
_CELLS = 1 << 20
_CELLS_A_SCORE = 16
"""How many numbers NumPy is done with in the time in which it sorts one score."""
_LARGEST_EXPONENT = 1000.0


@dataclass(frozen=True, repr=False)
class Ranking(ShortRepr):
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
            scores = checked_scores(np.where(self.retrieved, scores, 0.0), self.offsets)
            self.scores = _above_the_others(scores, self.labels, self.retrieved)
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
        return self._single_runs(self.labels[best_first(self.labels, self.offsets)])

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
        return self._single_runs(self.labels[self._order])

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
            f"order ({missing.sum()} such scores in all): fix the model or its features"
        )
    return scores


def tied_with_previous(ranked_scores: NDArray[Any], offsets: IntVector) -> NDArray[np.bool_]:
    """Whether each document, in ranked order, has the score of the one above it in its query."""
    tied = np.zeros(len(ranked_scores), dtype=np.bool_)
    tied[1:] = ranked_scores[1:] == ranked_scores[:-1]
    starts = offsets[:-1]
    tied[starts[starts < len(tied)]] = False
    return tied


def ties_words(ties: Ties) -> str:
    """What tied scores count."""
    return f"tied scores count {'their expected value' if ties == 'expected' else 'in file order'}"


def rectangles(starts: IntVector, lengths: IntVector) -> Iterator[tuple[IntVector, IntVector]]:
    """Rows of equal length, as (which rows, positions of their entries: one line a row).

    Row i is the run of `lengths[i]` entries from `starts[i]` on. A rectangle has about a
    million entries at most, or one row; rows of no entries are left out.
    """
    by_length = np.argsort(lengths, kind="stable")
    cuts = np.flatnonzero(np.diff(lengths[by_length])) + 1
    for rows in np.split(by_length, cuts):
        length = int(lengths[rows[0]]) if len(rows) else 0
        if length == 0:
            continue
        within = np.arange(length)
        step = max(1, _CELLS // length)
        for first in range(0, len(rows), step):
            block = rows[first : first + step]
            yield block, starts[block, None] + within


def best_first(scores: NDArray[Any], offsets: IntVector) -> IntVector:
    """Positions of the documents, each query's by decreasing score, equal ones as they stand."""
    if _CELLS_A_SCORE * len(scores) > SMALL:
        return ordered_down(np.asarray(scores, dtype=np.float64), offsets)
    order = np.empty(len(scores), dtype=np.int64)
    for _, positions in rectangles(offsets[:-1], np.diff(offsets)):
        # Stable, so that the order of equal scores is the same on every machine.
        ranked = np.argsort(-scores[positions], axis=1, kind="stable")
        order[positions] = positions[:, :1] + ranked
    return order


def counts_by_query(counts: NDArray[Any], offsets: IntVector) -> IntVector:
    """The sum of the whole numbers, or marks, of each query's documents; exact."""
    running = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=running[1:])
    return running[offsets[1:]] - running[offsets[:-1]]


def sums_by_query(query: IntVector, values: Vector, n_queries: int) -> Vector:
    """The sum of the values of each query."""
    sums: Vector = np.bincount(query, weights=values, minlength=n_queries).astype(np.float64)
    return sums


def divide_defined(numerators: NDArray[Any], denominators: NDArray[Any]) -> Vector:
    """The quotients; NaN, the mark of an undefined value, where the denominator is 0."""
    quotients: Vector = np.full(len(denominators), np.nan)
    np.divide(numerators, denominators, out=quotients, where=denominators > 0)
    return quotients


def ordered_down(scores: Vector, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of the documents, each query's by decreasing score, equal ones as they stand."""
    order = np.arange(len(scores))
    _order_down(-scores, offsets, order)
    return order


def gains(labels: Labels, gain: Gain, metric: object) -> Vector:
    """What a document of each label is worth: 2^label − 1, or the label itself.

    `metric` is who asks, as the refusal of a label names it.
    """
    if len(labels) and labels.min() < 0:
        raise BadInput(
            f"{metric} cannot count the label {labels.min():g}: labels must be 0 or more"
        )
    if gain == "linear":
        return labels.astype(np.float64)
    if len(labels) and labels.max() > _LARGEST_EXPONENT:
        raise BadInput(
            f"{metric} cannot count the label {labels.max():g}: 2^label is beyond a float; "
            "say gain=linear"
        )
    exponential: Vector = np.exp2(labels.astype(np.float64)) - 1.0
    return exponential


def check_scale(labels: Labels, max_grade: float, metric: object) -> None:
    """Refuse labels beyond a scale from 0 to `max_grade`."""
    if len(labels) and not 0 <= labels.min() <= labels.max() <= max_grade:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise BadInput(
            f"{metric} cannot count the label {wrong:g}: labels must lie between 0 and "
            f"{max_grade:g}; set the top of the scale with max-grade="
        )


def discounted_gain(
    ranking: Ranking,
    n_queries: int,
    cutoff: int | None,
    gain: Callable[[Labels], Vector],
    discounts: Callable[[int], Vector],
) -> Vector:
    """Σ gain(label) · discount(rank) of each query; `discounts(n)` are those of ranks 1 to n."""
    ranking = ranking.head(cutoff)
    gained = ranking.run_sums(gain(ranking.labels))
    end = ranking.above + within(ranking.above, ranking.size, cutoff)
    discount = discounts(int(end.max(initial=0)))
    if not ranking.tied:
        return sums_by_query(ranking.query, gained * discount[ranking.above], n_queries)
    running = np.concatenate([[0.0], np.cumsum(discount)])
    mean_gain = gained / ranking.size
    # Every rank of a run holds each of its documents equally often.
    parts = mean_gain * (running[end] - running[ranking.above])
    return sums_by_query(ranking.query, parts, n_queries)


def relevant_found(
    queries: RankedQueries, ties: Ties, relevant_above: float, cutoff: int | None
) -> Vector:
    """Expected number of relevant documents among the first `cutoff` of each query."""
    ranking = queries.ranking(ties).head(cutoff)
    relevant = ranking.run_sums((ranking.labels > relevant_above).astype(np.float64))
    share = within(ranking.above, ranking.size, cutoff) / ranking.size
    return sums_by_query(ranking.query, relevant * share, queries.n_queries)


def relevant_of_runs(ranking: Ranking, relevant_above: float) -> IntVector:
    """How many documents of each run are relevant."""
    relevant: IntVector = ranking.run_sums((ranking.labels > relevant_above).astype(np.int64))
    return relevant


def within(above: IntVector, size: IntVector, cutoff: int | None) -> IntVector:
    """How many places of each run lie within the cutoff."""
    return size if cutoff is None else np.minimum(size, cutoff - above)


def relevant_words(relevant_above: float) -> str:
    """Which documents are relevant."""
    return f"(label above {relevant_above:g})"


def cutoff_words(cutoff: int | None) -> str:
    """How far down a metric looks, to follow what it sums."""
    return "" if cutoff is None else f" within the first {cutoff} ranks"


def gain_words(gain: Gain) -> str:
    """What `gains` gives."""
    return "2^label − 1" if gain == "exponential" else "label"


def empty_words(empty: Empty, lacking: str) -> str:
    """What becomes of the queries without what a metric is defined on."""
    counted = {"zero": "count 0", "one": "count 1", "skip": "are left out"}[empty]
    return f"queries without {lacking} {counted}"


def _above_the_others(
    scores: NDArray[Any], labels: Labels, retrieved: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Scores in the order of the documents retrieved, below these the others, by falling label."""
    ranks = np.empty(len(labels))
    ranks[retrieved] = np.unique(scores[retrieved], return_inverse=True)[1]
    ranks[~retrieved] = -1.0 - np.unique(labels[~retrieved], return_inverse=True)[1]
    return ranks


def _checked_labels(labels: NDArray[Any], offsets: IntVector) -> Labels:
    labels = np.asarray(labels, dtype=np.float32)
    if labels.ndim != 1:
        raise BadInput(f"labels have shape {labels.shape}: give one label a document")
    malformed = ~np.isfinite(labels)
    if malformed.any():
        place = int(malformed.argmax())
        raise BadInput(
            f"query {_query_at(offsets, place)} (counted from 0) has the label {labels[place]}: "
            "labels must be finite numbers"
        )
    return labels


def _query_at(offsets: IntVector, document: int) -> int:
    return int(np.searchsorted(offsets, document, side="right")) - 1


@compiled
def _order_down(negated: Any, offsets: Any, order: Any) -> None:
    for query in range(len(offsets) - 1):
        start, end = offsets[query], offsets[query + 1]
        order[start:end] -= start
        sort_ascending(negated[start:end], order[start:end])
        order[start:end] += start


class PairAgreement(NamedTuple):
    """Pairs ordered the other way, pairs tied in one only, and tau-b; None where all is tied."""

    swapped: int
    ties_broken: int
    tau: float | None


def pair_agreement(one: Vector, other: Vector) -> PairAgreement:
    """Compare the order of every two documents; a score that is no number ties with all.

    >>> pair_agreement(np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0]))
    PairAgreement(swapped=3, ties_broken=0, tau=-1.0)
    """
    same, swapped, ordered, other_ordered = map(int, _pairs(one, other))
    product = ordered * other_ordered
    return PairAgreement(
        swapped,
        ordered + other_ordered - 2 * (same + swapped),
        float((same - swapped) / np.sqrt(product)) if product else None,
    )


@compiled
def _pairs(one: Any, other: Any) -> Any:
    """How many pairs both order alike, both otherwise, the one at all, and the other at all."""
    same, swapped, ordered, other_ordered = 0, 0, 0, 0
    for i in range(len(one)):
        for j in range(i):
            a = int(one[i] > one[j]) - int(one[i] < one[j])
            b = int(other[i] > other[j]) - int(other[i] < other[j])
            same += a * b == 1
            swapped += a * b == -1
            ordered += a * a
            other_ordered += b * b
    return same, swapped, ordered, other_ordered
