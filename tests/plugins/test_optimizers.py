"""What optimizers have in common: a general solver's optimum, warm starts, weights, threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers.adarank import AdaRank
from owpc_ltr_optimizers.boosting import Boosting
from owpc_ltr_optimizers.bundle import Bundle
from owpc_ltr_optimizers.coordinate_ascent import CoordinateAscent
from owpc_ltr_optimizers.gradient import Gradient
from owpc_ltr_optimizers.larank import LaRank
from owpc_ltr_optimizers.rankboost import RankBoost

from owpc_ltr import RankingDataset
from owpc_ltr.errors import UsageError
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Loss, Optimizer, Run
from tests.plugins.oracles import (
    binary_problem,
    mean_pair_hinge,
    mean_pair_logistic,
    optimum_of,
    owa_of_hinges,
)

LOGISTIC = Pairwise(inner="logistic")


CERTIFIED: list[Any] = [
    pytest.param(Bundle, OWPC(), mean_pair_hinge, id="bundle"),
    pytest.param(LaRank, OWPC("inverse"), owa_of_hinges, id="larank"),
    pytest.param(Gradient, LOGISTIC, mean_pair_logistic, id="gradient"),
]
"""Optimizers with a certificate: a loss, and the same loss of a query for a general solver."""
CUTTING = CERTIFIED[:2]


@pytest.mark.parametrize("C", [0.01, pytest.param(1.0, marks=pytest.mark.thorough), 100.0])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (2, 3))]
)
@pytest.mark.parametrize(("optimizer", "loss", "cost"), CERTIFIED)
def test_the_optimum_of_a_general_solver_lies_within_the_gap(
    optimizer: Callable[..., Optimizer], loss: Loss, cost: Any, seed: int, C: float
) -> None:
    data = binary_problem(seed)
    if seed % 2:
        data = replace(data, query_weights=np.array([0.0, 2.0, 1.0, 0.5, 3.0, 1.0]))
    certificate = optimizer(C=C, tolerance=1e-6).minimise(loss, data, Run()).certificate
    truth = optimum_of(data, C, cost)
    slack = 1e-6 * max(truth, 1.0)
    assert certificate.objective - certificate.gap - slack <= truth
    assert truth <= certificate.objective + slack
    assert certificate.gap <= 1e-6 * (C * certificate.risk_at_zero - certificate.objective) + slack


@pytest.mark.parametrize(("optimizer", "loss", "_cost"), CERTIFIED)
def test_a_warm_start_ends_where_a_cold_one_does(
    optimizer: Callable[..., Optimizer], loss: Loss, _cost: Any
) -> None:
    data, run = binary_problem(3, queries=20), Run()
    start = optimizer(C=9.0, tolerance=1e-6).minimise(loss, data, run)
    cold = optimizer(C=10.0, tolerance=1e-6).minimise(loss, data, run).certificate
    warm = optimizer(C=10.0, tolerance=1e-6).minimise(loss, data, run, start).certificate
    assert warm.objective == pytest.approx(cold.objective, rel=1e-5)
    assert warm.passes < cold.passes


@pytest.mark.parametrize(("optimizer", "loss", "_cost"), CUTTING)
def test_what_is_known_of_another_problem_is_not_taken_for_a_bound(
    optimizer: Callable[..., Optimizer], loss: Loss, _cost: Any
) -> None:
    data, run = binary_problem(3, queries=20), Run()
    cold = optimizer(C=10.0).minimise(loss, data, run)
    of_other_data = optimizer(C=10.0).minimise(loss, binary_problem(4, queries=20), run)
    of_another_loss = optimizer(C=10.0).minimise(OWPC("logarithmic"), data, run)
    for start in (of_other_data, of_another_loss):
        warm = optimizer(C=10.0).minimise(loss, data, run, start)
        assert warm.certificate == cold.certificate


@pytest.mark.parametrize("C", [0.1, 100.0, 1000.0])
@pytest.mark.parametrize(("optimizer", "loss", "_cost"), CUTTING)
def test_the_lower_bound_never_falls_and_stays_below_the_objective(
    optimizer: Callable[..., Optimizer], loss: Loss, _cost: Any, C: float
) -> None:
    data = binary_problem(5, queries=30)
    history = optimizer(C=C, tolerance=1e-7).minimise(loss, data, Run()).history
    duals = np.array([row["dual"] for row in history])
    assert C < 1 or len(duals) > 3
    assert np.all(np.diff(duals) >= -1e-9 * abs(duals[-1]))
    assert all(row["dual"] <= row["objective"] * (1 + 1e-9) for row in history)


def multiplied(data: RankingDataset, scales: Any) -> RankingDataset:
    return replace(data, features=(data.features * scales).astype(np.float32))


@pytest.mark.parametrize(("optimizer", "loss", "_cost"), CUTTING)
def test_scaled_features_are_the_same_problem_as_multiplied_ones(
    optimizer: Callable[..., Optimizer], loss: Loss, _cost: Any
) -> None:
    data, scales = binary_problem(4), np.array([0.5, 2.0, 1.0, 4.0])
    scaled, other = (
        optimizer(tolerance=1e-6).minimise(loss, part, Run())
        for part in (replace(data, feature_scales=scales), multiplied(data, scales))
    )
    assert scaled.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-5)
    wanted = other.model.score(multiplied(data, scales).features)
    assert scaled.model.score(data.features) == pytest.approx(wanted, abs=1e-2)


@pytest.mark.parametrize(
    "optimizer", [AdaRank(), CoordinateAscent()], ids=lambda parameter: parameter.name
)
def test_scaled_features_take_the_same_steps_as_multiplied_ones(optimizer: Optimizer) -> None:
    data, scales = binary_problem(8, queries=12), np.array([0.5, 2.0, 0.0, 4.0])
    run = Run(metric="ndcg@5")
    scaled = optimizer.minimise(OWPC(), replace(data, feature_scales=scales), run)
    other = optimizer.minimise(OWPC(), multiplied(data, scales), run)
    assert scaled.history == other.history
    wanted = other.model.score(multiplied(data, scales).features)
    assert scaled.model.score(data.features) == pytest.approx(wanted, abs=1e-6)


SHARES: dict[str, Any] = {"trees": 8, "leaf": 1.0, "subsample": 0.5, "colsample": 0.5}
SEEDED: list[Any] = [
    (Gradient(epochs=3), LambdaRank()),
    (Gradient(model="network", epochs=3), LambdaRank()),
    (Boosting(**SHARES), LambdaRank()),
    (Boosting(**SHARES, objective="rank:ndcg"), LambdaRank()),
    (CoordinateAscent(), OWPC()),
]
"""Optimizers that draw."""


@pytest.mark.parametrize(
    ("optimizer", "loss"),
    [*SEEDED, (Bundle(), Pairwise()), (LaRank(), OWPC()), (RankBoost(rounds=50), OWPC()),
     (Gradient(), LOGISTIC)],
    ids=str,
)  # fmt: skip
def test_threads_change_nothing(optimizer: Optimizer, loss: Loss) -> None:
    data = binary_problem(7, queries=200)
    first, second = (optimizer.minimise(loss, data, Run(seed=1, threads=n)) for n in (1, 2))
    assert first.model.as_dict() == second.model.as_dict()
    assert str(first.certificate) == str(second.certificate)


@pytest.mark.parametrize(("optimizer", "loss"), SEEDED, ids=str)
def test_another_seed_is_another_fit(optimizer: Optimizer, loss: Loss) -> None:
    data = binary_problem(7, queries=200)
    first, other = (optimizer.minimise(loss, data, Run(seed=seed)) for seed in (1, 2))
    assert first.model.as_dict() != other.model.as_dict()


@pytest.mark.parametrize(
    ("optimizer", "loss"),
    [
        (Bundle(), OWPC()),
        (Gradient(epochs=3), LambdaRank()),
        (Gradient(model="network", epochs=3), LambdaRank()),
    ],
    ids=str,
)
def test_missing_values_count_zero(optimizer: Optimizer, loss: Loss) -> None:
    data = binary_problem(8)
    holes = np.where(np.abs(data.features) < 0.2, np.nan, data.features).astype(np.float32)
    holed, filled = (replace(data, features=part) for part in (holes, np.nan_to_num(holes)))
    model, other_model = (optimizer.minimise(loss, part, Run()).model for part in (holed, filled))
    assert model.as_dict() == other_model.as_dict()
    assert np.array_equal(model.score(holes), other_model.score(filled.features))


@pytest.mark.parametrize(
    "optimizer",
    [
        AdaRank(patience=5, repeats="allowed"),
        RankBoost(rounds=100, patience=10),
        CoordinateAscent(restarts=5),
        Gradient(patience=5, learning_rate=0.1),
        Gradient(model="network", patience=5, learning_rate=0.1),
    ],
    ids=str,
)
def test_the_step_of_the_best_validation_metric_is_kept(optimizer: Any) -> None:
    data, validation = binary_problem(8, queries=20), binary_problem(9, queries=10)
    validation = replace(validation, query_weights=np.arange(10) / 4 + 0.5)
    run = Run(validation=validation, metric="ndcg@3")
    fit = optimizer.minimise(LambdaRank(), data, run)
    values = [row["validation"] for row in fit.history if "validation" in row]
    reached = parse_metric("ndcg@3").per_query(
        fit.model.score(validation.features), validation.labels, validation.offsets
    )
    mean = np.average(reached, weights=validation.query_importance)
    assert mean == pytest.approx(max(values), abs=1e-6)
    if hasattr(optimizer, "patience") and len(values) < getattr(optimizer, "rounds", 50):
        assert len(values) - 1 - int(np.argmax(values)) == optimizer.patience
        assert "has not risen since" in fit.certificate.stop_reason


POSITIVE = ({"C": 0.0}, {"tolerance": -1.0}, {"passes": 0})


@pytest.mark.parametrize(
    ("optimizer", "setting"),
    [
        *((made, setting) for made in (Bundle, LaRank, Gradient) for setting in POSITIVE),
        (Gradient, {"hidden": 0}),
        *((CoordinateAscent, {name: value}) for name, value in
          (("restarts", 0), ("passes", 0), ("tolerance", -1.0))),
        *((AdaRank, {name: value}) for name, value in
          (("rounds", 0), ("patience", 0), ("repeats", "once"))),
        *((Boosting, {name: value}) for name, value in
          (("trees", 0), ("depth", 0), ("eta", 0.0), ("subsample", 1.5), ("bins", 1),
           ("leaf", -1.0), ("interactions", -1))),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(optimizer: Any, setting: dict[str, Any]) -> None:
    with pytest.raises((ValueError, UsageError), match=r"must be|shares|number of pairs"):
        optimizer(**setting)
