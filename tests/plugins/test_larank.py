"""LaRank: its certificate against a general solver, and the dual's own invariants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers.larank import LaRank

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.errors import Refused
from owpc_ltr.protocols import Fit, Run


def problem(seed: int, queries: int = 6, documents: int = 8, features: int = 4) -> RankingDataset:
    generator = np.random.default_rng(seed)
    rows = queries * documents
    X = generator.normal(size=(rows, features)).astype(np.float32)
    labels = (X[:, 0] + generator.normal(size=rows) > 0.7).astype(np.float32)
    return make_dataset(X, labels, np.repeat(np.arange(queries), documents))


def inverse_weights(n: int) -> Vector:
    harmonic = 1 / np.arange(1, n + 1)
    weights: Vector = harmonic / harmonic.sum()
    return weights


def optimum_of_owpc(data: RankingDataset, C: float, weights: Any) -> float:
    """min ½‖w‖² + C Σ owpc, by a general conic solver: OWA as sums of the largest."""
    w = cvxpy.Variable(data.n_features)
    objective = 0.5 * cvxpy.sum_squares(w)
    for query, importance in zip(data, data.query_importance, strict=True):
        relevant, irrelevant = query.labels > 0, query.labels == 0
        n = int(irrelevant.sum())
        if not n or not relevant.any():
            continue
        alpha = np.append(weights(n), 0.0)
        for row in query.features[relevant]:
            hinge = cvxpy.pos(1 - (row - query.features[irrelevant]) @ w)
            owa = sum(
                (alpha[k - 1] - alpha[k]) * cvxpy.sum_largest(hinge, k) for k in range(1, n + 1)
            )
            objective += C * importance / relevant.sum() * owa
    cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver=cvxpy.CLARABEL)
    return float(objective.value)


def fit(data: RankingDataset, C: float = 1.0, **options: Any) -> Fit:
    generator = options.pop("generator", "inverse")
    return LaRank(C=C, **options).minimise(OWPC(generator=generator), data, Run())


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_of_a_general_solver_lies_within_the_gap(seed: int, C: float) -> None:
    data = problem(seed)
    certificate = fit(data, C, tolerance=1e-6).certificate
    truth = optimum_of_owpc(data, C, inverse_weights)
    slack = 1e-6 * max(truth, 1.0)
    assert certificate.objective - certificate.gap - slack <= truth
    assert truth <= certificate.objective + slack
    assert certificate.gap <= 1e-6 * (C * certificate.risk_at_zero - certificate.objective) + slack


def test_query_weights_are_the_general_solvers_too() -> None:
    weights = np.array([0.0, 2.0, 1.0, 0.5, 3.0, 1.0])
    data = replace(problem(1), query_weights=weights)
    truth = optimum_of_owpc(data, 1.0, inverse_weights)
    assert fit(data, tolerance=1e-6).certificate.objective == pytest.approx(truth, rel=1e-5)


def test_the_model_has_the_objective_that_the_certificate_names() -> None:
    data = problem(2)
    found = fit(data, 10.0)
    scores = found.model.score(data.features)
    risk = sum(
        OWPC(generator="inverse").value_and_gradient(scores[a:b], data.labels[a:b])[0]
        for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    )
    w = np.asarray(found.model.as_dict()["weights"])
    assert 0.5 * w @ w + 10 * risk == pytest.approx(found.certificate.objective, rel=1e-5)


def test_a_warm_start_ends_where_a_cold_one_does() -> None:
    data = problem(3, queries=20)
    loss, run = OWPC(), Run()
    cold = LaRank(C=10.0, tolerance=1e-5).minimise(loss, data, run)
    start = LaRank(C=1.0, tolerance=1e-5).minimise(loss, data, run)
    warm = LaRank(C=10.0, tolerance=1e-5).minimise(loss, data, run, start)
    assert warm.certificate.objective == pytest.approx(cold.certificate.objective, rel=1e-4)


def test_a_warm_start_begins_with_the_bound_and_the_point_of_the_fit_it_comes_from() -> None:
    data, loss, run = problem(3, queries=20), OWPC(), Run()
    start = LaRank(C=10.0, tolerance=1e-5).minimise(loss, data, run)
    cold, end = start.history[0], start.history[-1]
    assert cold["gap"] > 100 * end["gap"]
    warm = LaRank(C=10.0, tolerance=1e-5).minimise(loss, data, run, start).history
    assert len(warm) == 1
    assert warm[0]["dual"] >= end["dual"] - 1e-12
    assert warm[0]["objective"] <= end["objective"] + 1e-12
    # With another budget the point stays, and what bounds the losses still bounds the optimum.
    other = LaRank(C=20.0, tolerance=1e-5).minimise(loss, data, run, start).history
    there = end["objective"] + (20.0 - 10.0) * start.certificate.risk
    assert other[0]["objective"] <= there + 1e-12
    first = LaRank(C=20.0, tolerance=1e-5).minimise(loss, data, run).history[0]
    assert other[0]["gap"] < 0.1 * first["gap"]


def test_scaled_features_are_the_same_problem_as_multiplied_ones() -> None:
    data = problem(4)
    scales = np.array([0.5, 2.0, 1.0, 4.0])
    multiplied = replace(data, features=(data.features * scales).astype(np.float32))
    scaled = replace(data, feature_scales=scales)
    one, other = fit(scaled, tolerance=1e-6), fit(multiplied, tolerance=1e-6)
    assert one.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-5)
    assert one.model.score(data.features) == pytest.approx(
        other.model.score(multiplied.features), abs=1e-2
    )


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), C=st.sampled_from([0.1, 10.0, 1000.0]))
def test_the_dual_never_passes_the_primal(seed: int, C: float) -> None:
    data = problem(seed, queries=5)
    history = fit(data, C).history
    assert history
    for row in history:
        assert row["dual"] <= row["objective"] + 1e-9 * abs(row["objective"])


def test_the_dual_never_decreases_from_pass_to_pass() -> None:
    duals = [row["dual"] for row in fit(problem(5, queries=30), 100.0, tolerance=1e-7).history]
    assert len(duals) > 3
    assert np.all(np.diff(duals) >= -1e-9 * np.abs(duals[-1]))


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_however_queries_are_grouped_the_optimum_is_the_same(
    C: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from owpc_ltr_optimizers import larank

    weights = np.linspace(0, 2, 30)
    data = replace(problem(9, queries=30, features=3), query_weights=weights)
    truth = optimum_of_owpc(data, C, inverse_weights)
    for groups in (1, 4, 1000):
        monkeypatch.setattr(larank, "_GROUPS", groups)
        assert len(larank.groups_of(data)) == min(3 * groups, 30) + 1
        certificate = fit(data, C, tolerance=1e-6).certificate
        assert certificate.objective == pytest.approx(truth, rel=1e-5)
        assert certificate.objective - certificate.gap <= truth * (1 + 1e-6)


def test_patterns_of_other_data_or_another_loss_are_not_taken_over() -> None:
    loss, run, data = OWPC(generator="inverse"), Run(), problem(0)
    other_data = LaRank(C=10.0).minimise(loss, problem(1), run)
    other_loss = LaRank(C=10.0).minimise(OWPC(), data, run)
    cold = LaRank(C=10.0).minimise(loss, data, run).certificate
    for start in (other_data, other_loss):
        assert LaRank(C=10.0).minimise(loss, data, run, start).certificate == cold


def test_the_fit_that_a_warm_start_comes_from_keeps_its_own_state() -> None:
    loss, run, data = OWPC(), Run(), problem(3, queries=20)
    start = LaRank(C=1.0).minimise(loss, data, run)
    twice = [LaRank(C=10.0).minimise(loss, data, run, start) for _ in range(2)]
    assert twice[0].certificate == twice[1].certificate
    assert twice[0].history == twice[1].history


def test_full_blocks_are_merged_without_losing_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from owpc_ltr_optimizers import _larank_dual as larank_dual

    monkeypatch.setattr(larank_dual, "_PATTERNS", 2)
    data = problem(6, queries=3, documents=12)
    certificate = fit(data, 100.0, passes=3000).certificate
    truth = optimum_of_owpc(data, 100.0, inverse_weights)
    assert certificate.objective - certificate.gap <= truth * (1 + 1e-6)
    assert truth <= certificate.objective * (1 + 1e-6)


def test_threads_change_nothing() -> None:
    data = problem(7, queries=40)
    one = LaRank().minimise(OWPC(), data, Run(threads=1)).model.as_dict()
    two = LaRank().minimise(OWPC(), data, Run(threads=2)).model.as_dict()
    assert one == two


def test_a_collapsed_optimum_is_told() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(400, 3)).astype(np.float32)
    labels = generator.integers(0, 2, 400).astype(np.float32)
    data = make_dataset(noise, labels, np.repeat(np.arange(4), 100))
    certificate = fit(data, 100.0, generator="top").certificate
    assert certificate.collapsed
    assert not fit(problem(1)).certificate.collapsed


def test_constant_weights_are_the_pairwise_hinge() -> None:
    data = problem(8, queries=10)
    pairs = LaRank(tolerance=1e-6).minimise(Pairwise(), data, Run()).certificate.objective
    assert fit(data, generator="constant", tolerance=1e-6).certificate.objective == pytest.approx(
        pairs, rel=1e-5
    )


@dataclass(frozen=True)
class Negative:
    """A convex loss below zero, which the bound of 0 does not fit."""

    name: ClassVar[str] = "negative"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        return float((scores**2).sum()) - 1.0, 2 * scores


def test_a_negative_loss_is_refused_in_a_line() -> None:
    with pytest.raises(Refused, match="nowhere negative"):
        LaRank().minimise(Negative(), problem(0), Run())


@pytest.mark.parametrize("setting", [{"C": 0.0}, {"tolerance": -1.0}, {"passes": 0}])
def test_settings_that_cannot_work_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        LaRank(**setting)
