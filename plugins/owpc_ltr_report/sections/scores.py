"""The scores: how well they tell relevant documents from others."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr_report.blocks import Chart, Section, Table
from owpc_ltr_report.charts.histogram import histogram

_BINS = 40
_TAIL = 0.002


def scores_section(name: str, scores: Vector, data: RankingDataset) -> Section | None:
    """Scores of relevant documents and of others, each less its query's mean.

    None where one of the two has no document.
    """
    relevant = data.labels > 0
    if not relevant.any() or relevant.all() or not np.isfinite(scores).all():
        return None
    centred = less_the_mean(scores, data)
    edges, shares = binned(centred, relevant)
    above = _above(centred, relevant, data)
    title = "Scores of relevant documents and of the others"
    chart = Chart(
        "scores",
        title,
        histogram(edges.tolist(), shares, "score less the mean of its query", "share"),
        f"Of a relevant document and another one of the same query, the relevant one has the "
        f"higher score in {above:.1%} of all pairs.",
        Table(
            title,
            ("score from", *(f"share of {group}" for group in shares)),
            tuple(
                (float(edge), *(f"{share[place]:.2%}" for share in shares.values()))
                for place, edge in enumerate(edges[:-1])
            ),
        ),
    )
    lead = (
        f"The further the two lie apart, the better {name} tells what is relevant. Scores are less "
        "the mean of their query, for a ranking compares documents of one query alone."
    )
    return Section(
        "scores", "Scores", "Does the score tell relevant documents from others?", lead, (chart,)
    )


def less_the_mean(scores: Vector, data: RankingDataset) -> Vector:
    """Each score less the mean of its query."""
    sizes = np.diff(data.offsets)
    means = np.add.reduceat(scores, data.offsets[:-1]) / sizes
    return np.asarray(scores - np.repeat(means, sizes))


def binned(
    scores: Vector, relevant: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Vector, dict[str, list[float]]]:
    """Edges of bins, and the share of each group in them; the few far out count at the ends."""
    low, high = np.quantile(scores, [_TAIL, 1 - _TAIL])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, _BINS + 1)
    held = np.clip(scores, low, high)
    groups = {"other documents": ~relevant, "relevant documents": relevant}
    shares = {
        name: (np.histogram(held[chosen], edges)[0] / chosen.sum()).tolist()
        for name, chosen in groups.items()
    }
    return edges, shares


def _above(
    scores: Vector, relevant: np.ndarray[tuple[int], np.dtype[np.bool_]], data: RankingDataset
) -> float:
    """The share of pairs of one query that the scores have right; a tie counts half.

    By the ranks in one sort over all queries (Mann & Whitney 1947).
    """
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    order = np.lexsort((scores, query))
    sorted_query, sorted_scores = query[order], scores[order]
    starts = np.flatnonzero(
        np.r_[True, (np.diff(sorted_query) != 0) | (np.diff(sorted_scores) != 0)]
    )
    sizes = np.diff(np.r_[starts, len(order)])
    rank = np.empty(len(order))
    within = starts - data.offsets[:-1][sorted_query[starts]]
    rank[order] = np.repeat(within + (sizes - 1) / 2, sizes)
    n_relevant = np.add.reduceat(relevant.astype(np.int64), data.offsets[:-1])
    n_other = np.diff(data.offsets) - n_relevant
    sums = np.add.reduceat(np.where(relevant, rank, 0.0), data.offsets[:-1])
    right = sums - n_relevant * (n_relevant - 1) / 2
    return float(right.sum() / (n_relevant * n_other).sum())
