"""The compiled passes over a dataset, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from owpc_ltr_losses.owpc import OWPC

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import (
    add_rows,
    linear_risk,
    linear_scores,
    linear_values,
    losses_of_scores,
    query_blocks,
)


@pytest.fixture(params=[1, 3, 7, 46, 130])
def data(request: pytest.FixtureRequest, rng: np.random.Generator) -> RankingDataset:
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


def test_scores_are_the_product_in_float64(data: RankingDataset, rng: np.random.Generator) -> None:
    weights = rng.normal(size=data.n_features)
    expected = data.features.astype(np.float64) @ weights
    np.testing.assert_allclose(linear_scores(data.features, weights), expected, atol=1e-12)


def test_rows_are_added_up(data: RankingDataset, rng: np.random.Generator) -> None:
    coefficients = rng.normal(size=data.n_documents) * rng.integers(0, 2, data.n_documents)
    total = np.ones(data.n_features)
    add_rows(data.features, coefficients, total)
    np.testing.assert_allclose(total, 1 + coefficients @ data.features.astype(float), atol=1e-9)


def test_rows_of_coefficient_zero_are_not_read() -> None:
    features = np.array([[np.nan], [2.0]], np.float32)
    total = np.zeros(1)
    add_rows(features, np.array([0.0, 3.0]), total)
    assert total.tolist() == [6.0]


def test_the_risk_is_the_weighted_sum_of_losses(
    data: RankingDataset, rng: np.random.Generator
) -> None:
    bound, weights = bind(OWPC("inverse")), rng.normal(size=data.n_features)
    values, gradient, _ = losses_of_scores(data, bound, linear_scores(data.features, weights))
    risk, slope = linear_risk(data, bound, weights)
    assert risk == pytest.approx(values @ data.query_importance)
    per_row = np.repeat(data.query_importance, np.diff(data.offsets)) * gradient
    np.testing.assert_allclose(slope, per_row @ data.features.astype(float), atol=1e-9)
    np.testing.assert_array_equal(linear_values(data, bound, weights), values)


def test_scaled_features_are_as_good_as_copies(
    data: RankingDataset, rng: np.random.Generator
) -> None:
    scales = rng.choice([0.25, 0.5, 2.0], data.n_features)
    copy = replace(data, features=np.ascontiguousarray(data.features * scales, dtype=np.float32))
    bound, weights = bind(OWPC()), rng.normal(size=data.n_features)
    risk, slope = linear_risk(replace(data, feature_scales=scales), bound, weights)
    expected, copied = linear_risk(copy, bound, weights)
    assert risk == pytest.approx(expected)
    np.testing.assert_allclose(slope, copied, atol=1e-9)


def test_threads_change_no_bit(data: RankingDataset, rng: np.random.Generator) -> None:
    bound, weights = bind(OWPC("top")), rng.normal(size=data.n_features)
    risk, slope = linear_risk(data, bound, weights, threads=1)
    for threads in (2, 3):
        again, same = linear_risk(data, bound, weights, threads)
        assert again == risk
        assert same.tobytes() == slope.tobytes()


@pytest.mark.parametrize("queries", [1, 2, 16, 100])
def test_blocks_cover_every_query_once(queries: int, rng: np.random.Generator) -> None:
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 2000, queries))))
    cuts = query_blocks(offsets, 16)
    assert cuts[0] == 0
    assert cuts[-1] == queries
    assert (np.diff(cuts) > 0).all()
