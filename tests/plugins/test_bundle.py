"""Bundle: its certificate against a general solver and LaRank, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.bundle import Bundle
from owpc_ltr_optimizers.larank import LaRank

from owpc_ltr import RankingDataset
from owpc_ltr.errors import PluginError
from owpc_ltr.protocols import Fit, Run
from tests.plugins.oracles import Dented, Distance, binary_problem, mean_pair_hinge, optimum_of


def fit(data: RankingDataset, C: float = 1.0, **options: Any) -> Fit:
    generator = options.pop("generator", "constant")
    return Bundle(C=C, **options).minimise(OWPC(generator=generator), data, Run())


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
    data = binary_problem(seed, queries=5)
    mine = fit(data, C, generator=generator).certificate
    theirs = LaRank(C=C).minimise(OWPC(generator=generator), data, Run()).certificate
    rounding = 1e-9 * abs(mine.objective)
    assert mine.objective - mine.gap <= theirs.objective + rounding
    assert theirs.objective - theirs.gap <= mine.objective + rounding


def test_merged_planes_keep_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from owpc_ltr_optimizers import bundle

    data = binary_problem(6, queries=3, documents=12)
    truth = optimum_of(data, 100.0, mean_pair_hinge)
    monkeypatch.setattr(bundle, "_PLANES", 3)
    certificate = fit(data, 100.0, tolerance=1e-2, passes=3000).certificate
    assert certificate.objective - certificate.gap <= truth * (1 + 1e-6)
    assert truth <= certificate.objective * (1 + 1e-6)
    assert certificate.nonzero_duals <= 3


def test_features_that_say_nothing_leave_the_model_at_zero() -> None:
    data = binary_problem(9)
    solution = fit(replace(data, features=np.ones_like(data.features)))
    assert not np.any(solution.model.score(data.features))
    assert solution.certificate.gap == pytest.approx(0, abs=1e-9)
    assert solution.certificate.stop_reason.startswith("no model is better")


def test_a_loss_below_zero_is_solved_as_ridge_regression_is() -> None:
    data = binary_problem(0)
    solution = Bundle(C=2.0, tolerance=1e-8).minimise(Distance(), data, Run())
    X = data.features.astype(np.float64)
    ridge = np.linalg.solve(X.T @ X + 0.5 * np.eye(4), X.T @ data.labels)
    assert solution.model.as_dict()["weights"] == pytest.approx(ridge, abs=1e-3)
    assert solution.certificate.objective < 0


def test_a_loss_that_is_not_convex_is_caught() -> None:
    with pytest.raises(PluginError, match="'dented' claims to be convex"):
        Bundle(C=0.1).minimise(Dented(), binary_problem(0), Run())


def test_a_loss_that_is_not_finite_is_refused_in_a_line() -> None:
    with pytest.raises(PluginError, match="'distance' returned the value nan"):
        Bundle().minimise(Distance(constant=float("nan")), binary_problem(0), Run())
