"""Live lists: rankings of a whole index, most of whose documents are unjudged.

A figure of such a ranking depends on what the unjudged documents are taken for: irrelevant, as in
TREC; left out, so that judged documents close up (condensed lists, Sakai 2007); or, for bounds, all
irrelevant and all relevant (the residual of Moffat & Zobel 2008). `list_doubts` tells where
judgments cannot show which ranker has better lists for users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.measurement import RankerValues, top_of
from owpc_ltr.evaluation.significance import Doubt
from owpc_ltr.metrics import Metric, RankedQueries
from owpc_ltr.plain_text import ShortRepr

TOP = 10
"""How many documents of a list users look at."""
FEWEST_JUDGED = 0.5
"""The least share of the top ten that is judged: below it, a figure says more of what unjudged
documents are taken for than of the judged ones. Lists of a good judgment pool have .7 to 1."""
FEWEST_SHOWN = 0.9
"""The same where judgments are made of clicks: these know only what users were shown, so that both
top tens must have been."""
MOST_APART = 0.1
"""How far the judged shares of two rankers may be apart. Unjudged documents count as irrelevant, so
that one document in ten moves NDCG@10 by more than most gains are worth."""
LOWEST_RECALL = 0.5
"""The least share of the relevant documents within the window: with less, most of what is measured
on judged documents is of documents that no user sees."""
_FEWEST_QUERIES = 20
_MANY = 0.5
_ALL = 0.98
"""What holds for almost all queries, or pairs: no ranker or collection comes by it honestly."""
_STANDARD_ERRORS = 2.0
"""How far below chance the query's own order must be: 1 in 40 by chance."""
Grades = NDArray[np.float32]
"""One query a row, one rank a column; NaN where the document is unjudged, or there is none."""
_OF_THE_TOP = frozenset({"precision", "mrr", "winner-takes-all", "err", "rbp"})
"""Metrics that grow with every grade within their cutoff, and see nothing else."""
_OF_THE_IDEAL = frozenset({"ndcg"})
"""The same, divided by what the ideal order of the judged documents gets."""


@dataclass(frozen=True, eq=False, repr=False)
class LiveLists(ShortRepr):
    """The grades of ranked documents, and of those that are relevant and not in the lists.

    `there` marks the ranks at which there is a document. `missed` has the grades of the relevant
    documents that a list lacks, query by query, cut at `missed_offsets`.
    """

    grades: Grades
    there: NDArray[np.bool_]
    missed: Labels
    missed_offsets: NDArray[np.int64]
    highest: float

    @property
    def depth(self) -> int:
        """How many ranks were looked at."""
        return int(self.grades.shape[1])

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
        unjudged = np.isnan(self.grades) & self.there
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
        return _share(judged, first.sum(axis=1))

    def agreement_at(self, k: int) -> Vector:
        """The share of pairs of judged documents among the first k that stand as their grades do.

        Pairs of one grade are left out; NaN where there is no other.
        """
        grades = self.grades[:, :k]
        higher, lower = np.triu_indices(grades.shape[1], 1)
        right = (grades[:, higher] > grades[:, lower]).sum(axis=1)
        wrong = (grades[:, higher] < grades[:, lower]).sum(axis=1)
        return _share(right, right + wrong)

    @cached_property
    def n_relevant(self) -> NDArray[np.int64]:
        """How many documents of each query are relevant, within its list or not."""
        found: NDArray[np.int64] = (np.nan_to_num(self.grades) > 0).sum(axis=1)
        return found + np.diff(self.missed_offsets)

    @cached_property
    def recall(self) -> Vector:
        """The share of the relevant documents within the lists; NaN where none is relevant."""
        return _share((np.nan_to_num(self.grades) > 0).sum(axis=1), self.n_relevant)

    def _ideal_among(
        self, metric: Metric, best: Grades, assumed: NDArray[np.bool_], cutoff: int
    ) -> Vector:
        rows = len(best)
        judged = np.where(assumed, 0.0, best)
        lacking = _rectangle(self.missed, self.missed_offsets)
        known = -np.sort(-np.hstack([judged, lacking]), axis=1)
        pad = np.zeros((rows, cutoff), np.float32)
        below = np.where(assumed, best, 0.0)
        return _measure(metric, np.hstack([known, pad, below]).astype(np.float32))

    def _values(self, metric: Metric, labels: Grades) -> Vector:
        """The metric, where what the lists lack was not retrieved."""
        missed = _rectangle(self.missed, self.missed_offsets)
        return _measure(metric, np.hstack([labels, missed]), self.depth)


def live_lists(
    ranked: Sequence[Sequence[str]], grades: Sequence[Mapping[str, float]], depth: int
) -> LiveLists:
    """The lists of documents, best first, of queries with these grades by document.

    Nothing beyond `depth` is looked at.
    """
    rows = len(ranked)
    matrix = np.full((rows, depth), np.nan, np.float32)
    there = np.zeros((rows, depth), np.bool_)
    missed: list[float] = []
    ends = [0]
    for row, (documents, known) in enumerate(zip(ranked, grades, strict=True)):
        shown = documents[:depth]
        there[row, : len(shown)] = True
        matrix[row, : len(shown)] = [known.get(document, np.nan) for document in shown]
        found = set(shown)
        missed += [grade for name, grade in known.items() if grade > 0 and name not in found]
        ends.append(len(missed))
    highest = max((grade for known in grades for grade in known.values()), default=0.0)
    return LiveLists(
        matrix, there, np.array(missed, np.float32), np.array(ends, np.int64), max(highest, 1.0)
    )


def measure_lists(lists: LiveLists, metrics: Sequence[Metric], unjudged: str) -> RankerValues:
    """Each metric of the lists, as far as they go. Raises UsageError for one that looks further."""
    values, shares = [], []
    for metric in metrics:
        seen = within_window(metric, lists.depth)
        share = 1.0 - lists.judged_at(top_of(seen) or lists.depth)
        of_metric = (
            lists.condensed(seen) if unjudged == "condensed" else lists.unjudged_irrelevant(seen)
        )
        if unjudged == "skip":
            of_metric = np.where(share > 0, np.nan, of_metric)
        values.append(of_metric)
        shares.append(share)
    return RankerValues(values, shares)


def within_window(metric: Metric, window: int) -> Metric:
    """The metric as it can be measured live: what is beyond the window is not looked at.

    Raises UsageError for one that looks further, and for errors, which no ranked list shows.
    """
    if metric.cutoff is not None:
        if metric.cutoff > window:
            raise UsageError(
                f"{metric} looks further than the window of {window}: give a window of "
                f"{metric.cutoff}, or a smaller cutoff"
            )
        return metric
    if not metric.higher_is_better:
        raise UsageError(
            f"{metric} counts pairs of judged documents, and a live list lacks most of them: "
            "choose another metric, as ndcg@10, map or mrr"
        )
    try:
        return replace(metric, cutoff=window)
    except UsageError:
        return metric


def list_doubts(
    lists: Mapping[str, LiveLists], alone: LiveLists | None = None, by_clicks: float = 0.0
) -> list[Doubt]:
    """Why judgments cannot show which of these rankers, by name, has better lists for users.

    `alone` are the lists of the query without a model, `by_clicks` the share of the judgments that
    are made of clicks.
    """
    return [
        *_unjudged(lists, by_clicks > _MANY),
        *_one_grade(lists),
        *_known_items(lists),
        *_made_from_a_list(lists),
        *([] if alone is None else _inverted(alone)),
    ]


def recall_doubts(recall: float, window: int, n_queries: int) -> list[Doubt]:
    """Whether judgments are of documents that users get; `recall` is a mean over the queries."""
    if not recall < LOWEST_RECALL:
        return []
    return [
        Doubt(
            "window-recall",
            f"only {recall:.0%} of the relevant documents are among the first {window} that the "
            f"query brings (mean of {n_queries} queries): no ranker of the window can change that, "
            "and a model of the others learns what users never see",
            "change the query, widen the window, or judge what it brings (owpc-ltr judge pool)",
        )
    ]


def mean_known(values: Vector) -> float:
    """The mean of the values that are known; NaN where none is."""
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if len(counted) else float("nan")


def _measure(metric: Metric, labels: Grades, retrieved: int | None = None) -> Vector:
    """The metric of lists of these labels, of which so many of the first were retrieved."""
    rows, width = labels.shape
    ranks = np.tile(np.arange(width), rows)
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    shown = None if retrieved is None else ranks < retrieved
    return metric.of(RankedQueries(-ranks, labels.ravel().astype(np.float32), offsets, shown))


def _rectangle(values: Labels, offsets: NDArray[np.int64]) -> Grades:
    """The values of each query in a row, with zeros after the last."""
    lengths = np.diff(offsets)
    width = int(lengths.max(initial=0))
    matrix = np.zeros((len(lengths), width), np.float32)
    matrix[np.arange(width) < lengths[:, None]] = values
    return matrix


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> Vector:
    shares: Vector = np.full(len(whole), np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares


def _unjudged(lists: Mapping[str, LiveLists], by_clicks: bool) -> Iterator[Doubt]:
    """Too few judged documents in a top ten, or many fewer than in the other."""
    fewest = FEWEST_SHOWN if by_clicks else FEWEST_JUDGED
    shares = {name: mean_known(one.judged_at(TOP)) for name, one in lists.items()}
    known = sorted((share, name) for name, share in shares.items() if not np.isnan(share))
    if not known:
        return
    (least, name), (most, other) = known[0], known[-1]
    few, apart = least < fewest, most - least > MOST_APART
    if not few and not apart:
        return
    beside = f", and {most:.0%} of those of {other}" if len(known) > 1 else ""
    n_queries = len(lists[name].there)
    yield Doubt(
        "unjudged",
        f"{'only ' if few else ''}{least:.0%} of the first ten documents of {name} are judged"
        f"{beside} (mean of {n_queries} queries)"
        f"{', by clicks, which know only what was shown' if by_clicks else ''}",
        "judge what users get (owpc-ltr judge pool)",
    )


def _one_grade(lists: Mapping[str, LiveLists]) -> Iterator[Doubt]:
    """Judged documents that all have the best grade: clicks alone, or the top of some list."""
    grades = np.concatenate([one.grades[:, :TOP].ravel() for one in lists.values()])
    grades = grades[~np.isnan(grades)]
    highest = max(one.highest for one in lists.values())
    if len(grades) >= _FEWEST_QUERIES and float((grades == highest).mean()) > _ALL:
        yield Doubt(
            "one-grade",
            f"the judged documents among the first ten all have the grade {highest:g}: none is "
            "graded irrelevant",
            "judge all documents that users get (owpc-ltr judge pool)",
        )


def _known_items(lists: Mapping[str, LiveLists]) -> Iterator[Doubt]:
    """One relevant document per query: other relevant ones may be unjudged."""
    counts = next(iter(lists.values())).n_relevant
    counts = counts[counts > 0]
    if len(counts) >= _FEWEST_QUERIES and float((counts == 1).mean()) > _ALL:
        yield Doubt(
            "known-items",
            "each query has one relevant document: the others are unjudged, and "
            "a ranker that returns good ones among them gets a low score",
            "judge all documents that users get (owpc-ltr judge pool)",
        )


def _made_from_a_list(lists: Mapping[str, LiveLists]) -> Iterator[Doubt]:
    """A ranker that orders as the grades do, in all queries."""
    for name, one in lists.items():
        right = one.agreement_at(TOP)
        right = right[~np.isnan(right)]
        if len(right) >= _FEWEST_QUERIES and right.mean() > _ALL:
            yield Doubt(
                "made-from-a-list",
                f"{name} has {right.mean():.1%} of the judged pairs in its first ten documents in "
                "the order of their grades: the grades seem to come from its list, or from a "
                "feature that it reads",
                "let people judge the documents (owpc-ltr judge pool)",
            )


def _inverted(alone: LiveLists) -> Iterator[Doubt]:
    """Grades that the query's own order contradicts."""
    right = alone.agreement_at(TOP)
    right = right[~np.isnan(right)]
    if len(right) < _FEWEST_QUERIES:
        return
    error = float(right.std(ddof=1)) / len(right) ** 0.5
    if right.mean() < 0.5 - _STANDARD_ERRORS * error:
        yield Doubt(
            "inverted",
            f"the query alone has {right.mean():.0%} of the judged pairs in its first ten "
            "documents in the order of their grades, fewer than by chance: the grades seem to be "
            "inverted, or made to contradict it",
            "check which grade is the best one, and let people judge (owpc-ltr judge pool)",
        )
