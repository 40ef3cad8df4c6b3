"""What metrics share: gains, sums over ranks under tied scores, and their conventions in words.

Where ties count by their expected value, a run of t tied documents below a others stands for all
t! orders of it at once. McSherry & Najork (ECIR 2008) give the closed forms for precision,
recall, average precision, reciprocal rank and NDCG. A run of one document is the usual formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.metrics.ranking import IntVector, RankedQueries, Ranking, Ties, sums_by_query

_LARGEST_EXPONENT = 1000.0

Gain = Literal["exponential", "linear"]
Empty = Literal["zero", "skip", "one"]
Short = Literal["normal", "zero"]


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
    fate = {"zero": "count 0", "one": "count 1", "skip": "are left out"}[empty]
    return f"queries without {lacking} {fate}"
