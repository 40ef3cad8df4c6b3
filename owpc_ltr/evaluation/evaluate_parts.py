"""Metrics over a folder of parts: nothing is kept but a few numbers a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.evaluation.evaluate import Measured, tie_warnings
from owpc_ltr.metrics import Metric, RankedQueries, tied_share, uneven
from owpc_ltr.models.reordering import ReorderingModel, dataset_scores
from owpc_ltr.protocols import Model

Ranking = Model | ReorderingModel | TrecRun


class Scored(NamedTuple):
    """The figures of a ranker, what makes them doubtful, and the queries' weights if they vary."""

    measured: tuple[Measured, ...]
    warnings: tuple[str, ...]
    weights: Vector | None


class _Part(NamedTuple):
    """What is kept of a part: each metric's values, those of no ranker, weights, and ties."""

    values: list[Vector]
    baselines: list[Vector]
    weights: Vector
    documents: int
    tied: float
    lowest: float
    highest: float


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
    tied = sum(part.tied for part in parts) / sum(part.documents for part in parts)
    alike = min(part.lowest for part in parts) == max(part.highest for part in parts)
    return Scored(tuple(measured), tuple(tie_warnings(tied, alike=alike)), weights)


def _measured(ranker: Ranking, part: RankingDataset, metrics: Sequence[Metric]) -> _Part:
    scores = dataset_scores(ranker, part)
    queries = RankedQueries(scores, part.labels, part.offsets)
    nothing = RankedQueries(np.zeros(len(scores)), part.labels, part.offsets)
    return _Part(
        [metric.of(queries) for metric in metrics],
        [metric.of(nothing) for metric in metrics],
        part.query_importance,
        len(scores),
        tied_share(scores, part.offsets) * len(scores),
        float(scores.min()),
        float(scores.max()),
    )
