"""The default, trained quickly: what trials ask whether anything can be learned at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.scaling import with_scales
from owpc_ltr.host.registry import load
from owpc_ltr.kernels.linear import one_blas_thread
from owpc_ltr.metrics import Metric, RankedQueries, parse_metric
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.fit import fitted
from owpc_ltr.training.plan import model_plan

Learn = Callable[[RankingDataset], Model]
METRIC = "ndcg@10"
_C = 0.01
"""Small: on OHSUMED it is the best on a few dozen queries, on movies .001 below the best."""


def default_learner(seed: int = 0) -> Learn:
    """What trains `owpc` by `larank` with a small C."""
    plan = model_plan(load(()), settings={"C": _C})
    loss, optimizer = plan.make(plan.candidates()[0])

    def learn(data: RankingDataset) -> Model:
        with one_blas_thread():
            scaled = with_scales(data, plan.normalise)
            return fitted(optimizer, loss, scaled, Run(seed=seed), None).model

    return learn


def trial_metric() -> Metric:
    """The metric of all trials."""
    return parse_metric(METRIC, load(()))


def values_of(metric: Metric, model: Model, data: RankingDataset) -> Vector:
    """The metric of each query."""
    return metric.of(RankedQueries(model.score(data.features), data.labels, data.offsets))


def random_values(metric: Metric, data: RankingDataset) -> Vector:
    """The expected metric of each query in a random order."""
    return metric.of(RankedQueries(np.zeros(data.n_documents), data.labels, data.offsets))


def with_contrast(data: RankingDataset, most: int, seed: int) -> RankingDataset:
    """At most so many queries of several grades, in a random order."""
    highest = np.maximum.reduceat(data.labels, data.offsets[:-1])
    lowest = np.minimum.reduceat(data.labels, data.offsets[:-1])
    telling = np.flatnonzero(highest > lowest)
    return data.select(np.random.default_rng(seed).permutation(telling)[:most])
