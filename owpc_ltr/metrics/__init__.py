"""Metrics of rankings, with their conventions.

`parse_metric("ndcg@10")` is a `Metric`; `metric.per_query(scores, labels, offsets)` gives one
value a query, and `metric.of(RankedQueries(scores, labels, offsets))`, of which several metrics
share one sort. Each metric is a plugin, which extends `Metric`.
"""

from owpc_ltr.metrics.metric import (
    Metric,
    RankedQueries,
    RankSum,
    first_metric,
    parse_metric,
    parse_metrics,
    uneven,
)

__all__ = [
    "Metric",
    "RankSum",
    "RankedQueries",
    "first_metric",
    "parse_metric",
    "parse_metrics",
    "uneven",
]
