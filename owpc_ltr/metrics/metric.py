"""Metrics, and queries ranked by scores, which they measure.

A metric: a measure with all its conventions, written and read as `ndcg@10,empty=skip`. The text is
`NAME[@CUTOFF][,OPTION=VALUE]…`, its name that of a plugin.

Queries ranked by scores: sorted once, ties found, sums over ranks, and rank agreement (tau-b).
Where ties count by their expected value (`expected`), a run of t tied documents below a others
stands for all t! orders of it at once. McSherry & Najork (ECIR 2008) give the closed forms for
precision, recall, average precision, reciprocal rank and NDCG. A run of one document is the usual
formula.

Queries of many lengths are cut into rectangles of equal length, without padding. There are at most
√(2n) distinct lengths among rows that hold n entries together, so a loop over lengths is short
whatever the data are, and everything inside it is one NumPy call.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import IntVector, Labels, Vector
from owpc_ltr.compiling import SMALL, compiled
from owpc_ltr.errors import BadInput, PluginError, UsageError
from owpc_ltr.host.registry import Plugin, Registry, installed
from owpc_ltr.host.settings import check_settings, convert
from owpc_ltr.kernels.kernel import sort_ascending
from owpc_ltr.names import did_you_mean
from owpc_ltr.text import ShortRepr, printable

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
def _order_down(negated: Vector, offsets: IntVector, order: IntVector) -> None:
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


def pair_agreement(scores: Vector, other: Vector) -> PairAgreement:
    """Compare the order of every two documents; a score that is no number ties with all.

    >>> pair_agreement(np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0]))
    PairAgreement(swapped=3, ties_broken=0, tau=-1.0)
    """
    same, swapped, ordered, other_ordered = map(int, _pairs(scores, other))
    product = ordered * other_ordered
    return PairAgreement(
        swapped,
        ordered + other_ordered - 2 * (same + swapped),
        float((same - swapped) / np.sqrt(product)) if product else None,
    )


@compiled
def _pairs(scores: Vector, other: Vector) -> tuple[int, int, int, int]:
    """How many pairs both order alike, both otherwise, the one at all, and the other at all."""
    same, swapped, ordered, other_ordered = 0, 0, 0, 0
    for i in range(len(scores)):
        for j in range(i):
            a = int(scores[i] > scores[j]) - int(scores[i] < scores[j])
            b = int(other[i] > other[j]) - int(other[i] < other[j])
            same += a * b == 1
            swapped += a * b == -1
            ordered += a * a
            other_ordered += b * b
    return same, swapped, ordered, other_ordered


Kind = Literal["discounted-gain", "relevant-found", "precisions", "first-relevant"]


@dataclass(frozen=True)
class Metric(ABC):
    """A measure of rankings and its conventions; `parse_metric` makes one from its text.

    A metric extends this class as a frozen dataclass: `name`, `values`, `meaning`, and fields for
    options of its own, each with a default. `relevant_above: float = 0.0` is then the option
    `relevant-above=`; what a Literal type lists, and that a float is finite, is checked here.

    `ties`: what tied scores count (`expected` is the mean over all orders of the tied documents;
    `file-order` matches published scripts, and flatters where a file lists relevant documents
    first). `empty`: what a query counts on which the metric is undefined, mostly one without
    relevant documents. `short=zero`: a query with fewer documents than `cutoff` counts 0, as in
    LETOR 4.0's script.

    Raises UsageError for what does not fit the metric.
    """

    name: ClassVar[str]
    cutoff_use: ClassVar[Literal["needed", "optional", "none"]] = "optional"
    higher_is_better: ClassVar[bool] = True
    """False for an error."""
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """Between what every value lies."""
    swaps_help: ClassVar[bool] = True
    """Whether moving a document above one of lower label never makes a ranking worse."""
    defined_on: ClassVar[str] = "relevant documents"
    """What a query must have, in words."""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """Spellings of their own: `{"letor": {"discount": "letor"}}` makes `ndcg-letor` of `ndcg`."""

    cutoff: int | None = None
    ties: Ties = field(default="expected", kw_only=True)
    empty: Empty = field(default="zero", kw_only=True)
    short: Short = field(default="normal", kw_only=True)

    @abstractmethod
    def values(self, queries: RankedQueries) -> Vector:
        """The value of each query, from `queries.ranking(self.ties)`; NaN where it is undefined."""

    @property
    def graded(self) -> bool:
        """Whether more than two grades count; else a document is relevant, or it is not."""
        return False

    @property
    def span(self) -> float:
        """The largest difference that two rankings of a query can have."""
        low, high = self.value_range
        return high - low

    @property
    @abstractmethod
    def meaning(self) -> str:
        """What is measured, in words that name every option of the metric's own, and the cutoff."""

    def rank_sum(self, queries: RankedQueries) -> RankSum | None:  # noqa: ARG002 - for others
        """The metric as a sum that compiled loops evaluate many times; None where it is none."""
        return None

    def __post_init__(self) -> None:
        """Refuse what does not fit the metric."""
        _check_choices(self)
        check_settings(self)
        _check_finite(self)
        _check_cutoff(self)
        if self.short != "normal" and self.cutoff is None:
            raise UsageError(
                f"'{self.name}' has no use for short={self.short}; its options: "
                + ", ".join(self.options)
            )

    @property
    def options(self) -> tuple[str, ...]:
        """The options that the metric has a use for, as its text spells them."""
        names = option_fields(type(self))
        return tuple(setting_name(name) for name in names if self.cutoff or name != "short")

    @property
    def convention(self) -> str:
        """One line that says what exactly is measured, to be printed beside every figure.

        >>> from owpc_ltr.metrics import parse_metric
        >>> print(parse_metric("mrr").convention)
        mrr: 1/rank of the first relevant document (label above 0); tied scores count their \
expected value; queries without relevant documents count 0
        """
        parts = [
            f"{self}: {self.meaning}",
            ties_words(self.ties),
            empty_words(self.empty, self.defined_on),
        ]
        if self.short == "zero":
            parts.append(f"queries with fewer than {self.cutoff} documents count 0")
        return "; ".join(parts)

    def __str__(self) -> str:
        """The shortest text that `parse_metric` reads as this metric."""
        suffix, preset = _variant(self)
        text = f"{self.name}-{suffix}" if suffix else self.name
        if self.cutoff is not None:
            text += f"@{self.cutoff}"
        usual = {option.name: option.default for option in fields(self)} | dict(preset)
        for name in option_fields(type(self)):
            value = getattr(self, name)
            if value != usual[name]:
                text += f",{setting_name(name)}={str(value).removesuffix('.0')}"
        return text

    def per_query(
        self, scores: NDArray[Any], labels: NDArray[Any], offsets: NDArray[Any]
    ) -> Vector:
        """The value of each query; NaN for the queries that `empty=skip` leaves out.

        `scores` and `labels` have one entry a document, queries in one piece each, `offsets` one
        entry more than there are queries. Raises BadInput naming the query whose score is NaN.
        """
        return self.of(RankedQueries(scores, labels, offsets))

    def mean(
        self,
        scores: NDArray[Any],
        labels: NDArray[Any],
        offsets: NDArray[Any],
        weights: Vector | None = None,
    ) -> float:
        """The mean over the queries that count; `weights`, one a query, weigh them."""
        return self.average(self.per_query(scores, labels, offsets), weights)

    def of(self, queries: RankedQueries) -> Vector:
        """The value of each query of a ranking that other metrics may share."""
        values = self.values(queries)
        if np.shape(values) != (queries.n_queries,):
            raise PluginError(
                f"metric '{self.name}' gave values of shape {np.shape(values)} for "
                f"{queries.n_queries} queries: return one number a query"
            )
        undefined = np.isnan(values)
        if self.empty != "skip":
            values = np.where(undefined, 1.0 if self.empty == "one" else 0.0, values)
        if self.short == "zero" and self.cutoff is not None:
            values[(queries.lengths < self.cutoff) & ~np.isnan(values)] = 0.0
        return values

    def average(self, values: Vector, weights: Vector | None = None) -> float:
        """The mean of per-query values, without the queries that `empty=skip` leaves out.

        A query of weight k counts as k queries.
        """
        counts = ~np.isnan(values)
        if weights is not None:
            counts &= weights > 0
        counted = values[counts]
        if not len(counted):
            raise BadInput(
                f"{self} has no mean: none of the {len(values)} queries counts; "
                "give judged queries with relevant documents, or say empty=zero"
            )
        if weights is None:
            return float(counted.mean())
        weights = weights[counts]
        return float((weights * counted).sum() / weights.sum())


@dataclass(frozen=True, repr=False)
class RankSum(ShortRepr):
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


def parse_metric(metric: str | Metric | type[Metric], registry: Registry | None = None) -> Metric:
    """Read a metric from its name, cutoff and options; a `Metric` is what it is, or its class.

    Names are those of the registry's metrics, or without one of what is installed, and only the
    metric that is asked for is imported.

    >>> parse_metric("ndcg@10,ties=file-order").ties
    'file-order'
    >>> str(parse_metric("ndcg-letor@3, empty=skip"))
    'ndcg-letor@3,empty=skip'

    Raises UsageError naming the part that is not known, and what is.
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, type) and issubclass(metric, Metric):
        return metric()
    if not isinstance(metric, str):
        raise UsageError(f"{metric!r} is not a metric: give a name, as 'ndcg@10', or a Metric")
    head, *options = [part.strip() for part in metric.strip().lower().split(",")]
    name, at, cutoff = head.partition("@")
    if at and not (cutoff.isascii() and cutoff.isdigit()):
        raise UsageError(f"'{head}' is not a metric: write a whole number after @, as in {name}@10")
    cls, preset = _find(name, installed() if registry is None else registry)
    plain = cls(cutoff=int(cutoff) if at else None, **preset)
    values = dict(_read_option(plain, option) for option in options)
    if len(values) < len(options):
        raise UsageError(f"'{metric}' names an option twice: give each one value")
    try:
        return replace(plain, **values)
    except ValueError as error:
        raise UsageError(f"'{name}' refuses its options: {error}") from error


GivenMetric = str | Metric | type[Metric]
"""What `parse_metric` reads."""
GivenMetrics = GivenMetric | Sequence[GivenMetric] | Set[GivenMetric]


def listed_metrics(metrics: GivenMetrics) -> list[GivenMetric]:
    """The metrics of one or several: texts may name some between commas, metrics stay.

    An option (`NAME=VALUE`) belongs to the metric before it.

    >>> listed_metrics(["ndcg@10,gain=linear,map", "mrr"])
    ['ndcg@10,gain=linear', 'map', 'mrr']
    """
    several = metrics if isinstance(metrics, Sequence | Set) else [metrics]
    listed: list[GivenMetric] = []
    for metric in [metrics] if isinstance(metrics, str) else several:
        if not isinstance(metric, str):
            listed.append(metric)
            continue
        for number, piece in enumerate(metric.split(",")):
            if number and "=" in piece:
                listed[-1] = f"{listed[-1]},{piece}"
            else:
                listed.append(piece)
    return listed


def parse_metrics(metrics: GivenMetrics, registry: Registry | None = None) -> tuple[Metric, ...]:
    """The metrics that `listed_metrics` gives, each once."""
    return tuple(dict.fromkeys(parse_metric(text, registry) for text in listed_metrics(metrics)))


def first_metric(metrics: GivenMetrics, registry: Registry | None = None) -> Metric:
    """The first of the metrics, which chooses. Raises UsageError where there is none."""
    listed = listed_metrics(metrics)
    if not listed:
        raise UsageError("`metric` names no metric: leave it out, or name one")
    return parse_metric(listed[0], registry)


def uneven(weights: Vector | None) -> Vector | None:
    """The weights; None where they are all alike, so that none weighs more."""
    return None if weights is None or (weights == weights[:1]).all() else weights


@cache
def option_fields(cls: type[Metric]) -> tuple[str, ...]:
    """The fields that are options, a metric's own first."""
    shared = [option.name for option in fields(Metric)]
    options = [option.name for option in fields(cls) if option.init and option.name not in shared]
    return (*options, *(name for name in shared if name != "cutoff"))


@cache
def field_types(cls: type[Metric]) -> dict[str, Any]:
    """The type of each field."""
    return get_type_hints(cls)


def setting_name(name: str) -> str:
    """A field's name as an option."""
    return name.replace("_", "-")


def _variant(metric: Metric) -> tuple[str, Mapping[str, Any]]:
    """The suffix under which a metric has a spelling of its own, and what the suffix sets."""
    for suffix, preset in metric.variants.items():
        if all(getattr(metric, name) == value for name, value in preset.items()):
            return suffix, preset
    return "", {}


def _check_cutoff(metric: Metric) -> None:
    name, cutoff, use = metric.name, metric.cutoff, metric.cutoff_use
    if cutoff is None and use == "needed":
        raise UsageError(f"'{name}' needs a cutoff: write {name}@10, for instance")
    if cutoff is not None and (use == "none" or cutoff < 1):
        reason = "takes no cutoff" if use == "none" else "needs a cutoff from 1 up"
        raise UsageError(f"'{name}@{cutoff}' is not a metric: '{name}' {reason}")


def _check_choices(metric: Metric) -> None:
    for name in option_fields(type(metric)):
        value, hint = getattr(metric, name), field_types(type(metric))[name]
        if get_origin(hint) is Literal and value not in get_args(hint):
            choices = ", ".join(map(str, get_args(hint)))
            given = printable(str(value))
            raise UsageError(
                f"'{metric.name}' cannot take {setting_name(name)}={given}; known: {choices}"
            )


def _check_finite(metric: Metric) -> None:
    for name in option_fields(type(metric)):
        value = getattr(metric, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(
                f"'{metric.name}' cannot take {setting_name(name)}={value}: it must be a finite "
                "number"
            )


def _find(name: str, registry: Registry) -> tuple[type[Metric], Mapping[str, Any]]:
    """The class of this name, and what the name sets where it is a variant's."""
    offers = list(_offers(name, registry))
    if not offers:
        names = [spelling for plugin in registry.all("metric") for spelling in plugin.spellings]
        failed = "".join(f"; {failure}" for failure in registry.failures)
        raise UsageError(
            f"there is no metric '{name}'{_meant(name, names)}; known: {', '.join(names)} "
            f"(with a cutoff: ndcg@10){failed}"
        )
    if len(offers) > 1:
        sources = " and ".join(f"'{plugin.name}' of {plugin.source}" for plugin, _ in offers)
        raise PluginError(
            f"two plugins offer the metric '{name}': {sources}; rename or uninstall one"
        )
    ((plugin, preset),) = offers
    if not issubclass(plugin.cls, Metric):
        raise PluginError(
            f"metric '{name}' of {plugin.source} cannot be used: {plugin.cls.__name__} must extend "
            "owpc_ltr.metrics.Metric"
        )
    return plugin.cls, preset


_OTHER_NAMES = {
    **{"p": "precision", "ap": "map", "rr": "mrr", "r": "recall"},
    **{"ndcg_cut": "ndcg", "map_cut": "map", "recip_rank": "mrr"},
}
"""What trec_eval and ir_measures call a metric, in lower case."""


def _meant(name: str, known: Sequence[str]) -> str:
    """What is probably meant: `ndcg10` and `ndcg_cut_10` are ndcg@10, `P` is precision."""
    plain = name.rstrip("0123456789")
    cutoff = "@" * (plain != name) + name[len(plain) :]
    ours = _OTHER_NAMES.get(plain.rstrip("_."), plain)
    if ours + cutoff != name and ours in known:
        return f": did you mean '{ours}{cutoff}'?"
    question = did_you_mean(name, known)
    return f": {question}" if question else ""


def _offers(name: str, registry: Registry) -> Iterator[tuple[Plugin, Mapping[str, Any]]]:
    """Every metric that the name could stand for: `a-b-c`, variant c of `a-b`, b-c of `a`."""
    exact = registry.look_up("metric", name)
    if exact is not None:
        yield exact, {}
    # No shipped metric has the name of another's variant: only a third-party one can be in doubt.
    importing = exact is None or not exact.shipped
    for place in (place for place, letter in enumerate(name) if letter == "-"):
        plugin = registry.look_up("metric", name[:place], importing)
        variants = {} if plugin is None else getattr(plugin.cls, "variants", {})
        if plugin is not None and name[place + 1 :] in variants:
            yield plugin, variants[name[place + 1 :]]


def _read_option(metric: Metric, text: str) -> tuple[str, Any]:
    option, equals, value = (part.strip() for part in text.partition("="))
    options = metric.options
    if not equals or option not in options:
        raise UsageError(
            f"'{metric}' has no option '{text}'; write OPTION=VALUE with one of: "
            + ", ".join(options)
        )
    name = option.replace("-", "_")
    hint = field_types(type(metric))[name]
    # What `Metric` refuses itself is passed on to be refused.
    if get_origin(hint) is Literal:
        return name, next((choice for choice in get_args(hint) if str(choice) == value), value)
    if hint is float:
        try:
            return name, float(value)
        except ValueError:
            return name, math.nan
    return name, convert(metric.name, option, value, hint)
