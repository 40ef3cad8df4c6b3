"""Compiled code against NumPy: losses called by address, passes over a dataset, and sorting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import PluginError
from owpc_ltr.kernels.kernel import (
    BoundLoss,
    Kernel,
    KernelLoss,
    add_rows,
    bind,
    evaluate_query,
    kernel,
    linear_risk,
    linear_scores,
    losses_of_scores,
    query_blocks,
    sort_ascending,
)
from owpc_ltr.metrics import metric as ranking
from owpc_ltr.metrics import parse_metric
from owpc_ltr.metrics.metric import best_first, ordered_down
from owpc_ltr.plugin_checks.promises import sample_dataset


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


@kernel
def _share_of_nothing(
    scores: Any, labels: Any, weights: Any, parameters: Any, gradient: Any, curvature: Any
) -> float:
    gradient[0] = 1.0 / scores[0]
    gradient[1] = scores[0] / scores[0]
    return 0.5


def test_a_division_by_zero_is_inf_or_nan_and_the_kernel_goes_on() -> None:
    """What is raised there would be printed, and the value that follows be 0."""
    loss = BoundLoss(_share_of_nothing.address, np.zeros(0), has_curvature=False)
    value, gradient, _ = evaluate_query(loss, np.zeros(2), np.zeros(2, np.float32))
    assert value == 0.5
    assert gradient[0] == np.inf
    assert np.isnan(gradient[1])


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
    def value_and_gradient(self, *_: Any) -> tuple[float, Vector]:
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
def test_what_a_python_loss_raises_comes_out_of_the_loop_once(
    data: RankingDataset, threads: int
) -> None:
    bound, weights = bind(Raises()), np.zeros(data.n_features)
    for evaluate in (
        lambda: linear_risk(data, bound, weights, threads),
        lambda: losses_of_scores(data, bound, np.zeros(data.n_documents), threads),
        lambda: evaluate_query(bound, np.zeros(3), np.zeros(3, np.float32)),
    ):
        with pytest.raises(ZeroDivisionError, match="my own mistake"):
            evaluate()
        bound.raise_failure()
    with pytest.raises(PluginError, match="'plain-squares' gave a gradient of shape"):
        losses_of_scores(data, bind(Short()), np.zeros(data.n_documents))


def test_settings_reach_the_kernel() -> None:
    scores, labels = np.array([1.0, 0.0]), np.array([1, 0], np.float32)
    assert Squares(1.0).value_and_gradient(scores, labels)[0] == 0.0
    assert Squares(4.0).value_and_gradient(scores, labels)[0] == 4.5


def test_lists_and_integers_are_taken_for_scores() -> None:
    value, gradient = Pairwise().value_and_gradient([0, 1], [1, 0])  # type: ignore[arg-type]
    assert value == 2.0
    assert gradient.tolist() == [-1.0, 1.0]


@pytest.fixture(params=[1, 3, 7, 46, 130])
def data_linear(request: pytest.FixtureRequest, rng: np.random.Generator) -> RankingDataset:
    """Queries of 1 to 40 documents, in every width that a loop may unroll."""
    sizes = rng.integers(1, 41, 60)
    ids = np.repeat(np.arange(60), sizes)
    features = rng.normal(size=(len(ids), request.param))
    labels = rng.integers(0, 2, len(ids))
    return make_dataset(
        features,
        labels,
        ids,
        query_weights=rng.choice([0.0, 1.0, 2.5], 60),
        document_weights=rng.choice([0.0, 0.5, 1.0], len(ids)).astype(np.float32),
    )


def test_scores_are_the_product_in_float64(
    data_linear: RankingDataset, rng: np.random.Generator
) -> None:
    weights = rng.normal(size=data_linear.n_features)
    expected = data_linear.features.astype(np.float64) @ weights
    np.testing.assert_allclose(linear_scores(data_linear.features, weights), expected, atol=1e-12)


def test_rows_are_added_up_and_those_of_coefficient_zero_are_not_read(
    data_linear: RankingDataset, rng: np.random.Generator
) -> None:
    features, rows = data_linear.features, data_linear.n_documents
    coefficients = rng.normal(size=rows) * rng.integers(0, 2, rows)
    expected = 1 + coefficients @ features.astype(float)
    read = np.where(coefficients[:, None] == 0, np.float32(np.nan), features)
    for matrix in (features, read):
        total = np.ones(data_linear.n_features)
        add_rows(matrix, coefficients, total)
        np.testing.assert_allclose(total, expected, atol=1e-9)


def test_the_risk_is_the_weighted_sum_of_losses(
    data_linear: RankingDataset, rng: np.random.Generator
) -> None:
    bound, weights = bind(OWPC("inverse")), rng.normal(size=data_linear.n_features)
    values, gradient, _ = losses_of_scores(
        data_linear, bound, linear_scores(data_linear.features, weights)
    )
    risk, slope = linear_risk(data_linear, bound, weights)
    assert risk == pytest.approx(values @ data_linear.query_importance)
    per_row = np.repeat(data_linear.query_importance, np.diff(data_linear.offsets)) * gradient
    np.testing.assert_allclose(slope, per_row @ data_linear.features.astype(float), atol=1e-9)


def test_labels_that_cannot_be_written_to_are_read(data_linear: RankingDataset) -> None:
    labels = data_linear.labels.copy()
    labels.flags.writeable = False
    bound, scores = bind(OWPC()), np.zeros(data_linear.n_documents)
    expected, *_ = losses_of_scores(data_linear, bound, scores)
    values, *_ = losses_of_scores(replace(data_linear, labels=labels), bound, scores)
    assert values.tolist() == expected.tolist()


def test_scaled_features_are_as_good_as_copies(
    data_linear: RankingDataset, rng: np.random.Generator
) -> None:
    scales = rng.choice([0.25, 0.5, 2.0], data_linear.n_features)
    copy = replace(
        data_linear, features=np.ascontiguousarray(data_linear.features * scales, dtype=np.float32)
    )
    bound, weights = bind(OWPC()), rng.normal(size=data_linear.n_features)
    risk, slope = linear_risk(replace(data_linear, feature_scales=scales), bound, weights)
    expected, copied = linear_risk(copy, bound, weights)
    assert risk == pytest.approx(expected)
    np.testing.assert_allclose(slope, copied, atol=1e-9)


def test_threads_change_no_bit(data_linear: RankingDataset, rng: np.random.Generator) -> None:
    bound, weights = bind(OWPC("top")), rng.normal(size=data_linear.n_features)
    risk, slope = linear_risk(data_linear, bound, weights, threads=1)
    for threads in (2, 3):
        again, same = linear_risk(data_linear, bound, weights, threads)
        assert again == risk
        assert same.tobytes() == slope.tobytes()


@pytest.mark.parametrize("queries", [1, 2, 16, 100])
def test_blocks_cover_every_query_once(queries: int, rng: np.random.Generator) -> None:
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 2000, queries))))
    cuts = query_blocks(offsets, 16)
    assert cuts[0] == 0
    assert cuts[-1] == queries
    assert (np.diff(cuts) > 0).all()


def check(scores: NDArray[np.floating[Any]]) -> None:
    documents = np.arange(len(scores))
    sort_ascending(scores, documents)
    np.testing.assert_array_equal(documents, np.argsort(scores, kind="stable"))


@given(arrays(np.float64, st.integers(0, 80), elements=st.floats(allow_nan=False)))
def test_any_scores_are_sorted_stably(scores: NDArray[np.float64]) -> None:
    check(scores)


@pytest.mark.parametrize("n", [2, 16, 17, 100, 5000])
def test_scores_of_every_shape_are_sorted(n: int, rng: np.random.Generator) -> None:
    normal = rng.normal(size=n)
    outlier = normal.copy()
    outlier[n // 2] = 1e300
    for scores in (
        normal,
        np.sort(normal),
        np.sort(normal)[::-1].copy(),
        rng.standard_cauchy(n),
        rng.integers(0, 3, n).astype(float),
        np.zeros(n),
        1e9 + 1e-6 * normal,
        outlier,
        rng.integers(0, 9, n) * 5e-324,
    ):
        check(scores)


def test_scores_that_are_not_numbers_do_no_harm_and_a_part_is_sorted_among_itself(
    rng: np.random.Generator,
) -> None:
    scores, documents = rng.normal(size=200), np.arange(200)
    scores[[3, 77, 150]] = np.nan
    sort_ascending(scores, documents)
    assert sorted(documents) == list(range(200))
    some = np.array([4, 0, 2])
    sort_ascending(np.array([3.0, 9.0, 1.0, 9.0, 2.0]), some)
    assert some.tolist() == [2, 4, 0]


KINDS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "spread": lambda rng, n: rng.normal(size=n),
    "tied": lambda rng, n: np.round(rng.normal(size=n)),
    "all alike": lambda _rng, n: np.zeros(n),
    "an outlier": lambda rng, n: np.where(np.arange(n) == n // 2, 1e300, rng.normal(size=n)),
    "infinite": lambda rng, n: rng.choice([-np.inf, 0.0, -0.0, 1.0, np.inf], size=n),
    "float32": lambda rng, n: rng.normal(size=n).astype(np.float32),
}


@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.integers(0, 150), max_size=20),
    st.integers(0, 2**32),
)
def test_the_compiled_order_is_that_of_numpy(kind: str, lengths: list[int], seed: int) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)
    scores = KINDS[kind](np.random.default_rng(seed), int(offsets[-1]))
    expected = [
        start + np.argsort(-scores[start:end], kind="stable") for start, end in pairwise(offsets)
    ]
    wanted = np.concatenate([np.empty(0, np.int64), *expected])
    assert (ordered_down(np.asarray(scores, np.float64), offsets) == wanted).all()
    assert (best_first(scores, offsets) == wanted).all()


@pytest.mark.parametrize("metric", ["ndcg@10", "map", "err", "ndcg@10,ties=file-order"])
def test_a_metric_is_the_same_to_the_last_bit_either_way(
    metric: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 90, size=200))))
    scores = np.round(rng.normal(size=offsets[-1]), 1)
    labels = rng.integers(0, 4, size=offsets[-1]).astype(np.float32)
    values = []
    for cells in (0, 1 << 40):
        monkeypatch.setattr(ranking, "SMALL", cells)
        values.append(parse_metric(metric).per_query(scores, labels, offsets))
    assert (values[0] == values[1]).all()
