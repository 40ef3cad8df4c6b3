"""Ranked lists, some of whose documents are unjudged.

A figure of such a list depends on what the unjudged documents are taken for: irrelevant, as in
TREC; left out, so that judged documents close up (condensed lists, Sakai 2007); as good as judged
documents at the same rank; or, for bounds, all irrelevant and all relevant (the residual of Moffat
& Zobel 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.judgments import grade_by_people, is_machine, votes_of
from owpc_ltr.errors import UsageError
from owpc_ltr.metrics import Metric, RankedQueries
from owpc_ltr.metrics.metric import divide_defined
from owpc_ltr.text import ShortRepr

TOP = 10
"""How many documents of a list users look at."""
DRAWS = 12
"""How often the grades of unjudged documents are drawn: the mean of so many is used."""
_FEWEST_GRADES = 20
"""Of fewer judged documents around a rank, those of more ranks are taken."""
Grades = NDArray[np.float32]
"""One query a row, one rank a column; NaN where the document is unjudged, or there is none."""
_OF_THE_TOP = frozenset({"precision", "mrr", "winner-takes-all", "err", "rbp"})
"""Metrics that grow with every grade within their cutoff, and see nothing else."""
_OF_THE_IDEAL = frozenset({"ndcg"})
"""The same, divided by what the ideal order of the judged documents gets."""


@dataclass(frozen=True, eq=False, repr=False)
class RankedLists(ShortRepr):
    """Ranked documents by query, and the grades of all judged ones, in the lists or not.

    `documents` are the ids, best first, of which the first `depth` were looked at; `judged` has the
    grade of each judged document of a query, `judges` who gave it, where that is known. `highest`
    is the best grade that there is.
    """

    documents: Sequence[Sequence[str]] = field(repr=False)
    judged: Sequence[Mapping[str, float]] = field(repr=False)
    judges: Sequence[Mapping[str, str]] = field(repr=False)
    depth: int
    highest: float

    @cached_property
    def grades(self) -> Grades:
        """The grades of the lists' documents."""
        matrix = np.full((len(self.documents), self.depth), np.nan, np.float32)
        for row, (listed, judged) in enumerate(zip(self.documents, self.judged, strict=True)):
            matrix[row, : len(listed)] = [judged.get(name, np.nan) for name in listed]
        return matrix

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """The ranks at which there is a document."""
        marks: NDArray[np.bool_] = np.arange(self.depth) < _lengths(self.documents)[:, None]
        return marks

    @cached_property
    def missed(self) -> Grades:
        """The grades of the relevant documents that a list lacks; zeros after the last."""
        lacking = [
            [grade for name, grade in judged.items() if grade > 0 and name not in listed]
            for listed, judged in zip(map(set, self.documents), self.judged, strict=True)
        ]
        lengths = _lengths(lacking)
        matrix = np.zeros((len(lengths), int(lengths.max(initial=0))), np.float32)
        matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = list(chain(*lacking))
        return matrix

    def unjudged_irrelevant(self, metric: Metric) -> Vector:
        """The value of each query where unjudged documents are irrelevant."""
        return self._values(metric, np.nan_to_num(self.grades, nan=0.0))

    def condensed(self, metric: Metric) -> Vector:
        """The value of each query where unjudged documents are left out."""
        unjudged = np.isnan(self.grades)
        order = np.argsort(unjudged, axis=1, kind="stable")
        return self._values(metric, np.nan_to_num(np.take_along_axis(self.grades, order, axis=1)))

    def highest_possible(self, metric: Metric) -> Vector | None:
        """The value of each query where unjudged documents within the cutoff have the best grade.

        With the value of unjudged irrelevant ones it bounds what the query is worth, whatever they
        are; the ideal that NDCG divides by stays that of the judged documents. None for metrics
        that unjudged documents beyond the cutoff can change, as the number of relevant ones does.
        """
        cutoff = 1 if metric.name == "winner-takes-all" else metric.cutoff
        if cutoff is None or metric.name not in _OF_THE_TOP | _OF_THE_IDEAL:
            return None
        unjudged = _unjudged(self)
        unjudged[:, cutoff:] = False
        best = np.where(unjudged, np.float32(self.highest), np.nan_to_num(self.grades))
        values = self._values(metric, best)
        if metric.name in _OF_THE_TOP:
            return values
        # The ideal order of the judged ones alone, worth what they get among those assumed.
        ideal = self._ideal_among(metric, best, unjudged, cutoff)
        defined = ideal > 0
        reached: Vector = np.where(
            defined, values / np.where(defined, ideal, 1.0), np.where(unjudged.any(axis=1), 1, 0)
        )
        return np.minimum(1.0, reached)

    def judged_at(self, k: int) -> Vector:
        """The share of the first k documents that is judged; NaN where nothing was found."""
        first = self.there[:, :k]
        judged = (~np.isnan(self.grades[:, :k]) & first).sum(axis=1)
        return divide_defined(judged, first.sum(axis=1))

    def only_in_first(self, other: RankedLists, k: int) -> NDArray[np.bool_]:
        """The ranks of the first k documents that are not among the other's first k: they decide.

        What is in both top lists tells the rankers apart by its order alone.
        """
        marks = np.zeros(self.grades.shape, np.bool_)
        for row, (own, theirs) in enumerate(zip(self.documents, other.documents, strict=True)):
            known = set(theirs[:k])
            marks[row, : len(own[:k])] = [document not in known for document in own[:k]]
        return marks

    def judges_at(self, marks: NDArray[np.bool_]) -> Iterator[tuple[int, int, str]]:
        """Query, rank and judges of the judged documents among these ranks."""
        rows, ranks = np.nonzero(marks & ~np.isnan(self.grades))
        for row, rank in zip(rows.tolist(), ranks.tolist(), strict=True):
            yield row, rank, self.judges[row].get(self.documents[row][rank], "")

    def regraded(self, grade: Callable[[int, str, float], float | None]) -> RankedLists:
        """The lists where a judged document of a query has another grade, or none."""
        grades = [
            {name: new for name, old in own.items() if (new := grade(row, name, old)) is not None}
            for row, own in enumerate(self.judged)
        ]
        return replace(self, judged=grades)

    @cached_property
    def by_people(self) -> RankedLists:
        """The lists with people's grades: documents that machines alone judged are unjudged.

        These lists themselves where no machine had a vote.
        """

        def grade(row: int, name: str, given: float) -> float | None:
            return grade_by_people(self.judges[row].get(name, ""), given)

        cells = {cell for of_query in self.judges for cell in of_query.values()}
        voters = {name for cell in cells for name in votes_of(cell, 0.0)}
        return self.regraded(grade) if any(map(is_machine, voters)) else self

    def agreement_at(self, k: int) -> Vector:
        """The share of pairs of judged documents among the first k that stand as their grades do.

        Pairs of one grade are left out; NaN where there is no other.
        """
        grades = self.grades[:, :k]
        higher, lower = np.triu_indices(grades.shape[1], 1)
        right = (grades[:, higher] > grades[:, lower]).sum(axis=1)
        wrong = (grades[:, higher] < grades[:, lower]).sum(axis=1)
        return divide_defined(right, right + wrong)

    @cached_property
    def n_relevant(self) -> NDArray[np.int64]:
        """How many documents of each query are relevant, within its list or not."""
        grades = np.hstack([np.nan_to_num(self.grades), self.missed])
        counts: NDArray[np.int64] = np.count_nonzero(grades > 0, axis=1)
        return counts

    @cached_property
    def recall(self) -> Vector:
        """The share of the relevant documents within the lists; NaN where none is relevant."""
        return divide_defined((np.nan_to_num(self.grades) > 0).sum(axis=1), self.n_relevant)

    def _ideal_among(
        self, metric: Metric, best: Grades, assumed: NDArray[np.bool_], cutoff: int
    ) -> Vector:
        judged = np.where(assumed, 0.0, best)
        ideal = -np.sort(-np.hstack([judged, self.missed]), axis=1)
        pad = np.zeros((len(best), cutoff), np.float32)
        below = np.where(assumed, best, 0.0)
        return _measure(metric, np.hstack([ideal, pad, below]).astype(np.float32))

    def _values(self, metric: Metric, labels: Grades) -> Vector:
        """The metric, where what the lists lack was not retrieved."""
        return _measure(metric, np.hstack([labels, self.missed]), self.depth)

    @classmethod
    def of_documents(
        cls,
        scores: Vector,
        labels: Labels,
        offsets: NDArray[np.int64],
        names: Sequence[str],
        retrieved: NDArray[np.bool_] | None = None,
        depth: int = 100,
        judges: Sequence[Mapping[str, str]] = (),
    ) -> RankedLists:
        """The lists that scores make of documents, query by query; labels are NaN if unjudged."""
        there = np.ones(len(scores), np.bool_) if retrieved is None else retrieved
        ranked, grades = [], []
        for start, end in pairwise(offsets.tolist()):
            rows = start + np.flatnonzero(there[start:end])
            order = rows[np.argsort(-scores[rows], kind="stable")][:depth]
            ranked.append([names[row] for row in order.tolist()])
            judged = start + np.flatnonzero(~np.isnan(labels[start:end]))
            grades.append({names[row]: float(labels[row]) for row in judged.tolist()})
        depth = max(1, min(depth, max(map(len, ranked), default=1)))
        return ranked_lists(ranked, grades, depth, judges)

    @property
    def complete(self) -> bool:
        """Whether every document in the lists is judged."""
        return not bool(_unjudged(self).any())

    def joined(self, other: RankedLists) -> RankedLists:
        """These lists, and those of further queries below."""
        return RankedLists(
            [*self.documents, *other.documents],
            [*self.judged, *other.judged],
            [*self.judges, *other.judges],
            max(self.depth, other.depth),
            max(self.highest, other.highest),
        )


def ranked_lists(
    ranked: Sequence[Sequence[str]],
    grades: Sequence[Mapping[str, float]],
    depth: int,
    judges: Sequence[Mapping[str, str]] = (),
) -> RankedLists:
    """The lists of documents, best first, of queries with these grades and judges by document.

    Nothing beyond `depth` is looked at.
    """
    highest = max((grade for judged in grades for grade in judged.values()), default=0.0)
    listed = [documents[:depth] for documents in ranked]
    return RankedLists(listed, grades, judges or [{}] * len(listed), depth, max(highest, 1.0))


def _lengths(lists: Sequence[Sequence[Any]]) -> NDArray[np.int64]:
    return np.array([len(query_list) for query_list in lists], np.int64)


def _unjudged(lists: RankedLists) -> NDArray[np.bool_]:
    """The ranks whose document is unjudged."""
    return np.isnan(lists.grades) & lists.there


def top_of(metric: Metric) -> int | None:
    """How many of the first documents a metric looks at; None for all."""
    return 1 if metric.name == "winner-takes-all" else metric.cutoff


def as_good_as_judged(
    lists: Mapping[str, RankedLists], metrics: Sequence[Metric]
) -> dict[str, list[Vector]]:
    """The values of each query, where unjudged documents are as good as judged ones at their rank.

    Within the cutoff of a metric, an unjudged document gets the grade of a judged document that is
    drawn from those at its best rank, over all queries and lists. A document has one grade in all
    lists, so that their ideal order is the same. Each value is the mean over `DRAWS` draws.
    """
    depth = max(lists_of_ranker.depth for lists_of_ranker in lists.values())
    # No metric reads further.
    depth = max((min(top_of(metric) or depth, depth) for metric in metrics), default=0)
    # `places` number the unjudged documents of all lists, or are −1.
    places, best_rank = _unjudged_documents(list(lists.values()), depth)
    pools = _grades_around(list(lists.values()), depth)
    generator = np.random.default_rng(0)
    draws = [
        np.array(
            [pools[rank][int(u * len(pools[rank]))] for rank, u in zip(ranks, us, strict=True)]
        )
        for ranks in [best_rank.tolist()]
        for us in generator.random((DRAWS, len(best_rank))).tolist()
    ]
    drawn = np.array(draws, np.float32).reshape(DRAWS, len(best_rank))

    def mean_over_draws(own: RankedLists, place: NDArray[np.int64], metric: Metric) -> Vector:
        k = min(top_of(metric) or own.depth, own.depth)
        seen = np.where(np.arange(own.depth) < k, place, -1)
        if not any((other[:, :k] >= 0).any() for other in places):
            return own.unjudged_irrelevant(metric)
        extra = _others(seen, [other[:, :k] for other in places], drawn.shape[1])
        base = np.nan_to_num(own.grades)
        total: Vector = np.zeros(len(base))
        for draw in drawn:
            grades = np.append(draw, np.float32(0))
            labels = np.where(seen >= 0, grades[seen], base)
            total += _measure(metric, np.hstack([labels, own.missed, grades[extra]]), own.depth)
        return total / len(drawn)

    return {
        name: [mean_over_draws(own, place, within_depth(m, own.depth)) for m in metrics]
        for (name, own), place in zip(lists.items(), places, strict=True)
    }


def _unjudged_documents(
    lists: Sequence[RankedLists], depth: int
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """A number for each unjudged document of a query, the same in all lists; its best rank.

    One matrix a list, −1 where a document is judged, beyond the depth, or there is none.
    """
    numbers: dict[tuple[int, str], int] = {}
    ranks: list[int] = []
    matrices = []
    for lists_of_ranker in lists:
        matrix = np.full(lists_of_ranker.grades.shape, -1, np.int64)
        rows, columns = np.nonzero(_unjudged(lists_of_ranker)[:, :depth])
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            number = numbers.setdefault((row, lists_of_ranker.documents[row][column]), len(numbers))
            if number == len(ranks):
                ranks.append(column)
            ranks[number] = min(ranks[number], column)
            matrix[row, column] = number
        matrices.append(matrix)
    return matrices, np.array(ranks, np.int64)


def _grades_around(lists: Sequence[RankedLists], depth: int) -> list[NDArray[np.float32]]:
    """The grades of judged documents at each rank; of few, those of the ranks around, too."""
    at_rank = [
        np.concatenate([ranked.grades[:, rank] for ranked in lists if rank < ranked.depth])
        for rank in range(depth)
    ]
    at_rank = [grades[~np.isnan(grades)] for grades in at_rank]
    pools = []
    for rank in range(depth):
        reach = rank // 4
        while True:
            pool = np.concatenate(at_rank[max(0, rank - reach) : rank + reach + 1])
            if len(pool) >= _FEWEST_GRADES or reach >= depth:
                break
            reach = 2 * reach + 1
        pools.append(pool if len(pool) else np.zeros(1, np.float32))
    return pools


def _others(
    seen: NDArray[np.int64], places: Sequence[NDArray[np.int64]], n_unjudged: int
) -> NDArray[np.int64]:
    """By query, the unjudged documents of any list that this one lacks; −1 after the last."""
    rows = np.concatenate([np.nonzero(place >= 0)[0] for place in places])
    numbers = np.concatenate([place[place >= 0] for place in places])
    numbers, first = np.unique(numbers, return_index=True)
    rows = rows[first]
    listed = np.zeros(n_unjudged, np.bool_)
    listed[seen[seen >= 0]] = True
    lacking = ~listed[numbers]
    rows, numbers = rows[lacking], numbers[lacking]
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows, minlength=len(seen))
    matrix = np.full((len(seen), int(counts.max(initial=0))), -1, np.int64)
    column = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    matrix[rows[order], column] = numbers[order]
    return matrix


def within_depth(metric: Metric, depth: int) -> Metric:
    """The metric of the first documents alone, if it looks further."""
    if metric.cutoff is not None and metric.cutoff <= depth:
        return metric
    try:
        return replace(metric, cutoff=depth)
    except UsageError:
        return metric


def within_window(metric: Metric, window: int) -> Metric:
    """The metric as it can be measured live: what is beyond the window is not looked at.

    Raises UsageError for one that looks further, and for errors, which no ranked list shows.
    """
    if metric.cutoff is not None and metric.cutoff > window:
        raise UsageError(
            f"{metric} looks further than the window of {window}: give a window of "
            f"{metric.cutoff}, or a smaller cutoff"
        )
    if metric.cutoff is None and not metric.higher_is_better:
        raise UsageError(
            f"{metric} counts pairs of judged documents, and a live list lacks most of them: "
            "choose another metric, as ndcg@10, map or mrr"
        )
    return within_depth(metric, window)


def mean_known(values: Vector) -> float:
    """The mean of the values that are known; NaN where none is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _measure(metric: Metric, labels: Grades, retrieved: int | None = None) -> Vector:
    """The metric of lists of these labels, of which so many of the first were retrieved."""
    rows, width = labels.shape
    ranks = np.tile(np.arange(width), rows)
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    marks = None if retrieved is None else ranks < retrieved
    return metric.of(RankedQueries(-ranks, labels.ravel().astype(np.float32), offsets, marks))
