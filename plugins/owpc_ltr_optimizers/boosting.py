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

import gc
import json
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import (
    JudgedTable,
    Member,
    PartitionedDataset,
    WorkerParts,
    scratch_folder,
)
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.formats.xgboost_json import from_raw
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.kernel import bind, losses_of_scores
from owpc_ltr.metrics.metric import uneven
from owpc_ltr.metrics.training_metrics import Judge, JudgedLabels
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Optimizer, Run

if TYPE_CHECKING:
    from xgboost import QuantileDMatrix
    from xgboost.tracker import RabitTracker

Matrices = tuple[Any, Any]
"""XGBoost's matrix to train on, and that of the validation queries or None."""
_HIGHEST_GRADE = 31  # that XGBoost's gain 2^grade − 1 takes


@contextmanager
def refusing() -> Iterator[None]:
    """What XGBoost says of data that it does not take, in one line."""
    import xgboost

    try:
        yield
    except xgboost.core.XGBoostError as error:
        raise Refused(f"XGBoost refuses the data: {str(error).splitlines()[-1]}") from error


def in_external_memory(
    data: PartitionedDataset,
    run: Run,
    bins: int,
    objective: str | None,
    grow: Callable[[Matrices], Fit],
    ref: QuantileDMatrix | None = None,
) -> Fit:
    """What is grown on matrices whose bins are in a temporary folder, which lasts no longer.

    `objective` is XGBoost's own, if it is. With a matrix as `ref`, features are cut into its bins.
    """
    scratch = tempfile.TemporaryDirectory(prefix="owpc-ltr-", dir=scratch_folder())
    with scratch as folder, refusing():
        try:
            return grow(_on_disk(data, run, bins, objective, folder=folder, ref=ref))
        except BaseException as error:
            _let_go(error)
            raise
        finally:
            # The matrices remove their files themselves, before the folder goes: what XGBoost
            # holds in circles as well. Later, and in another thread, they would complain of it.
            gc.collect()


def _let_go(error: BaseException | None) -> None:
    """Forget what was at work when it failed, the matrices too; where that was is still known."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _on_disk(
    data: PartitionedDataset,
    run: Run,
    bins: int,
    objective: str | None,
    folder: str,
    ref: QuantileDMatrix | None,
) -> Matrices:
    import xgboost

    options: dict[str, Any] = {"max_bin": bins, "nthread": run.threads, "missing": np.nan}
    batches = _batches(data, f"{folder}/t", objective)
    matrix = xgboost.ExtMemQuantileDMatrix(batches, ref=ref, **options)
    if isinstance(run.validation, PartitionedDataset):
        batches = _batches(run.validation, f"{folder}/v", None)
        return matrix, xgboost.ExtMemQuantileDMatrix(batches, ref=matrix, **options)
    if run.validation is not None:
        return matrix, xgboost.QuantileDMatrix(run.validation.features, ref=matrix, **options)
    return matrix, None


def _batches(data: PartitionedDataset, prefix: str, objective: str | None) -> Any:
    """The parts as XGBoost asks for them, several times, one after another."""
    import xgboost

    class Batches(xgboost.DataIter):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(cache_prefix=prefix)
            self.reset()

        def reset(self) -> None:
            self.parts, self.queries = data.each(lambda part: part), 0

        def next(self, input_data: Callable[..., None]) -> bool:
            part = next(self.parts, None)
            if part is None:
                return False
            labels = {} if objective is None else what_own_objectives_need(objective, part)
            if "qid" in labels:
                labels["qid"] = labels["qid"] + self.queries
            self.queries += part.n_queries
            input_data(data=part.features, **labels)
            return True

    return Batches()


def what_own_objectives_need(objective: str, data: RankingDataset) -> dict[str, Any]:
    """Labels, queries and their weights, as XGBoost's own objectives take them.

    Raises Refused where they cannot.
    """
    labels = data.labels
    if data.document_weights is not None:
        raise Refused(
            f"XGBoost's {objective} weighs queries, not documents, and the data has document "
            "weights: leave them out, or use objective=loss"
        )
    malformed = (labels != np.floor(labels)) | (labels > _HIGHEST_GRADE)
    if objective == "rank:ndcg" and malformed.any():
        linear = " and loss.gain=linear" if labels.max() > _HIGHEST_GRADE else ""
        raise Refused(
            f"XGBoost's rank:ndcg takes whole grades up to {_HIGHEST_GRADE}, not "
            f"{labels[malformed][0]:g}: use objective=loss with `loss='lambdarank'`{linear}"
        )
    weights = {} if data.query_weights is None else {"weight": data.query_weights}
    return {
        "label": (labels > 0).astype(np.float32) if objective == "rank:map" else labels,
        "qid": np.repeat(np.arange(data.n_queries), np.diff(data.offsets)),
        **weights,
    }


_NOTHING = 1e-30  # beside a mean curvature of 1; float32 has no finer grid much below it


class Newton:
    """A loss as XGBoost's objective: gradient and curvature of every document."""

    def __init__(self, loss: Loss, data: JudgedTable, threads: int) -> None:
        self.loss, self.data, self.threads = loss, data, threads
        self.bound = bind(loss)
        self.importance = _importance(data)
        self.largest = np.zeros(0 if self.bound.has_curvature else data.n_documents)
        self.unit = 0.0
        self.risks: list[float] = []

    def __call__(self, scores: NDArray[np.float32], _matrix: object) -> tuple[Vector, Vector]:
        """The gradient and the curvature at these scores."""
        risk, gradient, curvature = self._losses(scores)
        self.risks.append(risk)
        if not np.isfinite(self.risks[-1]):
            raise Refused(
                f"loss '{self.loss.name}' became {self.risks[-1]} at tree {len(self.risks)}: use "
                "a smaller eta, or a larger leaf"
            )
        if not self.bound.has_curvature:
            np.maximum(self.largest, np.abs(gradient), out=self.largest)
            curvature = self.largest
        if self.importance is not None:
            gradient, curvature = gradient * self.importance, curvature * self.importance
        if not self.unit:
            mean = self.mean_of(curvature)
            self.unit = 1.0 / mean if mean > 0 else 1.0
        gradient, curvature = gradient * self.unit, curvature * self.unit
        gradient = _on_grid(gradient, self.largest_of(gradient))
        return gradient, _on_grid(curvature, self.largest_of(curvature))

    def total(self, risks: list[float]) -> float:
        """The risk of all data, from those of the parts that are here."""
        # One after another: the built-in sum compensates its rounding from Python 3.12 on.
        return float(np.add.accumulate([0.0, *risks])[-1])

    def mean_of(self, curvature: Vector) -> float:
        """The mean over the documents of all data."""
        return float(curvature.mean())

    def largest_of(self, values: Vector) -> float:
        """The largest size of a value of all data."""
        return float(np.abs(values).max(initial=0.0))

    def risk_of(self, score: Callable[[Matrix], Vector]) -> float:
        """The weighted sum of the losses, by how features are scored."""
        parts = self.data.each(lambda part: self._of(part, score(part.features))[0])
        return self.total(list(parts))

    def _losses(self, scores: NDArray[np.float32]) -> tuple[float, Vector, Vector]:
        """The risk, and gradient and curvature of every document, without the queries' weights."""
        gradient = np.empty(self.data.n_documents)
        curvature = np.empty(len(gradient) if self.bound.has_curvature else 0)
        risks: list[float] = []
        first = 0
        for part in self.data.each(lambda part: part):
            rows = slice(first, first + part.n_documents)
            risk, gradient[rows], bends = self._of(part, scores[rows].astype(np.float64))
            risks.append(risk)
            if self.bound.has_curvature:
                curvature[rows] = bends
            first = rows.stop
        return self.total(risks), gradient, curvature

    def _of(self, data: RankingDataset, scores: Vector) -> tuple[float, Vector, Vector]:
        values, gradient, curvature = losses_of_scores(data, self.bound, scores, self.threads)
        return float(values @ data.query_importance), gradient, curvature


def _importance(data: JudgedTable) -> Vector | None:
    """The weight of each document's query; None where they have none."""
    if "query_weights" not in data.columns:
        return None
    return np.concatenate(
        list(data.each(lambda part: np.repeat(part.query_importance, np.diff(part.offsets))))
    )


def _on_grid(values: Vector, largest: float) -> Vector:
    """Values rounded to multiples of 2⁻²⁴ of a power of two that bounds them: float32 exactly.

    `largest` is the size of the largest of all data.
    """
    if largest < _NOTHING:
        return np.zeros_like(values)
    step = np.exp2(np.ceil(np.log2(largest)) - 24)
    rounded: Vector = np.rint(values / step) * step
    return rounded


_TO_FIND_PAIRS, _PATIENCE_ALONE = 100, 50
"""How many trees of depth 2 are enough to tell which features meet; and the patience of those of
depth 1 before them."""

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
        few = min(self.trees, _TO_FIND_PAIRS)
        alone = replace(self, depth=1, trees=few)
        if run.validation is not None:
            patience = min(self.patience, _PATIENCE_ALONE)
            alone = replace(self, depth=1, patience=patience)
        scores = alone._grow(loss, data, run).model.score(data.features)
        above = replace(self, depth=2, trees=few)
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
        fit = self.grown(growth, run, Judge(run, self.patience), pairs, start)
        return replace(fit, after=partial(_first_trees, growth.booster, data.feature_names))

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


def _first_trees(booster: Any, names: tuple[str, ...], count: int) -> TreeModel:
    """The model of so many trees of a booster that has more."""
    return from_raw(_written(booster[:count]), names, slice_best=False)


def _written(booster: Any) -> dict[str, Any]:
    """The trees, as XGBoost writes them."""
    content: dict[str, Any] = json.loads(booster.save_raw("json"))
    return content


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
        return _written(self.booster[:trees])

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


def _wait_for(tracker: RabitTracker) -> None:
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

    def filled(self, values: ArrayLike) -> Vector:
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
