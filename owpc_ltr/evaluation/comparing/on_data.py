"""Rankers on judged documents: each metric of each query, part by part, unjudged documents too.

A model is shown what is judged, and nothing else. A run may list more: these documents count as
irrelevant, or are taken out before measuring (condensed lists; Sakai, SIGIR 2007), or their queries
are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.runs import RankedDocuments, TrecRun
from owpc_ltr.evaluation.ranked_lists import ListFacts, Ranking, list_warnings, lists_of
from owpc_ltr.metrics import Metric, RankedQueries, uneven
from owpc_ltr.models.reordering import ReorderingModel

Rankers = Mapping[str, Ranking]


class RankerValues(NamedTuple):
    """Each metric's value of each query; the shares of unjudged documents that each looks at.

    `unjudged` is None where a ranker is shown judged documents alone.
    """

    values: list[Vector]
    unjudged: list[Vector] | None
    warnings: tuple[str, ...] = ()


class OnData(NamedTuple):
    """All rankers' values, those of no ranker, and the queries' weights if they vary."""

    rankers: dict[str, RankerValues]
    baselines: list[Vector]
    weights: Vector | None


class _Seen(NamedTuple):
    """What is kept of a ranker on a part."""

    values: RankerValues
    facts: ListFacts


class _Part(NamedTuple):
    rankers: list[_Seen]
    baselines: list[Vector]
    weights: Vector


def measure_on_data(
    rankers: Rankers,
    data: RankingDataset | PartitionedDataset,
    metrics: Sequence[Metric],
    unjudged: str,
) -> OnData:
    """Every ranker by every metric, in one pass. Raises BadInput for a run of other queries."""

    def look(part: RankingDataset) -> _Part:
        return _measured(rankers, part, metrics, unjudged)

    parts: Iterable[_Part]
    if isinstance(data, RankingDataset):
        parts = [look(data)]
    else:
        # A run and a reranker look at more than what is learned from.
        small = not any(isinstance(one, TrecRun | ReorderingModel) for one in rankers.values())
        parts = list(data.each(look) if small else map(look, data))
    found = {
        name: _joined(ranker, [part.rankers[number] for part in parts])
        for number, (name, ranker) in enumerate(rankers.items())
    }
    baselines = [np.concatenate(one) for one in zip(*(p.baselines for p in parts), strict=True)]
    return OnData(found, baselines, uneven(np.concatenate([part.weights for part in parts])))


def top_of(metric: Metric) -> int | None:
    """How many of the first documents a metric looks at; None for all."""
    return 1 if metric.name == "winner-takes-all" else metric.cutoff


def _measured(
    rankers: Rankers, data: RankingDataset, metrics: Sequence[Metric], unjudged: str
) -> _Part:
    nothing = RankedQueries(np.zeros(data.n_documents), data.labels, data.offsets)
    return _Part(
        [_seen(ranker, data, metrics, unjudged) for ranker in rankers.values()],
        [metric.of(nothing) for metric in metrics],
        data.query_importance,
    )


def _seen(ranker: Ranking, data: RankingDataset, metrics: Sequence[Metric], unjudged: str) -> _Seen:
    lists = lists_of(ranker, data, condensed=unjudged == "condensed")
    values = [metric.of(lists.queries) for metric in metrics]
    if lists.found is None or not isinstance(ranker, TrecRun):
        return _Seen(RankerValues(values, None), lists.facts)
    shares = [
        _unjudged_share(ranker, lists.found, data.n_queries, top_of(metric)) for metric in metrics
    ]
    if unjudged == "skip":
        for of_metric, share in zip(values, shares, strict=True):
            of_metric[share > 0] = np.nan
    return _Seen(RankerValues(values, shares), lists.facts)


def _unjudged_share(
    run: TrecRun, found: RankedDocuments, n_queries: int, top: int | None
) -> Vector:
    """The share of unjudged documents among the first of each query's list; NaN without a list."""
    order = np.lexsort((-run.scores[found.rows], found.query))
    query, open_ones = found.query[order], ~found.judged[order]
    if top is not None:
        starts = np.searchsorted(query, np.arange(n_queries))
        kept = np.arange(len(query)) - starts[query] < top
        query, open_ones = query[kept], open_ones[kept]
    listed = np.bincount(query, minlength=n_queries)
    shares: NDArray[np.float64] = np.full(n_queries, np.nan)
    np.divide(np.bincount(query, open_ones, n_queries), listed, out=shares, where=listed > 0)
    return shares


def _joined(ranker: Ranking, parts: Sequence[_Seen]) -> RankerValues:
    """The values of all parts, and what makes them doubtful."""
    warnings = list_warnings(ranker, [one.facts for one in parts])
    values = [np.concatenate(one) for one in zip(*(p.values.values for p in parts), strict=True)]
    shares = [one.values.unjudged for one in parts if one.values.unjudged is not None]
    joined = [np.concatenate(one) for one in zip(*shares, strict=True)] if shares else None
    return RankerValues(values, joined, tuple(warnings))
