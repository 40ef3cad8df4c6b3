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
from owpc_ltr.metrics import Metric, RankedQueries, tied_share
from owpc_ltr.models.reordering import ReorderingModel, dataset_scores
from owpc_ltr.protocols import Model

Ranking = Model | ReorderingModel | TrecRun


class Scored(NamedTuple):
    """The figures of a ranker, and what makes them doubtful."""

    measured: tuple[Measured, ...]
    warnings: tuple[str, ...]


class _Part(NamedTuple):
    """What is kept of a part: each metric's values, those of no ranker, and ties."""

    values: list[Vector]
    baselines: list[Vector]
    documents: int
    tied: float
    lowest: float
    highest: float


def measure_parts(ranker: Ranking, data: PartitionedDataset, metrics: Sequence[Metric]) -> Scored:
    """Each metric of a ranker's scores, part by part; the same numbers as in memory."""

    def look(part: RankingDataset) -> _Part:
        return _measured(ranker, part, metrics)

    # A run and a reranker look at more than what is learned from.
    small = not isinstance(ranker, TrecRun | ReorderingModel)
    found: Iterable[_Part] = data.each(look) if small else map(look, data)
    parts = list(found)
    measured = []
    for number, metric in enumerate(metrics):
        values = np.concatenate([part.values[number] for part in parts])
        zero = metric.average(np.concatenate([part.baselines[number] for part in parts]))
        measured.append(Measured(metric, metric.average(values), values, zero))
    tied = sum(part.tied for part in parts) / sum(part.documents for part in parts)
    alike = min(part.lowest for part in parts) == max(part.highest for part in parts)
    return Scored(tuple(measured), tuple(tie_warnings(tied, alike=alike)))


def _measured(ranker: Ranking, part: RankingDataset, metrics: Sequence[Metric]) -> _Part:
    scores = dataset_scores(ranker, part)
    queries = RankedQueries(scores, part.labels, part.offsets)
    nothing = RankedQueries(np.zeros(len(scores)), part.labels, part.offsets)
    return _Part(
        [metric.of(queries) for metric in metrics],
        [metric.of(nothing) for metric in metrics],
        len(scores),
        tied_share(scores, part.offsets) * len(scores),
        float(scores.min()),
        float(scores.max()),
    )
