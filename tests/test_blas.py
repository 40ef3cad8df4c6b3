"""Fits have one thread of BLAS, in training and in selection, and leave its limits as they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.host.registry import load
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Run
from owpc_ltr.training.candidates import train_plan
from owpc_ltr.training.cross_validation import cross_validate, cut_folds
from owpc_ltr.training.plan import Plan

OWPC = load().find("loss", "owpc")
SEEN: list[int] = []


def blas_threads() -> int:
    return max(int(p["num_threads"]) for p in threadpool_info() if p["user_api"] == "blas")


@dataclass(frozen=True)
class Spy:
    """An optimizer that notes how many threads BLAS has."""

    name: ClassVar[str] = "spy"
    needs_convex: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = True

    C: float = 1.0

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        SEEN.append(blas_threads())
        return Fit(LinearModel(data.feature_names, np.ones(data.n_features)), Certificate(0.0))


@pytest.mark.parametrize("way", ["train", "select"])
def test_fits_have_one_thread_of_blas(way: str, rng: np.random.Generator) -> None:
    data = make_dataset(
        rng.random((60, 3), dtype=np.float32), np.tile([0.0, 1.0], 30), np.repeat(np.arange(12), 5)
    )
    plan = Plan(OWPC, Spy, {"optimizer.C": "1"}, {}, "map", "none")
    SEEN.clear()
    with threadpool_limits(2, "blas"):
        if way == "train":
            train_plan(data, plan, Run())
        else:
            list(cross_validate(cut_folds(data, 3), [plan], ["map"], Run(), jobs=2))
        assert blas_threads() == 2
    assert SEEN
    assert set(SEEN) == {1}
