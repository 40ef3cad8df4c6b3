"""Trees that Dask workers grow together: each has the bins of its parts, and sums are everybody's.

XGBoost adds up the histograms of all workers. What would depend on who has which part is settled
before: bins are cut by the same first parts everywhere, gradients are rounded to one grid, on which
sums are exact in any order, and risks and means are added by part. So the trees are the same, bit
for bit, for any number of workers, unless rows are drawn (`subsample`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.errors import UsageError
from owpc_ltr.metrics.metric import uneven
from owpc_ltr.metrics.training_metrics import Judge, JudgedLabels
from owpc_ltr.protocols import Fit, Loss, Run
from owpc_ltr_optimizers.boosting.growth import (
    Growth,
    Matrices,
    Newton,
    Settings,
    in_external_memory,
    refusing,
    what_own_objectives_need,
)

if TYPE_CHECKING:
    from owpc_ltr_dask.parts import Member, Share

_SAMPLE = 64 << 20
"""Bytes of the first parts, whose quantiles cut the bins."""
_WAIT = 120
"""Seconds in which workers must find each other."""


def grow_on_workers(settings: Settings, loss: Loss, data: PartitionedDataset, run: Run) -> Fit:
    """The trees of all data; a worker that dies has the others begin again."""
    from owpc_ltr_dask.parts import together

    if run.validation is not None:
        raise UsageError("on workers, validation queries are a folder of parts too: give one")
    own = None if settings.objective == "loss" else settings.objective
    if own is not None:
        # Whoever fails alone would leave the others waiting.
        list(data.each(partial(_check, own)))
    quiet = Run(seed=run.seed, metric=run.metric)
    call = partial(_grow, settings=settings, loss=loss, run=quiet)
    several = [data] if run.validation_parts is None else [data, run.validation_parts]
    run.progress("boosting on workers", None)
    fit = together(_meet, call, *several)
    assert fit is not None  # noqa: S101 - the first worker's
    return fit


def _check(objective: str, part: RankingDataset) -> None:
    what_own_objectives_need(objective, part)


def _meet(workers: int) -> Mapping[str, Any]:
    """Where the workers find each other: at the first of them."""
    from distributed import get_worker
    from distributed.comm import get_address_host
    from xgboost.tracker import RabitTracker

    host = get_address_host(get_worker().address)
    tracker = RabitTracker(workers, host, sortby="task", timeout=_WAIT)
    tracker.start()
    # It lives until all have parted.
    Thread(target=_wait_for, args=(tracker,), daemon=True).start()
    arguments: Mapping[str, Any] = tracker.worker_args()
    return arguments


def _wait_for(tracker: Any) -> None:
    from xgboost.core import XGBoostError

    try:
        tracker.wait_for()
    except XGBoostError:
        return  # one has ended, which is seen elsewhere


def _grow(
    member: Member, shares: Sequence[Share], settings: Settings, loss: Loss, run: Run
) -> Fit | None:
    """A worker's side; the first one's result is that of all."""
    from xgboost.collective import CommunicatorContext

    training = shares[0]
    validation = shares[1] if len(shares) > 1 else None
    run = replace(
        run, threads=member.threads, validation_parts=None if validation is None else validation.own
    )
    own = None if settings.objective == "loss" else settings.objective
    bins = _bins(training.whole, settings.bins, member.threads)
    group = {**member.meeting, "dmlc_task_id": f"{member.number:05d}", "dmlc_retry": 1}
    newton = None if own is not None else _JointNewton(loss, training, member.threads)

    def grow(matrices: Matrices) -> Fit:
        growth = Growth(settings, loss, training.own, run, matrices, newton=newton)
        return settings.grown(growth, run, _JointJudge(run, settings.patience, validation))

    # XGBoost prints who has which rank.
    with redirect_stdout(StringIO()), CommunicatorContext(**group):
        fit = in_external_memory(training.own, run, settings.bins, own, grow, bins)
    return fit if member.number == 0 else None


def _bins(data: PartitionedDataset, bins: int, threads: int) -> Any:
    """A matrix of the first parts: all workers cut features where it does."""
    import xgboost

    sizes = np.cumsum([4 * data.n_features * piece.documents for piece in data.pieces])
    first = replace(data, pieces=data.pieces[: 1 + int(np.searchsorted(sizes, _SAMPLE))])
    features = np.concatenate([part.features for part in first])
    with refusing():
        return xgboost.QuantileDMatrix(features, max_bin=bins, nthread=threads, missing=np.nan)


@dataclass(frozen=True)
class _Slots:
    """Numbers that each worker has some of, at the places that they have in all data."""

    size: int
    own: Any

    def filled(self, values: Any) -> Vector:
        """All of them, from each worker's own: the others' are zero, so that sums are exact."""
        from xgboost.collective import Op, allreduce

        whole = np.zeros(self.size)
        whole[self.own] = values
        together: Vector = allreduce(whole, Op.SUM)
        return together


class _JointNewton(Newton):
    """A loss as the objective of all workers."""

    def __init__(self, loss: Loss, share: Share, threads: int) -> None:
        super().__init__(loss, share.own, threads)
        self.slots = _Slots(len(share.whole.pieces), list(share.numbers))
        self.documents = share.whole.n_documents
        sizes = [share.whole.pieces[number].documents for number in share.numbers]
        self.cuts = np.cumsum(sizes)[:-1]

    def total(self, risks: list[float]) -> float:
        """The risk of all data, added by part."""
        return super().total(self.slots.filled(risks).tolist())

    def mean_of(self, curvature: Vector) -> float:
        """The mean over the documents of all data, added by part."""
        return self.total([float(part.sum()) for part in np.split(curvature, self.cuts)]) / (
            self.documents
        )

    def largest_of(self, values: Vector) -> float:
        """The largest size of a value of all data."""
        from xgboost.collective import Op, allreduce

        return float(allreduce(np.array([super().largest_of(values)]), Op.MAX)[0])


class _JointJudge(Judge[int]):
    """The judge of all workers: each has the scores of its own validation queries."""

    def __init__(self, run: Run, patience: int, share: Share | None) -> None:
        super().__init__(run, patience)
        self.weights: Vector | None = None
        if share is not None:
            sizes = [piece.queries for piece in share.whole.pieces]
            ends = np.cumsum(sizes)
            own = [np.arange(ends[n] - sizes[n], ends[n]) for n in share.numbers]
            self.slots = _Slots(int(ends[-1]), np.concatenate(own))

    def mean_of(self, scores: Vector, queries: RankingDataset | JudgedLabels) -> float:
        """The mean of the metric over all validation queries, weighted by their importance."""
        values = self.metric.per_query(scores, queries.labels, queries.offsets)
        if self.weights is None:
            self.weights = self.slots.filled(queries.query_importance)
        return self.metric.average(self.slots.filled(values), uneven(self.weights))
