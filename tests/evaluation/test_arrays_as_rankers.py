"""What a notebook has: score arrays, fitted models of other libraries, (X, y, q), functions."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest

import owpc_ltr as ltr
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.training.cross_validation import cut_folds
from owpc_ltr.training.train import TrainingSummary
from tests.datasets import train_on_all
from tests.rankers import judged, linear

METRIC = "ndcg@5"


@pytest.fixture
def data() -> ltr.RankingDataset:
    return judged(seed=8)


class Fitted:
    """A fitted model, as scikit-learn has them."""

    def predict(self, features: Any) -> Any:
        return np.asarray(features) @ np.array([1.0, 0.1])


def evaluated(ranker: Any, data: ltr.RankingDataset) -> Any:
    return ltr.evaluate(ranker, data, metrics=METRIC).rankers[0].measured[0].per_query


def compared(ranker: Any, data: ltr.RankingDataset) -> Any:
    comparison = ltr.compare({"one": ranker, "other": "feature:likes"}, data, metrics=METRIC)
    return comparison.rankers[0].measured[0].per_query


@pytest.mark.parametrize("measured", [evaluated, compared])
def test_scores_and_fitted_models_are_rankers(measured: Any, data: ltr.RankingDataset) -> None:
    model = linear(1.0, 0.1)
    scores, expected = model.score(data.features), measured(model, data)
    for ranker in (scores, Fitted()):
        np.testing.assert_allclose(measured(ranker, data), expected)


@pytest.mark.parametrize("measured", [evaluated, compared])
def test_what_is_no_ranker_is_named(measured: Any, data: ltr.RankingDataset) -> None:
    with pytest.raises(
        BadInput, match=r"scores have shape \(3,\) where 320 documents need one each"
    ):
        measured(np.zeros(3), data)
    with pytest.raises(UsageError, match="dict is not a ranker: give a model, a run, 'feature"):
        measured({"a": 1}, data)


def test_nothing_tells_what_a_fitted_model_has_seen(data: ltr.RankingDataset) -> None:
    comparison = ltr.compare({"a": Fitted(), "b": linear(0.1, 1.0)}, data, metrics=METRIC)
    assert [warning.check for warning in comparison.verdict("a", "b").warnings] == [
        "unknown-training"
    ]
    scores = linear(1.0, 0.1).score(data.features)
    assert str(ltr.compare({"a": scores, "b": linear(0.1, 1.0)}, data, metrics=METRIC).verdict(
        "a", "b"
    )) == "better"  # fmt: skip


def test_boosters_of_xgboost_and_its_ranker_rank(data: ltr.RankingDataset) -> None:
    import xgboost

    qid = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    fitted = xgboost.XGBRanker(n_estimators=3).fit(data.features, data.labels, qid=qid)
    expected = evaluated(fitted.predict(data.features).astype(float), data)
    for ranker in (fitted, fitted.get_booster()):
        np.testing.assert_allclose(evaluated(ranker, data), expected)


def test_features_labels_and_query_ids_are_data(data: ltr.RankingDataset) -> None:
    qid = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    arrays: Any = (data.features, data.labels, qid)
    model = ltr.train(arrays, settings={"C": 1.0})
    plain = ltr.make_dataset(*arrays)
    for measured in (evaluated, compared):
        with pytest.raises(UsageError, match="no feature is called 'likes'"):
            measured("feature:likes", arrays)
    assert ltr.evaluate(model, arrays)["map"].mean == ltr.evaluate(model, plain)["map"].mean
    comparison = ltr.compare({"model": model, "one": "feature:1"}, arrays, metrics=METRIC)
    assert comparison.n_queries == ltr.evaluate(model, plain)["map"].queries


def test_whole_numbers_that_a_merge_made_floats_are_query_ids(data: ltr.RankingDataset) -> None:
    ids = pd.Series([1.0, 1.0, 2.0])
    made = ltr.make_dataset([[1.0], [2.0], [3.0]], [0, 1, 0], ids)
    assert made.query_ids.to_pylist() == ["1", "2"]
    for wrong in ([1.5, 1.5, 2.0], [1.0, 1.0, float("nan")]):
        with pytest.raises(BadInput, match="query ids must be text or whole numbers"):
            ltr.make_dataset([[1.0], [2.0], [3.0]], [0, 1, 0], pd.Series(wrong))


def hinge_of_means(scores: Any, labels: Any, weights: Any) -> Any:
    """1 − (mean of relevant − mean of others), at least 0."""
    relevant = labels > 1
    if relevant.all() or not relevant.any():
        return 0.0, np.zeros_like(scores)
    slope = np.where(relevant, -1.0 / relevant.sum(), 1.0 / (~relevant).sum())
    value = 1.0 + slope @ scores
    return (value, slope) if value > 0 else (0.0, np.zeros_like(scores))


def test_a_function_is_a_loss(data: ltr.RankingDataset) -> None:
    model = ltr.train(data, loss=hinge_of_means, optimizer="gradient", settings={"C": 1.0})
    assert model.record["loss"] == {"name": "hinge-of-means", "settings": {}}
    assert model.weights[0] > 0  # type: ignore[attr-defined]
    assert "loss.generator" not in str(model.record["warnings"])


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("n_estimators", "trees"), ("learning_rate", "eta"), ("max_depth", "depth")],
)
def test_the_names_of_other_libraries_lead_to_ours(
    theirs: str, ours: str, data: ltr.RankingDataset
) -> None:
    how = {"loss": "lambdarank", "optimizer": "boosting", "settings": {theirs: 1}}
    with pytest.raises(UsageError, match=f"no setting '{theirs}': it is called {ours} here"):
        ltr.train(data, **how)  # type: ignore[arg-type]


def test_models_and_folds_are_used_as_elsewhere(data: ltr.RankingDataset) -> None:
    model = linear(1.0, 0.1)
    assert (model.predict(data.features) == model.score(data.features)).all()
    training, validation, test = cut_folds(data, 4)[0]
    assert training.n_queries + validation.n_queries + test.n_queries == data.n_queries
    ranker = ltr.Ranker(C=1.0).fit(data.features, data.labels, qid=np.repeat(np.arange(40), 8))
    assert ranker.feature_importances_.sum() == pytest.approx(1.0)
    assert list(inspect.signature(ltr.Ranker).parameters)[:2] == ["loss", "optimizer"]
    assert {name for name in dir(ltr) if name.startswith("_")} == {"__version__"}
    assert not {"annotations", "Any", "arrays"} & {*dir(ltr)}


def test_an_average_may_take_models_of_different_spread_alike(data: ltr.RankingDataset) -> None:
    from owpc_ltr.models.model_file import parity_samples_of

    samples = parity_samples_of(data)
    narrow, other = linear(1.0, 0.0, probes=samples), linear(0.0, 1000.0)
    mean = ltr.average([narrow, other], normalise=True)
    uses = mean.feature_uses()  # type: ignore[attr-defined]
    spread = np.std(data.features, axis=0)
    assert 0.3 < abs(uses["bm25"] * spread[0] / (uses["likes"] * spread[1])) < 3
    with pytest.raises(BadInput, match="the first model remembers no queries"):
        ltr.average([other, narrow], normalise=True)


def test_train_says_what_became_of_the_other_queries(data: ltr.RankingDataset) -> None:
    summary = str(TrainingSummary(ltr.train(data, settings={"C": 1.0})))
    assert (
        "that is 60% of the queries; 20% chose the settings, 20% are kept for evaluate" in summary
    )
    whole = train_on_all(data, settings={"C": 1.0})
    assert "of the queries" not in str(TrainingSummary(whole))
