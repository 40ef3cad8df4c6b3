"""What models score: arrays of any kind, and one line for what is no matrix of their features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from owpc_ltr.errors import BadInput
from owpc_ltr.models.model_file import load_scoring_model, model_matrix
from owpc_ltr.models.reordering import ReorderingModel, load_model
from owpc_ltr.protocols import Model
from tests.model_samples import LINEAR, MODELS, NAMES

X = np.array([[0.5, np.nan, 2], [-1, 4, 0.25]], dtype=np.float32)


def kind(model: Model) -> str:
    return model.kind


@pytest.mark.parametrize("model", MODELS, ids=kind)
def test_every_kind_of_model_scores_numbers_of_every_kind(model: Model) -> None:
    expected = model.score(X)
    table = pa.table({name: X[:, column] for column, name in enumerate(NAMES)})
    forms: list[Any] = [
        X.tolist(),
        X.astype(np.float64),
        np.asfortranarray(X),
        X.astype(object),
        table.select(["d", "a<b", "c"]),
    ]
    for features in forms:
        assert np.allclose(model.score(features), expected, rtol=1e-14, atol=0)
    whole: Any = np.array([[1, 2, 3]])
    assert np.array_equal(model.score(whole), model.score(whole.astype(np.float32)))


@pytest.mark.parametrize("model", MODELS, ids=kind)
@pytest.mark.parametrize(
    ("features", "message"),
    [
        (X[0], r"the 3 features of one document are a row: give rows × columns, \[\[…\]\]"),
        ([1, 2, 3], "the 3 features of one document are a row"),
        (X[:, :2], "the model scores 3 features, the data has 2: use the data of the feature set"),
        (X[0, :2], "the model scores 3 features, the data has 2"),
        (np.float32(1), "the model scores 3 features, the data has 0"),
        ([["1", "2", "3"]], r"features\[0, 0\] is '1', a str, and must be a number"),
        (np.array([["1", "2", "3"]]), "features must be numbers, and these are <U1"),
    ],
)
def test_what_is_no_matrix_of_the_features_is_refused_in_one_line(
    model: Model, features: Any, message: str
) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        model.score(features)
    assert "\n" not in str(caught.value)


def test_arrays_of_floats_are_scored_as_they_are() -> None:
    for features in (X, X.astype(np.float64), np.asfortranarray(X)):
        assert model_matrix(LINEAR, features) is features


@pytest.mark.parametrize("model", [*MODELS, ReorderingModel(LINEAR, "any", None)], ids=kind)
@pytest.mark.parametrize("as_text", [True, False])
def test_every_kind_of_model_saves_itself(model: Any, as_text: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    model.save(str(path) if as_text else path)
    if isinstance(model, ReorderingModel):
        assert np.array_equal(load_model(path).base.score(X), LINEAR.score(X))  # type: ignore[union-attr]
    else:
        assert np.array_equal(load_scoring_model(path).score(X), model.score(X))
