"""Losses called by address: shipped kernels, strangers' NumPy, and what these raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_losses.pairwise import Pairwise

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import PluginError
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, bind, evaluate_query, kernel
from owpc_ltr.kernels.linear import linear_risk, losses_of_scores
from owpc_ltr.plugin_checks.samples import sample_dataset


@kernel
def _weighted_squares(
    scores: Any, labels: Any, weights: Any, parameters: Any, gradient: Any, curvature: Any
) -> float:
    value = 0.0
    for i in range(len(scores)):
        rest = scores[i] - parameters[0] * labels[i]
        value += 0.5 * weights[i] * rest * rest
        gradient[i] = weights[i] * rest
        if len(curvature):
            curvature[i] = weights[i]
    return value


@dataclass(frozen=True)
class Squares(KernelLoss):
    name: ClassVar[str] = "squares"
    kernel: ClassVar[Kernel] = _weighted_squares
    has_curvature: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    scale: float = 2.0

    def parameters(self) -> Vector:
        return np.array([self.scale])


@dataclass(frozen=True)
class PlainSquares:
    name: ClassVar[str] = "plain-squares"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    scale: float = 2.0

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        rest = scores - self.scale * labels
        slope = np.asarray(weights * rest, dtype=np.float64)
        return float(0.5 * slope @ rest), slope


class Raises(PlainSquares):
    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        raise ZeroDivisionError("my own mistake")


class Short(PlainSquares):
    def value_and_gradient(self, *query: Any) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(*query)
        return value, gradient[1:]


@pytest.fixture
def data() -> RankingDataset:
    return sample_dataset(2)


def test_a_kernel_and_plain_numpy_are_the_same_loss(
    data: RankingDataset, rng: np.random.Generator
) -> None:
    scores = rng.normal(size=data.n_documents)
    compiled = losses_of_scores(data, bind(Squares(3.0)), scores)
    plain = losses_of_scores(data, bind(PlainSquares(3.0)), scores)
    np.testing.assert_allclose(compiled[0], plain[0], rtol=1e-6)
    np.testing.assert_allclose(compiled[1], plain[1], rtol=1e-6)
    assert compiled[2].tolist() == [1.0] * data.n_documents
    assert plain[2].size == 0


def test_one_query_is_evaluated_as_in_the_loop(
    data: RankingDataset, rng: np.random.Generator
) -> None:
    scores = rng.normal(size=data.n_documents)
    values, gradient, _ = losses_of_scores(data, bind(Squares()), scores)
    for index in range(data.n_queries):
        rows = slice(data.offsets[index], data.offsets[index + 1])
        value, slope, curvature = evaluate_query(bind(Squares()), scores[rows], data.labels[rows])
        assert value == values[index]
        assert slope.tolist() == gradient[rows].tolist()
        assert len(curvature) == len(slope)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_python_loss_raises_comes_out_of_the_loop(
    data: RankingDataset, threads: int
) -> None:
    with pytest.raises(ZeroDivisionError, match="my own mistake"):
        linear_risk(data, bind(Raises()), np.zeros(data.n_features), threads)
    with pytest.raises(ZeroDivisionError, match="my own mistake"):
        losses_of_scores(data, bind(Raises()), np.zeros(data.n_documents), threads)
    with pytest.raises(ZeroDivisionError, match="my own mistake"):
        evaluate_query(bind(Raises()), np.zeros(3), np.zeros(3, np.float32))


def test_a_gradient_of_the_wrong_length_is_the_plugins_error(data: RankingDataset) -> None:
    with pytest.raises(PluginError, match="'plain-squares' gave a gradient of shape"):
        losses_of_scores(data, bind(Short()), np.zeros(data.n_documents))


def test_a_failure_is_raised_once(data: RankingDataset) -> None:
    bound = bind(Raises())
    with pytest.raises(ZeroDivisionError):
        losses_of_scores(data, bound, np.zeros(data.n_documents))
    bound.raise_failure()


def test_settings_reach_the_kernel() -> None:
    scores, labels = np.array([1.0, 0.0]), np.array([1, 0], np.float32)
    assert Squares(1.0).value_and_gradient(scores, labels)[0] == 0.0
    assert Squares(4.0).value_and_gradient(scores, labels)[0] == 4.5


def test_lists_and_integers_are_taken_for_scores() -> None:
    value, gradient = Pairwise().value_and_gradient([0, 1], [1, 0])  # type: ignore[arg-type]
    assert value == 2.0
    assert gradient.tolist() == [-1.0, 1.0]
