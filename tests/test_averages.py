"""Averages: the mean of the parts' scores, linear where the parts are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.host.registry import load
from owpc_ltr.models.average import AverageModel, average
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import load_scoring_model, save_model
from owpc_ltr.models.networks import NetworkModel

NAMES = ("a", "b")
X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
ONE = LinearModel(NAMES, np.array([1.0, -2.0]), {"b": Normaliser("standard", 0.5, 2.0)})
TWO = LinearModel(NAMES, np.array([0.25, 4.0]))


def network() -> NetworkModel:
    from owpc_ltr.data.dataset import make_dataset
    from owpc_ltr.host.settings import configure
    from owpc_ltr.protocols import Run

    registry = load()
    data = make_dataset(X, np.arange(20) % 2, np.repeat(np.arange(4), 5), feature_names=NAMES)
    gradient = configure(registry.find("optimizer", "gradient"), {"model": "network", "passes": 2})
    loss = configure(registry.find("loss", "lambdarank"), {})
    model = gradient.minimise(loss, data, Run()).model
    assert isinstance(model, NetworkModel)
    return model


def centred(scores: Vector) -> Vector:
    moved: Vector = scores - scores.mean()
    return moved


def test_the_mean_of_linear_models_is_linear_and_ranks_as_the_mean_of_their_scores() -> None:
    mean = average([ONE, TWO], weights=[1, 3])
    assert isinstance(mean, LinearModel)
    expected = 0.25 * ONE.score(X) + 0.75 * TWO.score(X)
    assert centred(mean.score(X)) == pytest.approx(centred(expected), abs=1e-6)


def test_other_models_are_kept_as_parts_and_read_back(tmp_path: Path) -> None:
    other = network()
    mean = average([ONE, other])
    assert isinstance(mean, AverageModel)
    assert mean.score(X) == pytest.approx((ONE.score(X) + other.score(X)) / 2)
    save_model(mean, tmp_path / "mean.json")
    again = load_scoring_model(tmp_path / "mean.json")
    assert np.array_equal(again.score(X), mean.score(X))


def test_averages_are_taken_apart() -> None:
    other = network()
    inner = average([ONE, other])
    outer = average([inner, TWO])
    assert isinstance(outer, AverageModel)
    assert len(outer.parts) == 3
    assert outer.score(X) == pytest.approx((inner.score(X) + TWO.score(X)) / 2)


def test_what_cannot_be_averaged_is_refused() -> None:
    with pytest.raises(BadInput, match="different features"):
        average([ONE, LinearModel(("a", "c"), np.ones(2))])
    with pytest.raises(BadInput, match="as many weights"):
        average([ONE, TWO], weights=[1.0])
    with pytest.raises(BadInput, match="not negative"):
        average([ONE, TWO], weights=[1.0, -1.0])
    with pytest.raises(BadInput, match="no model"):
        average([])


def test_a_wrong_width_is_refused() -> None:
    features: Matrix = np.zeros((2, 3), dtype=np.float32)
    with pytest.raises(BadInput, match="the model scores 2 features"):
        AverageModel(NAMES, (ONE, TWO), np.ones(2)).score(features)
