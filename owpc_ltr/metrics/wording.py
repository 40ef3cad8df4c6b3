"""The conventions of a metric in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from owpc_ltr.metrics.metric import Metric


def describe(metric: Metric) -> str:
    """One line that says what exactly a metric measures.

    >>> from owpc_ltr.metrics import parse_metric
    >>> print(parse_metric("mrr").convention)
    mrr: 1/rank of the first relevant document (label above 0); tied scores count their expected \
value; queries without relevant documents count 0
    """
    parts = [f"{metric}: {_measured(metric)}", f"tied scores {_ties(metric)}", _undefined(metric)]
    if metric.short == "zero":
        parts.append(f"queries with fewer than {metric.cutoff} documents count 0")
    return "; ".join(parts)


def _measured(metric: Metric) -> str:
    relevant = f"(label above {metric.relevant_above:g})"
    within = "" if metric.cutoff is None else f" within the first {metric.cutoff} ranks"
    gain = "2^label − 1" if metric.gain == "exponential" else "label"
    discount = {
        "log2": "1/log2(1 + rank)",
        "letor": "1 at ranks 1 and 2, then 1/log2(rank) (LETOR)",
    }[metric.discount]
    stop = f"(2^label − 1)/2^{metric.max_grade:g}"
    return {
        "ndcg": f"gain {gain}, discount {discount}{within}, over the ideal order's",
        "map": f"precision at each relevant document {relevant}{within}, over all relevant ones",
        "mrr": f"1/rank of the first relevant document {relevant}{within}",
        "winner-takes-all": f"1 where the top document is relevant {relevant}, else 0",
        "precision": f"relevant documents {relevant}{within}, over {metric.cutoff}",
        "recall": f"relevant documents {relevant}{within}, over all relevant ones",
        "err": f"expected 1/rank of the document that stops a reader, each with {stop}{within}",
        "pairwise-error": "pairs of different labels in the wrong order, over all such pairs",
    }[metric.name]


def _ties(metric: Metric) -> str:
    return {
        "expected": "count their expected value",
        "pessimistic": "count in the worst order",
        "optimistic": "count in the best order",
        "file-order": "count in file order",
    }[metric.ties]


def _undefined(metric: Metric) -> str:
    which = "pairs to compare" if metric.name == "pairwise-error" else "relevant documents"
    fate = {"zero": "count 0", "one": "count 1", "skip": "are left out"}[metric.empty]
    return f"queries without {which} {fate}"
