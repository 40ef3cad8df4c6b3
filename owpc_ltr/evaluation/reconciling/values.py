"""Values of a metric by any convention: documents in its order of ties, then a metric of ours."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.reconciling.conventions import Convention
from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.ragged import IntVector, best_first, divide_defined, sums_by_query
from owpc_ltr.metrics.ranking import RankedQueries


@dataclass(frozen=True)
class Ranked:
    """Scores and labels of whole queries, with what orders of ties look at.

    `late_ids` says of each document how late its id comes in the order of its bytes.
    """

    scores: Vector
    labels: Labels
    offsets: IntVector
    late_ids: IntVector


def ranked(scores: Vector, data: RankingDataset) -> Ranked:
    """The scores of a dataset's documents; without ids row numbers stand for them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = data.document_ids
    if ids is None:
        ids = pa.array(np.arange(data.n_documents)).cast(pa.string())
    late = np.empty(data.n_documents, dtype=np.int64)
    late[pc.sort_indices(ids).to_numpy()] = np.arange(data.n_documents)
    return Ranked(np.asarray(scores, np.float64), data.labels, data.offsets, late)


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
        scores, labels = _in_order(convention, scores, given)
        values = own.per_query(scores, labels, given.offsets)
    lengths = np.diff(given.offsets)
    if convention.per_cutoff and metric.cutoff is not None:
        relevant = RankedQueries(scores, given.labels, given.offsets).n_relevant(
            convention.relevant_above
        )
        # An empty query has no share to correct.
        values = values * np.where(relevant > 0, relevant / np.clip(relevant, 1, metric.cutoff), 1)
    return values if convention.lone else np.where(lengths == 1, np.nan, values)


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
        order = np.empty(len(scores), dtype=np.int64)
        sort_as_numba_does(-scores, given.offsets, order)
    else:
        return scores, given.labels
    return scores[order], given.labels[order]


@compiled
def sort_as_numba_does(negated: Any, offsets: Any, order: Any) -> None:
    """What numba's own quicksort makes of each query: ranx sorts by it."""
    for query in range(len(offsets) - 1):
        start, end = offsets[query], offsets[query + 1]
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
