"""Metrics over a folder of parts: nothing is kept but a few numbers a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.evaluation.evaluate import Measured
from owpc_ltr.evaluation.ranked_lists import ListFacts, Ranking, list_warnings, lists_of
from owpc_ltr.metrics import Metric, RankedQueries, uneven
from owpc_ltr.models.reordering import ReorderingModel


class Scored(NamedTuple):
    """The figures of a ranker, what makes them doubtful, and the queries' weights if they vary."""

    measured: tuple[Measured, ...]
    warnings: tuple[str, ...]
    weights: Vector | None


class _Part(NamedTuple):
    """What is kept of a part: each metric's values, those of no ranker, weights, and doubts."""

    values: list[Vector]
    baselines: list[Vector]
    weights: Vector
    facts: ListFacts


def measure_parts(
    ranker: Ranking, data: PartitionedDataset, metrics: Sequence[Metric], *, weighted: bool = False
) -> Scored:
    """Each metric of a ranker's scores, part by part; the same numbers as in memory.

    `weighted`: means weigh queries by their importance.
    """

    def look(part: RankingDataset) -> _Part:
        return _measured(ranker, part, metrics)

    # A run and a reranker look at more than what is learned from.
    small = not isinstance(ranker, TrecRun | ReorderingModel)
    found: Iterable[_Part] = data.each(look) if small else map(look, data)
    parts = list(found)
    measured = []
    weights = uneven(np.concatenate([part.weights for part in parts])) if weighted else None
    for number, metric in enumerate(metrics):
        values = np.concatenate([part.values[number] for part in parts])
        zero = np.concatenate([part.baselines[number] for part in parts])
        means = [metric.average(one, weights) for one in (values, zero)]
        measured.append(Measured(metric, means[0], values, means[1]))
    told = list_warnings(ranker, [part.facts for part in parts], tell_unjudged=True)
    return Scored(tuple(measured), tuple(told), weights)


def _measured(ranker: Ranking, part: RankingDataset, metrics: Sequence[Metric]) -> _Part:
    lists = lists_of(ranker, part)
    nothing = RankedQueries(np.zeros(part.n_documents), part.labels, part.offsets)
    return _Part(
        [metric.of(lists.queries) for metric in metrics],
        [metric.of(nothing) for metric in metrics],
        part.query_importance,
        lists.facts,
    )
