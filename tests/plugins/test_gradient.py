"""Gradient: each of its methods against another one, and models that survive their file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_losses.bregman import Bregman
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers import gradient as adam
from owpc_ltr_optimizers.bundle import Bundle
from owpc_ltr_optimizers.gradient import Gradient
from scipy.optimize import check_grad

from owpc_ltr import save_model
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.models.networks import NetworkModel
from owpc_ltr.protocols import Run
from tests.plugins.oracles import binary_problem

LOGISTIC = Pairwise(inner="logistic")


def test_cutting_planes_find_the_same_optimum_of_a_smooth_loss() -> None:
    data = binary_problem(1, queries=20)
    mine = Gradient(tolerance=1e-6).minimise(LOGISTIC, data, Run()).certificate
    theirs = Bundle(tolerance=1e-6).minimise(LOGISTIC, data, Run()).certificate
    assert mine.objective == pytest.approx(theirs.objective, rel=1e-5)


def test_a_convex_loss_with_kinks_is_solved_by_cutting_planes() -> None:
    data = binary_problem(2)
    mine = Gradient(C=5.0).minimise(OWPC(), data, Run())
    theirs = Bundle(C=5.0).minimise(OWPC(), data, Run())
    assert mine.certificate == theirs.certificate
    assert mine.model.as_dict() == theirs.model.as_dict()


@dataclass(frozen=True)
class Angle:
    """One minus the cosine between scores and centred labels: not convex, blind to lengths."""

    name: ClassVar[str] = "angle"
    convex: ClassVar[bool] = False
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        target = labels - labels.mean(dtype=np.float64)
        size, length = float(np.linalg.norm(target)), float(np.linalg.norm(scores))
        if size == 0 or length == 0:
            return 1.0, np.zeros(len(scores))
        cosine = float(target @ scores) / size / length
        return 1 - cosine, cosine * scores / length**2 - target / size / length


def test_a_loss_that_is_flat_at_zero_is_left_behind_and_has_no_gap() -> None:
    solution = Gradient(C=100.0).minimise(Angle(), binary_problem(4, queries=20), Run())
    assert solution.certificate.risk < 0.7 * solution.certificate.risk_at_zero
    assert np.isnan(solution.certificate.gap)
    assert np.isnan(solution.certificate.relative_gap)


@dataclass(frozen=True)
class Uphill(Angle):
    """A liar: its gradient points the wrong way."""

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(scores, labels, weights)
        return value, -gradient


def test_a_gradient_that_is_not_that_of_the_loss_ends_in_words() -> None:
    solution = Gradient(C=100.0).minimise(Uphill(), binary_problem(4), Run())
    assert "a gradient that is not that of the loss" in solution.certificate.stop_reason


@pytest.mark.parametrize("hidden", [0, 3])
def test_shrunk_parameters_give_the_scores_times_the_factor(hidden: int) -> None:
    data = binary_problem(14)
    shape = adam._shape_of(data, hidden)
    theta = np.random.default_rng(1).normal(size=len(adam._first(shape, Run().random())))
    scores, smaller = (
        shape.model(part).score(data.features) for part in (theta, shape.shrunk(theta, 0.25))
    )
    assert smaller == pytest.approx(0.25 * scores, abs=1e-6)


def test_scores_are_never_so_large_that_zero_would_be_better() -> None:
    data, run = binary_problem(14), Run(validation=binary_problem(15))
    certificate = Gradient(model="network", C=1e6).minimise(Bregman(), data, run).certificate
    assert certificate.risk <= certificate.risk_at_zero


@pytest.mark.parametrize("hidden", [0, 3])
def test_the_compiled_gradient_is_that_of_finite_differences(hidden: int) -> None:
    data = replace(
        binary_problem(5, queries=2),
        feature_scales=np.array([0.5, 2.0, 0.0, 1.0]),
        query_weights=np.array([0.5, 3.0]),
    )
    shape, bound = adam._shape_of(data, hidden), bind(LOGISTIC)
    rows = (data.features, data.labels, data.weights, data.query_importance, data.offsets)
    kernel = bound.address, bound.parameters

    def evaluate(theta: Vector) -> tuple[float, Vector]:
        gradient, room = np.zeros_like(theta), np.empty((hidden + 2, 8))
        value = sum(
            adam._add_query(kernel, rows, query, shape[1:], theta, gradient, room)
            for query in range(2)
        )
        return value, gradient

    theta = np.random.default_rng(0).normal(size=len(adam._first(shape, Run().random())))
    error = check_grad(lambda t: evaluate(t)[0], lambda t: evaluate(t)[1], theta)
    assert error < 1e-5 * np.linalg.norm(evaluate(theta)[1])


@pytest.mark.parametrize("model", ["linear", "network"])
def test_lambdarank_learns_an_order_and_claims_no_gap(model: Any) -> None:
    data, metric = binary_problem(6, queries=40, documents=20), parse_metric("ndcg@5")
    solution = Gradient(C=100.0, model=model).minimise(LambdaRank(), data, Run())
    learned = metric.mean(solution.model.score(data.features), data.labels, data.offsets)
    feature = metric.mean(data.features[:, 0], data.labels, data.offsets)
    assert learned > feature - 0.03
    assert np.isnan(solution.certificate.gap)
    assert np.isnan(solution.certificate.risk)
    assert not solution.certificate.collapsed


def test_adam_comes_near_the_optimum_that_descent_certifies() -> None:
    data = binary_problem(7, queries=30)

    @dataclass(frozen=True)
    class Disowned(Pairwise):
        """The logistic pair loss, which does not say that it is convex."""

        convex: ClassVar[bool] = False
        smooth: ClassVar[bool] = False

    truth = Gradient(C=1.0).minimise(LOGISTIC, data, Run()).certificate
    walked = Gradient(C=1.0, epochs=300).minimise(Disowned(inner="logistic"), data, Run())
    gain = truth.risk_at_zero - truth.objective
    assert walked.certificate.objective - truth.objective < 0.02 * gain
    assert walked.certificate.risk_at_zero == pytest.approx(truth.risk_at_zero)


def test_a_network_standardises_what_it_sees() -> None:
    data = binary_problem(12)
    stretched = replace(data, features=(data.features * 8 + 16).astype(np.float32))
    settings = Gradient(model="network", epochs=3)
    scores = settings.minimise(LambdaRank(), data, Run()).model.score(data.features)
    stretched_scores = settings.minimise(LambdaRank(), stretched, Run()).model.score(
        stretched.features
    )
    assert scores == pytest.approx(stretched_scores, abs=1e-3)


def test_a_network_scores_the_same_after_its_file(tmp_path: Path) -> None:
    data = binary_problem(13)
    model = Gradient(model="network", epochs=2).minimise(LambdaRank(), data, Run()).model
    save_model(model, tmp_path / "network.json")
    again = load_scoring_model(tmp_path / "network.json")
    assert isinstance(again, NetworkModel)
    assert np.array_equal(again.score(data.features), model.score(data.features))


def test_a_network_is_the_formula_of_its_docstring() -> None:
    model = NetworkModel(
        ("a", "b"), np.array([[1.0, 2.0], [0.5, 0.0]]), np.array([0.1, -1]), np.array([3.0, -2.0])
    )
    row = np.array([[0.5, np.nan]], dtype=np.float32)
    assert model.score(row) == pytest.approx([3 * np.tanh(0.6) - 2 * np.tanh(-0.75)])


@pytest.mark.parametrize("outputs", [np.zeros(3), np.array([np.nan, 1.0])])
def test_a_network_that_does_not_fit_together_is_refused(outputs: Vector) -> None:
    with pytest.raises(BadInput, match="a network"):
        NetworkModel(("a",), np.zeros((2, 1)), np.zeros(2), outputs)


def test_steps_that_run_away_are_refused_in_a_line() -> None:
    huge = replace(binary_problem(0), feature_scales=np.full(4, 1e300))
    with pytest.raises(Refused, match="use a smaller learning_rate"):
        Gradient(learning_rate=1e20).minimise(LambdaRank(), huge, Run())
