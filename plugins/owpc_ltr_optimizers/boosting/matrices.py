"""Matrices: the features in XGBoost's bins, in memory or in files of its own."""

from __future__ import annotations

import gc
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.partitioned.spool import scratch_folder
from owpc_ltr.errors import Refused
from owpc_ltr.protocols import Fit, Run

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
            return grow(_on_disk(data, run, bins, objective, folder, ref))
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

    asked: dict[str, Any] = {"max_bin": bins, "nthread": run.threads, "missing": np.nan}
    batches = _batches(data, f"{folder}/t", objective)
    matrix = xgboost.ExtMemQuantileDMatrix(batches, ref=ref, **asked)
    if run.validation_parts is not None:
        batches = _batches(run.validation_parts, f"{folder}/v", None)
        return matrix, xgboost.ExtMemQuantileDMatrix(batches, ref=matrix, **asked)
    if run.validation is not None:
        return matrix, xgboost.QuantileDMatrix(run.validation.features, ref=matrix, **asked)
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
            known = {} if objective is None else what_own_objectives_need(objective, part)
            if "qid" in known:
                known["qid"] = known["qid"] + self.queries
            self.queries += part.n_queries
            input_data(data=part.features, **known)
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
    strange = (labels != np.floor(labels)) | (labels > _HIGHEST_GRADE)
    if objective == "rank:ndcg" and strange.any():
        raise Refused(
            f"XGBoost's rank:ndcg takes whole grades up to {_HIGHEST_GRADE}, not "
            f"{labels[strange][0]:g}: use objective=loss with --loss lambdarank"
        )
    sizes = np.diff(data.offsets)
    known = {
        "label": (labels > 0).astype(np.float32) if objective == "rank:map" else labels,
        "qid": np.repeat(np.arange(data.n_queries), sizes),
    }
    return known if data.query_weights is None else known | {"weight": data.query_weights}
