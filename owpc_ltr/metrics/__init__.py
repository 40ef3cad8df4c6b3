"""Metrics of rankings, with their conventions.

`parse_metric("ndcg@10")` is a `Metric`; `metric.per_query(scores, labels, offsets)` gives one
value a query, `per_query([...], scores, labels, offsets)` those of several metrics from one
sort. Each metric is a plugin, which extends `Metric`.
"""

from owpc_ltr.metrics.metric import (
    Metric,
    RankSum,
    all_tied_baseline,
    constant_queries,
    first_metric,
    parse_metric,
    parse_metrics,
    per_query,
    tied_share,
    uneven,
)
from owpc_ltr.metrics.ranking import RankedQueries

__all__ = [
    "Metric",
    "RankSum",
    "RankedQueries",
    "all_tied_baseline",
    "constant_queries",
    "first_metric",
    "parse_metric",
    "parse_metrics",
    "per_query",
    "tied_share",
    "uneven",
]
