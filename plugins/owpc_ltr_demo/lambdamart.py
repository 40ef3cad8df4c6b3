"""The demo's rival: LambdaMART by XGBoost (rank:ndcg), chosen on validation queries.

It sees the same features and the same queries as the linear model, and is chosen by the same
metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.metrics import parse_metric
from owpc_ltr.training.plan import combinations

GRID: dict[str, tuple[Any, ...]] = {"max_depth": (3, 4, 6)}
_FIXED = {
    "objective": "rank:ndcg",
    "eta": 0.1,
    "tree_method": "hist",
    "lambdarank_pair_method": "topk",
    "lambdarank_num_pair_per_sample": 10,
    "eval_metric": "ndcg@10",
}
_MOST_TREES = 300
_PATIENCE = 30


@dataclass(frozen=True)
class LambdaMart:
    """The chosen trees, their settings, and their metric on the validation queries."""

    booster: Any
    trees: int
    settings: dict[str, Any]
    validation: float

    def score(self, features: Matrix) -> Vector:
        """One score a row; a missing value takes the branch that training chose for it."""
        import xgboost

        data = xgboost.DMatrix(features)
        scores = self.booster.predict(data, iteration_range=(0, self.trees))
        return np.asarray(scores, dtype=np.float64)


def fit_lambdamart(
    training: RankingDataset,
    validation: RankingDataset,
    metric: str,
    *,
    seed: int = 0,
    threads: int = 1,
) -> LambdaMart:
    """The best of the grid by a metric of the validation queries, each with its best length."""
    sets = _matrix(training), _matrix(validation)
    fixed = {**_FIXED, "nthread": threads, "seed": seed}
    measured = parse_metric(metric)
    best: LambdaMart | None = None
    for settings in combinations(GRID, "max_depth"):
        candidate = _fit(*sets, {**fixed, **settings})
        scores = candidate.score(validation.features)
        value = measured.mean(scores, validation.labels, validation.offsets)
        if best is None or value > best.validation:
            best = LambdaMart(candidate.booster, candidate.trees, settings, value)
    assert best is not None  # noqa: S101 - the grid is not empty
    return best


def _fit(training: Any, validation: Any, settings: dict[str, Any]) -> LambdaMart:
    import xgboost

    booster = xgboost.train(
        settings,
        training,
        num_boost_round=_MOST_TREES,
        evals=[(validation, "validation")],
        early_stopping_rounds=_PATIENCE,
        verbose_eval=False,
    )
    return LambdaMart(booster, booster.best_iteration + 1, settings, float("nan"))


def _matrix(data: RankingDataset) -> Any:
    import xgboost

    matrix = xgboost.DMatrix(data.features, label=data.labels)
    matrix.set_group(np.diff(data.offsets))
    return matrix
