"""Rankers as scikit-learn estimators: clones, grids, pipelines, query ids in a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import owpc_ltr as ltr
from owpc_ltr.errors import OwpcLtrError
from tests.dataset_samples import arrays

X, Y, QID = arrays()


def test_it_scores_as_the_model_that_train_makes() -> None:
    ranker = ltr.OwpcRanker(generator="inverse", C=1.0).fit(X, Y, qid=QID)
    model = ltr.train(
        ltr.make_dataset(X, Y, QID),
        settings={"generator": "inverse", "C": 1.0},
        validation_share=0,
        test_share=0,
    )
    np.testing.assert_array_equal(ranker.predict(X), model.score(X))


def test_a_clone_has_the_same_parameters_and_settings() -> None:
    ranker = ltr.Ranker(loss="lambdarank", optimizer="boosting", trees=20, seed=3)
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    assert copy.get_params()["trees"] == 20
    assert copy.set_params(trees=5, seed=1).get_params()["trees"] == 5
    assert ranker.get_params()["trees"] == 20
    assert (
        clone(ltr.OwpcRanker(C=7.0, p=3.0)).get_params()
        == ltr.OwpcRanker(C=7.0, p=3.0).get_params()
    )


def test_any_pair_of_plugins_is_an_estimator() -> None:
    ranker = ltr.Ranker(loss="lambdarank", optimizer="boosting", trees=20).fit(X, Y, qid=QID)
    assert ranker.score(X, Y, qid=QID) > 0.9
    with pytest.raises(OwpcLtrError, match="no optimizer is named 'nosuch'"):
        ltr.Ranker(optimizer="nosuch").fit(X, Y, qid=QID)


def test_query_ids_may_be_a_column_of_the_frame() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(qid=QID)
    ranker = ltr.OwpcRanker().fit(frame, Y)
    assert ranker.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(
        ranker.predict(frame), ltr.OwpcRanker().fit(X, Y, qid=QID).predict(X)
    )
    with pytest.raises(OwpcLtrError, match="query ids are needed"):
        ltr.OwpcRanker().fit(X, Y)


def test_a_grid_search_chooses_the_c_that_train_chooses_on_the_same_folds() -> None:
    grid = [0.001, 0.01, 0.1, 1.0, 10.0]
    parts = ltr.make_dataset(X, Y, QID).split(validation=0.4, test=0.0)
    chosen_on = np.isin(QID, parts.validation.query_ids.to_pylist())
    frame = pd.DataFrame(X, columns=["1", "2", "3"]).assign(qid=QID)
    folds = PredefinedSplit(np.where(chosen_on, 0, -1))
    search = GridSearchCV(ltr.OwpcRanker(), {"C": grid}, cv=folds).fit(frame, Y)
    model = ltr.train(
        parts.training, validation=parts.validation, grid={"C": grid},
        settings={"generator": "inverse"}, metric="map",
    )  # fmt: skip
    assert search.best_params_["C"] == model.record["optimizer"]["settings"]["C"]
    assert search.best_score_ == pytest.approx(model.record["validation"], abs=1e-3)


def test_groups_keep_queries_whole_in_a_grid_search() -> None:
    frame = pd.DataFrame(X, columns=["1", "2", "3"]).assign(qid=QID)
    search = GridSearchCV(ltr.OwpcRanker(), {"C": [0.1, 1.0]}, cv=GroupKFold(3))
    assert search.fit(frame, Y, groups=QID).best_score_ > 0.8


def test_it_stands_at_the_end_of_a_pipeline() -> None:
    pipeline: Any = make_pipeline(StandardScaler(), ltr.OwpcRanker(normalise="none"))
    pipeline.fit(X, Y, owpcranker__qid=QID)
    assert pipeline.predict(X).shape == (len(X),)
