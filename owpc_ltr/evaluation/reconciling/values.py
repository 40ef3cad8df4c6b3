"""Values of a metric by any convention: documents in its order of ties, then a metric of ours."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.evaluation.ranked_lists import whole_lists
from owpc_ltr.evaluation.reconciling.conventions import Convention
from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.ranking import (
    IntVector,
    RankedQueries,
    best_first,
    divide_defined,
    sums_by_query,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Ranked:
    """Scores and labels of whole queries, with what orders of ties look at.

    Scores are NaN where a run did not retrieve the document. `late_ids` says of each document how
    late its id comes in the order of its bytes, `places` how late it is listed. `absent` marks the
    queries that a run lacks; `same_queries` tells whether a run has all of them and no others.
    """

    scores: Vector
    labels: Labels
    offsets: IntVector
    late_ids: IntVector
    places: IntVector
    absent: NDArray[np.bool_]
    same_queries: bool = True


def ranked(ranking: Vector | TrecRun, data: RankingDataset) -> Ranked:
    """Scores of a dataset's documents, or a run; without ids row numbers stand for them."""
    import pyarrow as pa

    if isinstance(ranking, TrecRun):
        found = ranking.ranked(data)
        if np.isnan(found.scores).all():
            raise ranking.of_other_data(data.n_documents)
        scores, labels, offsets, places, ids = whole_lists(ranking, found, data)
        absent = np.ones(data.n_queries, np.bool_)
        absent[found.query] = False
        same = not absent.any() and len(found.rows) == len(ranking.scores)
        return Ranked(scores, labels, offsets, _late(ids), places, absent, same)
    ids = data.document_ids
    if ids is None:
        ids = pa.array(np.arange(data.n_documents)).cast(pa.string())
    scores, places = np.asarray(ranking, np.float64), np.arange(data.n_documents)
    none = np.zeros(data.n_queries, np.bool_)
    return Ranked(scores, data.labels, data.offsets, _late(ids), places, none)


def _late(ids: pa.StringArray) -> IntVector:
    import pyarrow.compute as pc

    late = np.empty(len(ids), dtype=np.int64)
    late[pc.sort_indices(ids).to_numpy()] = np.arange(len(ids))
    return late


def queries_of(given: Ranked) -> RankedQueries:
    """The queries, as metrics take them."""
    return _queries(given.scores, given.labels, given)


def values_by(convention: Convention, metric: Metric, given: Ranked) -> Vector:
    """The value of each query; NaN for those that are left out."""
    metric = replace(metric, cutoff=metric.cutoff or convention.depth)
    scores = given.scores
    if convention.single:
        scores = scores.astype(np.float32).astype(np.float64)
    own = _options(convention, metric)
    if convention.ties == "together":
        values = _all_at_once(replace(own, ties="expected"), scores, given)
    else:
        values = own.of(_queries(*_in_order(convention, scores, given), given))
    lengths = np.diff(given.offsets)
    if convention.per_cutoff and metric.cutoff is not None:
        relevant = queries_of(given).n_relevant(convention.relevant_above)
        # An empty query has no share to correct.
        values = values * np.where(relevant > 0, relevant / np.clip(relevant, 1, metric.cutoff), 1)
    left_out = np.zeros(len(lengths), np.bool_) if convention.absent else given.absent
    if not convention.lone:
        left_out = left_out | (lengths == 1)
    return np.where(left_out, np.nan, values)


def _options(convention: Convention, metric: Metric) -> Metric:
    """The metric with those conventions that are its own options."""
    own = {one.name for one in fields(metric)}
    said = {
        one.name: getattr(convention, one.name) for one in fields(convention) if one.name in own
    }
    usual = {"expected", "pessimistic", "optimistic"}
    ties = said["ties"] if said["ties"] in usual else "file-order"
    return replace(metric, **{**said, "ties": ties})


def _in_order(convention: Convention, scores: Vector, given: Ranked) -> tuple[Vector, Labels]:
    """The documents such that file order is the convention's order of ties."""
    if convention.ties == "last-id-first":
        order = best_first(given.late_ids.astype(np.float64), given.offsets)
    elif convention.ties == "unstable":
        order = _unstable_order(scores, given)
    else:
        return scores, given.labels
    return scores[order], given.labels[order]


def _queries(scores: Vector, labels: Labels, given: Ranked) -> RankedQueries:
    return RankedQueries(scores, labels, given.offsets, ~np.isnan(scores))


def _unstable_order(scores: Vector, given: Ranked) -> IntVector:
    """What ranx's sort makes of the documents retrieved, as they are listed; the others below."""
    missing = np.isnan(scores)
    query = np.repeat(np.arange(len(given.offsets) - 1), np.diff(given.offsets))
    listed = np.lexsort((given.places, missing, query))
    ends = given.offsets[1:] - np.bincount(query, missing, len(given.offsets) - 1).astype(np.int64)
    # What makes runs of other queries comparable sorts them again.
    for _ in range(1 if given.same_queries else 2):
        order = np.arange(len(scores))
        sort_as_numba_does(-scores[listed], given.offsets[:-1], ends, order)
        listed = listed[order]
    return listed


@compiled
def sort_as_numba_does(negated: Any, starts: Any, ends: Any, order: Any) -> None:
    """What numba's own quicksort makes of each query: ranx sorts by it."""
    for query in range(len(starts)):
        start, end = starts[query], ends[query]
        order[start:end] = start + np.argsort(negated[start:end])


def _all_at_once(metric: Metric, scores: Vector, given: Ranked) -> Vector:
    """Average precision where tied documents are found together, by the last of their ranks."""
    queries = RankedQueries(scores, given.labels, given.offsets)
    above = getattr(metric, "relevant_above", 0.0)
    ranking = queries.ranking("expected")
    found = ranking.run_sums((ranking.labels > above).astype(np.float64))
    running = np.cumsum(found)
    before = np.concatenate([[0.0], running])[np.searchsorted(ranking.query, ranking.query)]
    precision: NDArray[np.float64] = (running - before) / (ranking.above + ranking.size)
    total = sums_by_query(ranking.query, found * precision, queries.n_queries)
    values = divide_defined(total, queries.n_relevant(above))
    if metric.empty == "skip":
        return values
    return np.nan_to_num(values, nan=float(metric.empty == "one"))
