"""One fit and its figures, of data in memory or in a folder of parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.metrics import Metric, RankedQueries, uneven
from owpc_ltr.protocols import Fit, Loss, Model, Optimizer, Run, StreamingOptimizer
from owpc_ltr.training.returned import checked_fit

Data = RankingDataset | PartitionedDataset


def fitted(optimizer: Optimizer, loss: Loss, data: Data, run: Run, start: Fit | None) -> Fit:
    """What the optimizer finds, looked at. TypeError for parts that it cannot go through."""
    if isinstance(data, RankingDataset):
        return checked_fit(optimizer.name, optimizer.minimise(loss, data, run, start), data)
    if not isinstance(optimizer, StreamingOptimizer):
        raise TypeError(f"{optimizer.name} does not stream")
    return checked_fit(optimizer.name, optimizer.minimise_parts(loss, data, run, start), data.head)


def mean_of(metric: Metric, model: Model, data: Data) -> float:
    """The mean of a metric over the queries of some data, weighted by their importance."""
    return metric.average(next(per_query([metric], model, data)), weights_of(data))


def weights_of(data: Data) -> Vector | None:
    """The importance of the queries; None where all are alike."""
    if isinstance(data, RankingDataset):
        return uneven(data.query_weights)
    if "query_weights" not in data.columns:
        return None
    return uneven(np.concatenate(list(data.each(lambda part: part.query_importance))))


def per_query(metrics: list[Metric], model: Model, data: Data) -> Iterator[Vector]:
    """The value of each query by each metric; the documents are sorted once for all."""

    def values(part: RankingDataset) -> list[Vector]:
        queries = RankedQueries(model.score(part.features), part.labels, part.offsets)
        return [metric.of(queries) for metric in metrics]

    if isinstance(data, RankingDataset):
        yield from values(data)
    else:
        yield from map(np.concatenate, zip(*data.each(values), strict=True))
