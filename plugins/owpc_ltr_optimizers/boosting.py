"""Boosting: XGBoost's trees on any loss of ours, or on XGBoost's own rank objectives.

Each tree is a Newton step of the loss in the scores (Chen & Guestrin 2016): a leaf's output is
−eta Σ g / (Σ h + l2). A loss without a curvature h gets the largest |g| that the document has had
so far: a step then moves a document by 1 (the usual margin) at most, and vanishes with g.

Losses are means over documents or pairs, so that g and h shrink with the length of a query. Both
are multiplied by what makes the mean h of a document 1 at the start: `leaf` and `l2` then count
documents, whatever the loss. They are rounded to multiples of 2⁻²⁴ of the largest, whose sums in
float64 are exact: the trees are the same for any number of threads.

Dask workers grow trees together: XGBoost adds up the histograms of all workers. What would depend
on who has which part is settled before: bins are cut by the same first parts everywhere, gradients
are on one grid, and risks and means are added by part. So the trees are the same, bit for bit, for
any number of workers, unless rows are drawn (`subsample`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from threading import Thread
from typing import Any, ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import JudgedTable, Member, PartitionedDataset, WorkerParts
from owpc_ltr.errors import UsageError
from owpc_ltr.formats.xgboost_json import from_raw
from owpc_ltr.host.settings import check_settings
from owpc_ltr.metrics.metric import uneven
from owpc_ltr.metrics.training_metrics import Judge, JudgedLabels
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Optimizer, Run
from owpc_ltr_optimizers._xgboost_growth import (
    Matrices,
    Newton,
    in_external_memory,
    refusing,
    what_own_objectives_need,
)

_TO_FIND_PAIRS = 100
"""How many trees of depth 2 are enough to tell which features meet."""

_MANY_DOCUMENTS = 20_000
"""From so many on, trees are deeper; on fewer they learn the noise (benchmarks/first_model.py)."""

_SAMPLE = 64 << 20
"""Bytes of the first parts, whose quantiles cut the bins."""

_WAIT = 120
"""Seconds in which workers must find each other."""


@dataclass(frozen=True)
class Boosting:
    """Gradient-boosted trees (XGBoost) on the chosen loss, or with objective=rank:ndcg and so on.

    Missing values stay missing: each split learns where they go. Trees do not depend on the
    units of the features, so feature scales are not looked at. `patience` is the number of trees
    without a better validation metric after which it stops; the best number is kept. `depth` is
    3 by default, and 4 from 20,000 documents on. `leaf` is the least curvature of a leaf, in
    documents: by default a hundredth of all, of 10 to 50, and 10 for XGBoost's own objectives.

    With `interactions` a path splits on one feature, or on both of one of so many pairs: those that
    gain most on top of what trees of one split make of each feature by itself. Such trees, with
    `bins` of 64 or fewer, run inside an engine that has no plugin. 0 leaves paths free.
    """

    name: ClassVar[str] = "boosting"
    needs_convex: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = True

    objective: Literal["loss", "rank:ndcg", "rank:map", "rank:pairwise"] = "loss"
    trees: int = 300
    depth: int | None = None
    eta: float = 0.1
    leaf: float | None = None
    l2: float = 1.0
    subsample: float = 1.0
    colsample: float = 1.0
    bins: int = 256
    interactions: int = 0
    patience: int = 50

    def __post_init__(self) -> None:
        check_settings(self)
        depth = 1 if self.depth is None else self.depth
        if min(self.trees, depth, self.patience) < 1 or self.bins < 2:
            raise ValueError("trees, depth and patience must be 1 or more, bins 2 or more")
        if self.interactions < 0:
            raise ValueError("interactions is a number of pairs of features, or 0 for any")
        if not (self.eta > 0 and (self.leaf or 0.0) >= 0 and self.l2 >= 0):
            raise ValueError("eta must be positive, leaf and l2 not negative")
        if not (0 < self.subsample <= 1 and 0 < self.colsample <= 1):
            raise ValueError("subsample and colsample are shares: above 0, and 1 at most")

    def minimise(self, loss: Loss, data: JudgedTable, run: Run, start: Fit | None = None) -> Fit:
        """Grow trees until the validation metric has not risen for `patience` of them."""
        del start
        own = self._for(data.n_documents)
        if isinstance(data, PartitionedDataset):
            return own._grow_by_parts(loss, data, run)
        return own._grow(loss, data, run, own._pairs(loss, data, run) if own._pairs_meet else None)

    @property
    def own_objective(self) -> str | None:
        """XGBoost's own objective; None where it is the loss."""
        return None if self.objective == "loss" else self.objective

    @property
    def _pairs_meet(self) -> bool:
        return self.interactions > 0 and self.depth != 1

    def _for(self, documents: int) -> Boosting:
        """The settings for so many documents."""
        share = documents / 100 if self.objective == "loss" else 0.0
        leaf = min(max(share, 10.0), 50.0) if self.leaf is None else self.leaf
        depth = (3 if documents < _MANY_DOCUMENTS else 4) if self.depth is None else self.depth
        return replace(self, leaf=leaf, depth=depth)

    def _pairs(self, loss: Loss, data: RankingDataset, run: Run) -> list[tuple[int, int]]:
        """The pairs that gain most on top of what validation leaves of trees of one split."""
        apart = replace(self, depth=1)._grow(loss, data, run)
        scores = apart.model.score(data.features)
        above = replace(self, depth=2, trees=min(self.trees, _TO_FIND_PAIRS))
        rest = above._grow(loss, data, replace(run, validation=None), start=scores)
        return strongest_pairs(rest.state, self.interactions)

    def _grow(
        self,
        loss: Loss,
        data: RankingDataset,
        run: Run,
        pairs: list[tuple[int, int]] | None = None,
        start: Vector | None = None,
    ) -> Fit:
        """The trees; with `pairs`, no others meet on a path.

        `start` are scores that the trees are added to: what XGBoost writes of them is the state.
        """
        matrices = _in_memory(self, data, run, start)
        growth = Growth(self, loss, data, run, matrices, pairs=pairs)
        return self.grown(growth, run, Judge(run, self.patience), pairs, start)

    def streams(self, loss: Loss) -> bool:
        """Any loss; pairs of features are looked for in memory."""
        del loss
        return not self._pairs_meet

    def _grow_by_parts(self, loss: Loss, data: PartitionedDataset, run: Run) -> Fit:
        """Grow trees on XGBoost's external memory: of each document only a few numbers are held."""
        if data.workers is not None:
            return grow_on_workers(self, loss, data, run)

        def grow(matrices: Matrices) -> Fit:
            growth = Growth(self, loss, data, run, matrices)
            return self.grown(growth, run, Judge(run, self.patience))

        return in_external_memory(data, run, self.bins, self.own_objective, grow)

    def grown(
        self,
        growth: Growth,
        run: Run,
        judge: Judge[int],
        pairs: list[tuple[int, int]] | None = None,
        start: Vector | None = None,
    ) -> Fit:
        """Trees until the validation metric has not risen for `patience` of them."""
        history: list[dict[str, float]] = []
        reason = f"stopped after {self.trees} trees"
        for number in range(1, self.trees + 1):
            row = {"pass": number} | growth.add_tree() | judge.see(number, growth.score_validation)
            history.append(row)
            shown = ", ".join(f"{name} {value:.4g}" for name, value in row.items())
            run.progress(f"boosting {shown}", number / self.trees)
            if judge.lost_patience:
                reason = f"{judge.verdict} tree {judge.best_number}"
                break
        assert judge.best is not None  # noqa: S101 - there is one tree at least
        content = growth.content(judge.best)
        names = growth.data.feature_names
        model = from_raw(content, names, slice_best=False)
        if pairs is not None:
            named = [[names[column] for column in pair] for pair in pairs]
            model = replace(model, record={**model.record, "interactions": named})
        certificate = growth.certificate(model, judge.best, reason)
        return Fit(model, certificate, tuple(history), None if start is None else content)

    def parameters(self, run: Run) -> dict[str, Any]:
        """The settings as XGBoost calls them."""
        return {
            **({"objective": self.own_objective} if self.own_objective else {}),
            "tree_method": "hist",
            "max_depth": self.depth,
            "eta": self.eta,
            "min_child_weight": self.leaf,
            "reg_lambda": self.l2,
            "subsample": self.subsample,
            "colsample_bytree": self.colsample,
            "max_bin": self.bins,
            "base_score": 0.0,
            "seed": run.seed,
            "nthread": run.threads,
            "disable_default_eval_metric": True,
            "verbosity": 0,
        }


class Growth:
    """XGBoost's booster, its binned matrices, and the loss that it follows."""

    def __init__(
        self,
        settings: Boosting,
        loss: Loss,
        data: JudgedTable,
        run: Run,
        matrices: Matrices,
        pairs: list[tuple[int, int]] | None = None,
        newton: Newton | None = None,
    ) -> None:
        import xgboost

        self.data, self.conservative = data, loss.conservative
        self.newton = None
        if settings.own_objective is None:
            self.newton = newton or Newton(loss, data, run.threads)
        self.matrix, self.validation = matrices
        # XGBoost keeps the scores of the matrices it knows: each tree is added to them once.
        cached = [matrix for matrix in matrices if matrix is not None]
        parameters = settings.parameters(run)
        if pairs is not None:
            # A list of none would be no constraint at all.
            alone = [[column] for column in range(data.n_features)]
            parameters["interaction_constraints"] = json.dumps(pairs or alone)
        self.booster = xgboost.Booster(parameters, cached)

    def add_tree(self) -> dict[str, float]:
        """Grow one more tree; the risk that it started from."""
        self.booster.update(self.matrix, self.booster.num_boosted_rounds(), self.newton)
        return {} if self.newton is None else {"risk_before": self.newton.risks[-1]}

    def score_validation(self, _features: Matrix) -> Vector:
        """The scores of the validation queries, from XGBoost's own bins of their features."""
        scores: Vector = self.booster.predict(self.validation, output_margin=True)
        return scores

    def content(self, trees: int) -> dict[str, Any]:
        """The first trees, as XGBoost writes them."""
        written: dict[str, Any] = json.loads(self.booster[:trees].save_raw("json"))
        return written

    def certificate(self, model: TreeModel, trees: int, reason: str) -> Certificate:
        """The risk, where the loss is the gradient's own; trees have no gap."""
        if self.newton is None or not self.conservative:
            return Certificate(float("nan"), passes=trees, stop_reason=reason)
        risk = self.newton.risk_of(model.score)
        at_zero = self.newton.risks[0]
        return Certificate(risk, passes=trees, risk=risk, risk_at_zero=at_zero, stop_reason=reason)


def strongest_pairs(content: Any, count: int) -> list[tuple[int, int]]:
    """The pairs of features that gain most in XGBoost's trees, of these so many.

    A split gains for its feature and that of the split above it.
    """
    gains: dict[tuple[int, int], float] = {}
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        splits, parents = tree["split_indices"], tree["parents"]
        for node, parent in enumerate(parents[1:], 1):
            if tree["left_children"][node] < 0 or splits[node] == splits[parent]:
                continue
            pair = min(splits[node], splits[parent]), max(splits[node], splits[parent])
            gains[pair] = gains.get(pair, 0.0) + float(tree["loss_changes"][node])
    return sorted(sorted(gains), key=lambda pair: -gains[pair])[:count]


def grow_on_workers(settings: Boosting, loss: Loss, data: PartitionedDataset, run: Run) -> Fit:
    """The trees of all data; a worker that dies has the others begin again."""
    if isinstance(run.validation, RankingDataset):
        raise UsageError("on workers, validation queries are a folder of parts too: give one")
    if settings.own_objective is not None:
        # Whoever fails alone would leave the others waiting.
        list(data.each(partial(_check, settings.own_objective)))
    quiet = Run(seed=run.seed, metric=run.metric)
    call = partial(_grow, settings=settings, loss=loss, run=quiet)
    several = [data] if run.validation is None else [data, run.validation]
    run.progress("boosting on workers", None)
    assert data.workers is not None  # noqa: S101 - told to the type checker
    fit = data.workers.together(_meet, call, *several)
    assert fit is not None  # noqa: S101 - the first worker's
    return fit


def _in_memory(
    settings: Boosting, data: RankingDataset, run: Run, start: Vector | None
) -> Matrices:
    import xgboost

    objective = settings.own_objective
    labels = {} if objective is None else what_own_objectives_need(objective, data)
    bins: dict[str, Any] = {"max_bin": settings.bins, "nthread": run.threads, "missing": np.nan}
    with refusing():
        matrix = xgboost.QuantileDMatrix(data.features, **labels, **bins, base_margin=start)
        if run.validation is None:
            return matrix, None
        return matrix, xgboost.QuantileDMatrix(run.validation.load().features, ref=matrix, **bins)


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
    member: Member, shares: Sequence[WorkerParts], settings: Boosting, loss: Loss, run: Run
) -> Fit | None:
    """A worker's side; the first one's result is that of all."""
    from xgboost.collective import CommunicatorContext

    training = shares[0]
    validation = shares[1] if len(shares) > 1 else None
    own_queries = None if validation is None else validation.own
    run = replace(run, threads=member.threads, validation=own_queries)
    objective, bins = settings.own_objective, _bins(training.whole, settings.bins, member.threads)
    group = {**member.meeting, "dmlc_task_id": f"{member.number:05d}", "dmlc_retry": 1}
    newton = _JointNewton(loss, training, member.threads) if objective is None else None

    def grow(matrices: Matrices) -> Fit:
        growth = Growth(settings, loss, training.own, run, matrices, newton=newton)
        return settings.grown(growth, run, _JointJudge(run, settings.patience, validation))

    # XGBoost prints who has which rank.
    with redirect_stdout(StringIO()), CommunicatorContext(**group):
        fit = in_external_memory(training.own, run, settings.bins, objective, grow=grow, ref=bins)
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

    def __init__(self, loss: Loss, share: WorkerParts, threads: int) -> None:
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
        sums = [float(part.sum()) for part in np.split(curvature, self.cuts)]
        return self.total(sums) / self.documents

    def largest_of(self, values: Vector) -> float:
        """The largest size of a value of all data."""
        from xgboost.collective import Op, allreduce

        return float(allreduce(np.array([super().largest_of(values)]), Op.MAX)[0])


class _JointJudge(Judge[int]):
    """The judge of all workers: each has the scores of its own validation queries."""

    def __init__(self, run: Run, patience: int, share: WorkerParts | None) -> None:
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


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer boosting`."""
    return [Boosting]
