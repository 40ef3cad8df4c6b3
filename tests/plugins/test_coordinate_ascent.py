"""Coordinate ascent: what it reaches is a maximum along every weight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.coordinate_ascent import _STEPS, CoordinateAscent

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.arrays import Vector
from owpc_ltr.kernels.kernel import linear_scores
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Fit, Run

METRIC = parse_metric("map")


def problem(seed: int, queries: int = 12, documents: int = 10) -> RankingDataset:
    generator = np.random.default_rng(seed)
    rows = queries * documents
    X = generator.normal(size=(rows, 4)).astype(np.float32)
    utility = X[:, 0] - 2 * X[:, 1] + 0.5 * generator.normal(size=rows)
    labels = (utility > 1).astype(np.float32)
    weights = generator.random(queries) + 0.5
    return make_dataset(X, labels, np.repeat(np.arange(queries), documents), query_weights=weights)


def fit(data: RankingDataset, run: Run | None = None, **options: Any) -> Fit:
    return CoordinateAscent(**options).minimise(OWPC(), data, run or Run())


def value(data: RankingDataset, w: Vector) -> float:
    per_query = METRIC.per_query(data.features @ w, data.labels, data.offsets)
    return float(np.average(per_query, weights=data.query_importance))


def weights_of(solution: Fit) -> Vector:
    return np.array(solution.model.as_dict()["weights"])


@pytest.mark.parametrize("seed", range(3))
def test_no_step_along_one_weight_gains_anything(seed: int) -> None:
    data = problem(seed)
    solution = fit(data, restarts=1, passes=200, tolerance=0.0)
    w = weights_of(solution)
    reached = value(data, w)
    assert reached == pytest.approx(solution.certificate.objective, abs=1e-9)
    for k in range(4):
        for step in (*_STEPS / 4, *-_STEPS / 4, -w[k]):
            assert value(data, w + step * np.eye(4)[k]) <= reached + 1e-9


def step_by_step(data: RankingDataset, metric: str, seed: int, restarts: int) -> tuple[Any, Vector]:
    """The same climbs, one look at the metric a step: history and best weights."""
    measured, rows, best = parse_metric(metric), list[float](), (-np.inf, np.zeros(4))
    importance = data.query_importance / data.query_importance.sum()
    sign, generator = (1.0 if measured.higher_is_better else -1.0), np.random.default_rng(seed)

    def look(w: Vector) -> tuple[Vector, float]:
        scores = linear_scores(data.features, w)
        return scores, price(scores)

    def price(scores: Vector) -> float:
        values = measured.per_query(scores, data.labels, data.offsets)
        return float(importance @ (values if sign > 0 else 1.0 - values))

    for restart in range(restarts):
        w = generator.normal(size=4) if restart else np.ones(4)
        w = w / np.abs(w).sum()
        scores, reached = look(w)
        for _ in range(25):
            before = reached
            for k in generator.permutation(4):
                column = data.features[:, k].astype(np.float64)
                steps = np.concatenate((_STEPS / 4, -_STEPS / 4, [-w[k]]))
                prices = [price(scores + step * column) for step in steps]
                taken = int(np.argmax(prices))
                if prices[taken] > reached:
                    reached = prices[taken]
                    w[k] += steps[taken]
                    scores += steps[taken] * column
            w /= np.abs(w).sum()
            scores, reached = look(w)
            rows.append(reached)
            if reached - before <= 1e-3:
                break
        best = max(best, (reached, w), key=lambda pair: pair[0])
    return rows, best[1]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))]
)
@pytest.mark.parametrize(
    "metric", ["map", "ndcg@5", "mrr", "winner-takes-all", "pairwise-error,empty=zero"]
)
def test_all_steps_at_once_are_the_steps_one_by_one(metric: str, seed: int) -> None:
    data = problem(seed + 20, queries=15)
    rows, w = step_by_step(data, metric, seed, restarts=3)
    solution = fit(data, Run(seed=seed, metric=metric), restarts=3)
    assert [row["metric"] for row in solution.history] == rows
    np.testing.assert_array_equal(weights_of(solution), w.astype(np.float32))


def test_weights_sum_to_one_and_find_the_signs() -> None:
    w = weights_of(fit(problem(3, queries=40)))
    assert np.abs(w).sum() == pytest.approx(1, abs=1e-6)
    assert w[0] > 0 > w[1]
    assert abs(w[1]) > abs(w[0]) > abs(w[2:]).max()


def test_each_pass_gains_and_more_restarts_never_lose() -> None:
    data = problem(4)
    history = fit(data, restarts=4, tolerance=0.0).history
    for restart in range(4):
        climbed = [row["metric"] for row in history if row["restart"] == restart]
        assert np.all(np.diff(climbed) >= -1e-12)
    reached = [fit(data, restarts=n).certificate.objective for n in (1, 2, 4)]
    assert reached == sorted(reached)


def test_an_error_is_brought_down() -> None:
    data, error = problem(7), parse_metric("pairwise-error")
    solution = fit(data, Run(metric="pairwise-error"))
    start = error.mean(data.features.sum(axis=1), data.labels, data.offsets)
    assert error.mean(solution.model.score(data.features), data.labels, data.offsets) < start


def test_features_that_say_nothing_leave_the_model_where_it_started() -> None:
    data = problem(10)
    solution = fit(replace(data, features=np.zeros_like(data.features)), restarts=1)
    assert weights_of(solution) == pytest.approx(np.full(4, 0.25))
