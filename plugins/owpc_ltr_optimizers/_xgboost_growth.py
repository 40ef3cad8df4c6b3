"""Growth: XGBoost's booster, which gets one tree after another, and the loss that it follows."""

from __future__ import annotations

import gc
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import JudgedTable, PartitionedDataset, scratch_folder
from owpc_ltr.errors import Refused
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import losses_of_scores
from owpc_ltr.protocols import Fit, Loss, Run

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
    ref: Any = None,
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
    data: PartitionedDataset, run: Run, bins: int, objective: str | None, folder: str, ref: Any
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
        raise Refused(
            f"XGBoost's rank:ndcg takes whole grades up to {_HIGHEST_GRADE}, not "
            f"{labels[malformed][0]:g}: use objective=loss with --loss lambdarank"
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

    def __call__(self, scores: NDArray[np.float32], _matrix: Any) -> tuple[Vector, Vector]:
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
