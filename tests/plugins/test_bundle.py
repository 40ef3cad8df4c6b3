"""Bundle: its certificate against a general solver and LaRank, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers.bundle import Bundle
from owpc_ltr_optimizers.larank import LaRank

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.errors import PluginError
from owpc_ltr.protocols import Fit, Run
from tests.plugins.oracles import Dented, Distance


def problem(seed: int, queries: int = 6, documents: int = 8, features: int = 4) -> RankingDataset:
    generator = np.random.default_rng(seed)
    rows = queries * documents
    X = generator.normal(size=(rows, features)).astype(np.float32)
    labels = (X[:, 0] + generator.normal(size=rows) > 0.7).astype(np.float32)
    return make_dataset(X, labels, np.repeat(np.arange(queries), documents))


def optimum_of_pairs(data: RankingDataset, C: float) -> float:
    """min ½‖w‖² + C Σ mean pair hinge, by a general conic solver."""
    w = cvxpy.Variable(data.n_features)
    objective = 0.5 * cvxpy.sum_squares(w)
    for query, importance in zip(data, data.query_importance, strict=True):
        relevant, irrelevant = query.features[query.labels > 0], query.features[query.labels == 0]
        if len(relevant) and len(irrelevant):
            differences = (relevant[:, None] - irrelevant[None]).reshape(-1, data.n_features)
            objective += (
                C * importance * cvxpy.sum(cvxpy.pos(1 - differences @ w)) / len(differences)
            )
    cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver=cvxpy.CLARABEL)
    return float(objective.value)


def fit(data: RankingDataset, C: float = 1.0, **options: Any) -> Fit:
    generator = options.pop("generator", "constant")
    return Bundle(C=C, **options).minimise(OWPC(generator=generator), data, Run())


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_of_a_general_solver_lies_within_the_gap(seed: int, C: float) -> None:
    data = problem(seed)
    certificate = fit(data, C, tolerance=1e-6).certificate
    truth = optimum_of_pairs(data, C)
    slack = 1e-6 * max(truth, 1.0)
    assert certificate.objective - certificate.gap - slack <= truth
    assert truth <= certificate.objective + slack
    assert certificate.gap <= 1e-6 * (C * certificate.risk_at_zero - certificate.objective) + slack


@pytest.mark.thorough
@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    C=st.sampled_from([0.1, 10.0, 1000.0]),
    generator=st.sampled_from(["constant", "inverse"]),
)
def test_larank_finds_the_same_objective_within_both_gaps(
    seed: int, C: float, generator: Any
) -> None:
    data = problem(seed, queries=5)
    mine = fit(data, C, generator=generator).certificate
    theirs = LaRank(C=C).minimise(OWPC(generator=generator), data, Run()).certificate
    rounding = 1e-9 * abs(mine.objective)
    assert mine.objective - mine.gap <= theirs.objective + rounding
    assert theirs.objective - theirs.gap <= mine.objective + rounding


def test_query_weights_are_the_general_solvers_too() -> None:
    data = replace(problem(1), query_weights=np.array([0.0, 2.0, 1.0, 0.5, 3.0, 1.0]))
    truth = optimum_of_pairs(data, 1.0)
    assert fit(data, tolerance=1e-6).certificate.objective == pytest.approx(truth, rel=1e-5)


def test_scaled_features_are_the_same_problem_as_multiplied_ones() -> None:
    data, scales = problem(4), np.array([0.5, 2.0, 1.0, 4.0])
    multiplied = replace(data, features=(data.features * scales).astype(np.float32))
    scaled = replace(data, feature_scales=scales)
    one, other = fit(scaled, tolerance=1e-6), fit(multiplied, tolerance=1e-6)
    assert one.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-5)
    assert one.model.score(data.features) == pytest.approx(
        other.model.score(multiplied.features), abs=1e-2
    )


def test_the_lower_bound_never_falls_from_pass_to_pass() -> None:
    history = fit(problem(5, queries=30), 100.0, tolerance=1e-7).history
    duals = np.array([row["dual"] for row in history])
    assert len(duals) > 5
    assert np.all(np.diff(duals) >= -1e-9 * abs(duals[-1]))
    assert all(row["dual"] <= row["objective"] * (1 + 1e-9) for row in history)


def test_merged_planes_keep_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from owpc_ltr_optimizers import bundle

    data = problem(6, queries=3, documents=12)
    truth = optimum_of_pairs(data, 100.0)
    monkeypatch.setattr(bundle, "_PLANES", 3)
    certificate = fit(data, 100.0, tolerance=1e-2, passes=3000).certificate
    assert certificate.objective - certificate.gap <= truth * (1 + 1e-6)
    assert truth <= certificate.objective * (1 + 1e-6)
    assert certificate.nonzero_duals <= 3


def test_a_warm_start_ends_where_a_cold_one_does_in_fewer_passes() -> None:
    data = problem(3, queries=20)
    cold = fit(data, 10.0, tolerance=1e-5)
    warm = Bundle(C=10.0, tolerance=1e-5).minimise(
        OWPC(), data, Run(), fit(data, 5.0, tolerance=1e-5)
    )
    assert warm.certificate.objective == pytest.approx(cold.certificate.objective, rel=1e-5)
    assert warm.certificate.passes < cold.certificate.passes


def test_planes_of_another_problem_are_not_taken_for_a_bound() -> None:
    data, other = problem(3, queries=20), problem(4, queries=20)
    cold = fit(data, 10.0)
    for start in (fit(other, 10.0), fit(data, 10.0, generator="inverse")):
        warm = Bundle(C=10.0).minimise(OWPC(), data, Run(), start)
        assert warm.certificate == cold.certificate


def test_threads_change_nothing() -> None:
    data = problem(7, queries=40)
    one, two = (Bundle().minimise(Pairwise(), data, Run(threads=n)) for n in (1, 2))
    assert one.model.as_dict() == two.model.as_dict()
    assert one.certificate == two.certificate


def test_missing_values_count_zero() -> None:
    data = problem(8)
    holes = np.where(np.abs(data.features) < 0.2, np.nan, data.features).astype(np.float32)
    filled = replace(data, features=np.nan_to_num(holes))
    holed = fit(replace(data, features=holes))
    assert holed.certificate == fit(filled).certificate


def test_features_that_say_nothing_leave_the_model_at_zero() -> None:
    data = problem(9)
    found = fit(replace(data, features=np.ones_like(data.features)))
    assert not np.any(found.model.score(data.features))
    assert found.certificate.gap == pytest.approx(0, abs=1e-9)
    assert found.certificate.stop_reason.startswith("no model is better")


def test_a_loss_below_zero_is_solved_as_ridge_regression_is() -> None:
    data = problem(0)
    found = Bundle(C=2.0, tolerance=1e-8).minimise(Distance(), data, Run())
    X = data.features.astype(np.float64)
    ridge = np.linalg.solve(X.T @ X + 0.5 * np.eye(4), X.T @ data.labels)
    assert found.model.as_dict()["weights"] == pytest.approx(ridge, abs=1e-3)
    assert found.certificate.objective < 0


def test_a_loss_that_is_not_convex_is_caught() -> None:
    with pytest.raises(PluginError, match="'dented' claims to be convex"):
        Bundle(C=0.1).minimise(Dented(), problem(0), Run())


def test_a_loss_that_is_not_finite_is_refused_in_a_line() -> None:
    with pytest.raises(PluginError, match="'distance' returned the value nan"):
        Bundle().minimise(Distance(constant=float("nan")), problem(0), Run())


@pytest.mark.parametrize("setting", [{"C": 0.0}, {"tolerance": -1.0}, {"passes": 0}])
def test_settings_that_cannot_work_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Bundle(**setting)
