"""The measures: one number a query from a ranking, exact under tied scores.

Where ties count by their expected value, a run of t tied documents below a others stands for all
t! orders of it at once. McSherry & Najork (ECIR 2008) give the closed forms for precision,
recall, average precision, reciprocal rank and NDCG. A run of one document is the usual formula.

Each function returns NaN for a query on which the measure is undefined; `Metric` says what
becomes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from owpc_ltr.errors import BadInput
from owpc_ltr.metrics.ragged import (
    IntVector,
    divide_defined,
    rectangles,
    sums_by_query,
)

if TYPE_CHECKING:
    from owpc_ltr.arrays import Labels, Vector
    from owpc_ltr.metrics.metric import Metric
    from owpc_ltr.metrics.ranking import RankedQueries, Ranking

_LARGEST_EXPONENT = 1000.0


def ndcg(queries: RankedQueries, metric: Metric) -> Vector:
    """Discounted cumulative gain over that of the ideal order (Järvelin & Kekäläinen 2002)."""
    gained = _dcg(queries.ranking(metric.ties), queries.n_queries, metric)
    return divide_defined(gained, _dcg(queries.ideal, queries.n_queries, metric))


def average_precision(queries: RankedQueries, metric: Metric) -> Vector:
    """Mean over the relevant documents of the precision at their ranks.

    In a run of t with r relevant documents, below a others with b relevant, rank a + j holds a
    relevant one with probability r/t, and then (j − 1)(r − 1)/(t − 1) relevant ones are expected
    above it in the run. The sum over j is closed by harmonic numbers.
    """
    ranking = queries.ranking(metric.ties).head(metric.cutoff)
    relevant = ranking.run_sums((ranking.labels > metric.relevant_above).astype(np.int64))
    hits = np.flatnonzero(relevant)
    r, t, a, query = relevant[hits], ranking.size[hits], ranking.above[hits], ranking.query[hits]
    b = _sums_above(r, query, queries.n_queries)
    n = _within(a, t, metric.cutoff)
    reciprocals = _sum_of_reciprocals(a, n)
    expected_above = (r - 1) / np.maximum(t - 1, 1) * (n - (a + 1) * reciprocals)
    precisions = r / t * ((b + 1) * reciprocals + expected_above)
    total = sums_by_query(query, precisions, queries.n_queries)
    return divide_defined(total, queries.n_relevant(metric.relevant_above))


def reciprocal_rank(queries: RankedQueries, metric: Metric) -> Vector:
    """One over the rank of the first relevant document (Burges 2006, section 2)."""
    ranking = queries.ranking(metric.ties).head(metric.cutoff)
    relevant = ranking.run_sums((ranking.labels > metric.relevant_above).astype(np.int64))
    hits = np.flatnonzero(relevant)
    first = hits[np.flatnonzero(np.diff(ranking.query[hits], prepend=-1))]
    r, t, a = relevant[first], ranking.size[first], ranking.above[first]
    values = np.where(queries.n_relevant(metric.relevant_above) > 0, 0.0, np.nan)
    values[ranking.query[first]] = _expected_reciprocal(r, t, a, metric.cutoff)
    return values


def precision(queries: RankedQueries, metric: Metric) -> Vector:
    """Relevant documents among the first `cutoff`, over `cutoff`."""
    found = _relevant_within(queries, metric, metric.cutoff)
    defined = queries.n_relevant(metric.relevant_above) > 0
    return divide_defined(found, defined * (metric.cutoff or 0))


def recall(queries: RankedQueries, metric: Metric) -> Vector:
    """Relevant documents among the first `cutoff`, over all relevant documents."""
    found = _relevant_within(queries, metric, metric.cutoff)
    return divide_defined(found, queries.n_relevant(metric.relevant_above))


def winner_takes_all(queries: RankedQueries, metric: Metric) -> Vector:
    """1 where the top document is relevant, else 0: one minus the cost of Burges (2006)."""
    found = _relevant_within(queries, metric, 1)
    return divide_defined(found, queries.n_relevant(metric.relevant_above) > 0)


def gains(labels: Labels, metric: Metric) -> Vector:
    """What a document of each label is worth: 2^label − 1, or the label itself."""
    if len(labels) and labels.min() < 0:
        raise BadInput(
            f"{metric} cannot count the label {labels.min():g}: labels must be 0 or more"
        )
    if metric.gain == "linear":
        return labels.astype(np.float64)
    if len(labels) and labels.max() > _LARGEST_EXPONENT:
        raise BadInput(
            f"{metric} cannot count the label {labels.max():g}: 2^label is beyond a float; "
            "say gain=linear"
        )
    exponential: Vector = np.exp2(labels.astype(np.float64)) - 1.0
    return exponential


def discounts(n_ranks: int, metric: Metric) -> Vector:
    """The discount of ranks 1 to `n_ranks`; LETOR's is 1 at ranks 1 and 2, then 1/log2(rank)."""
    ranks = np.arange(1, n_ranks + 1)
    if metric.discount == "letor":
        ranks = np.maximum(ranks, 2) - 1
    discount: Vector = 1.0 / np.log2(1.0 + ranks)
    return discount


def _dcg(ranking: Ranking, n_queries: int, metric: Metric) -> Vector:
    ranking = ranking.head(metric.cutoff)
    gain = ranking.run_sums(gains(ranking.labels, metric))
    end = ranking.above + _within(ranking.above, ranking.size, metric.cutoff)
    discount = discounts(int(end.max(initial=0)), metric)
    if not ranking.tied:
        return sums_by_query(ranking.query, gain * discount[ranking.above], n_queries)
    running = np.concatenate([[0.0], np.cumsum(discount)])
    mean_gain = gain / ranking.size
    # Every rank of a run holds each of its documents equally often.
    parts = mean_gain * (running[end] - running[ranking.above])
    return sums_by_query(ranking.query, parts, n_queries)


def _relevant_within(queries: RankedQueries, metric: Metric, cutoff: int | None) -> Vector:
    """Expected number of relevant documents among the first `cutoff` of each query."""
    ranking = queries.ranking(metric.ties).head(cutoff)
    relevant = ranking.run_sums((ranking.labels > metric.relevant_above).astype(np.float64))
    share = _within(ranking.above, ranking.size, cutoff) / ranking.size
    return sums_by_query(ranking.query, relevant * share, queries.n_queries)


def _expected_reciprocal(r: IntVector, t: IntVector, a: IntVector, cutoff: int | None) -> Vector:
    """E[1/(a + J)], J the first of r relevant places among t in random order.

    P(J > j) = Π_{i<j} (t − r − i)/(t − i); places beyond the cutoff count 0.
    """
    values = np.asarray(1.0 / (a + 1), dtype=np.float64)
    mixed = np.flatnonzero(r < t)
    for rows, positions in rectangles(np.zeros(len(mixed), dtype=np.int64), t[mixed]):
        runs = mixed[rows]
        above, relevant, size = a[runs, None], r[runs, None], t[runs, None]
        left = size - positions
        survival = np.cumprod(np.maximum(left - relevant, 0) / left, axis=1)
        before = np.concatenate([np.ones((len(rows), 1)), survival[:, :-1]], axis=1)
        rank = above + positions + 1
        counted = 1.0 / rank if cutoff is None else (rank <= cutoff) / rank
        values[runs] = (before * (relevant / left) * counted).sum(axis=1)
    return values


def _within(above: IntVector, size: IntVector, cutoff: int | None) -> IntVector:
    """How many places of each run lie within the cutoff."""
    return size if cutoff is None else np.minimum(size, cutoff - above)


def _sums_above(counts: IntVector, query: IntVector, n_queries: int) -> IntVector:
    """The sum of the counts of the same query that come before each entry."""
    running = np.cumsum(counts) - counts
    starts = np.searchsorted(query, np.arange(n_queries))
    base = np.append(running, 0)[starts]
    above: IntVector = running - base[query]
    return above


def _sum_of_reciprocals(above: IntVector, n: IntVector) -> Vector:
    """1/(above + 1) + … + 1/(above + n); for one place without a difference of sums."""
    longest = int((above + n).max(initial=0))
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1.0, longest + 1.0))])
    return np.where(n == 1, 1.0 / (above + 1.0), harmonic[above + n] - harmonic[above])
