"""Sums of forests, and curves as steps: the same scores here, and in every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_optimizers.boosting import Boosting

import owpc_ltr as ltr
from owpc_ltr.arrays import Matrix
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.ltr_plugin import emulate, export_to_plugin
from owpc_ltr.formats.plugin_free import plugin_free_trees
from owpc_ltr.formats.stored_model import serving_profile
from owpc_ltr.models.forests import Steps, sum_of_forests
from owpc_ltr.models.linear import AdditiveModel, Curve, LinearModel
from owpc_ltr.models.trees import HIGHEST, Forest, TreeModel
from owpc_ltr.protocols import Run
from tests.small_models import random_forest

NAMES = ("heavy", "few", "gaps", "flat")


def documents(seed: int = 0, queries: int = 40) -> RankingDataset:
    """A heavy tail, few values, missing values, and one value alone."""
    rng = np.random.default_rng(seed)
    n = queries * 10
    features = np.empty((n, 4), dtype=np.float32)
    features[:, 0] = np.where(rng.random(n) < 0.5, 0.0, rng.lognormal(sigma=3.0, size=n))
    features[:, 1] = rng.integers(-2, 3, n)
    features[:, 2] = np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n))
    features[:, 3] = 7.0
    wish = np.nan_to_num(features[:, 2]) + features[:, 1] + (features[:, 0] > 2.0)
    labels = (wish > 1).astype(int)
    return ltr.make_dataset(
        features, labels, np.repeat(np.arange(queries), 10), feature_names=list(NAMES)
    )


def linear(*weights: float) -> LinearModel:
    return LinearModel(NAMES, np.array(weights))


def curved() -> AdditiveModel:
    bent = Curve(np.array([-1.0, 0.0, 2.0]), np.array([0.0, 3.0, -1.0]), missing=0.25)
    steep = Curve(np.array([0.0, 1.0]), np.array([1.0, 2.0]), missing=1.0)
    return AdditiveModel(NAMES, {"gaps": bent, "heavy": steep})


def test_a_sum_of_forests_scores_as_the_sum_of_their_scores(rng: np.random.Generator) -> None:
    features = documents().features
    models = [
        TreeModel(NAMES, random_forest(rng, features, trees=5), base=base) for base in (0.5, -2.0)
    ]
    whole = sum_of_forests(models, [0.25, -3.0])
    expected = 0.25 * models[0].score(features) - 3.0 * models[1].score(features)
    np.testing.assert_allclose(whole.score(features), expected, rtol=1e-12, atol=1e-12)
    assert len(whole.forest.roots) == 10


@pytest.mark.parametrize("most", [2, 5, 63, 64])
def test_steps_begin_at_values_and_are_no_more_than_asked_for(most: int) -> None:
    data = documents()
    steps = Steps.of(data, most)
    for column, thresholds in enumerate(steps.thresholds):
        values = data.features[:, column]
        known = values[~np.isnan(values)]
        assert len(thresholds) + 1 + np.isnan(values).any() <= most
        assert np.isin(thresholds, known).all()
        assert (thresholds > known.min()).all()
        assert (np.diff(thresholds) > 0).all()
    # Half of the documents have one value, which takes one step: the others have all the rest.
    assert len(steps.thresholds[0]) >= min(most - 2, 60)
    assert len(steps.thresholds[3]) == 0


def test_where_each_value_has_a_step_the_forest_is_the_models_it_is_made_of() -> None:
    data = documents()
    steps = Steps.of(data, 10_000)
    models = (linear(0.5, -1.0, 2.0, 3.0), 2.0), (curved(), -1.5)
    forest = steps.forest_of(models, data)
    assert forest is not None
    expected = 2.0 * models[0][0].score(data.features) - 1.5 * curved().score(data.features)
    # What is the same for every document orders nothing.
    expected -= 2.0 * 3.0 * 7.0
    np.testing.assert_allclose(forest.score(data.features), expected, atol=1e-9)


def test_within_a_step_all_documents_have_its_mean() -> None:
    data = documents()
    steps = Steps.of(data, 6)
    model = linear(0.0, 0.0, 1.0, 0.0)
    forest = steps.forest_of([(model, 1.0)], data)
    assert forest is not None
    values, scores = data.features[:, 2], forest.score(data.features)
    assert (scores[np.isnan(values)] == 0.0).all()
    known = ~np.isnan(values)
    step = np.searchsorted(steps.thresholds[2], values[known], side="right")
    for number in range(len(steps.thresholds[2]) + 1):
        own = scores[known][step == number]
        assert (own == own[0]).all()
        assert own[0] == pytest.approx(values[known][step == number].mean(dtype=np.float64))


def test_a_feature_that_was_never_missing_is_0_where_it_is() -> None:
    data = documents()
    forest = Steps.of(data, 63).forest_of([(linear(1.0, 5.0, 0.0, 0.0), 1.0)], data)
    assert forest is not None
    rows = np.array([[np.nan, np.nan, 1.0, 7.0], [0.0, 0.0, 1.0, 7.0]], dtype=np.float32)
    gone, zero = forest.score(rows)
    assert gone == zero


def test_models_without_any_effect_make_no_forest() -> None:
    data = documents()
    assert Steps.of(data, 63).forest_of([(linear(0.0, 0.0, 0.0, 2.0), 1.0)], data) is None


def test_trees_of_floored_data_split_at_steps_alone_and_score_both_alike() -> None:
    data = documents(queries=200)
    steps = Steps.of(data, 63)
    floored = steps.floored(data)
    settings = Boosting(trees=60, depth=2, leaf=1.0)
    model: Any = settings.minimise(LambdaRank(), floored, Run()).model
    forest: Forest = model.forest
    for column, thresholds in enumerate(steps.thresholds):
        used = forest.threshold[forest.feature == column]
        assert np.isin(used, thresholds).all()
    assert (forest.feature == 0).any()
    np.testing.assert_array_equal(model.score(floored.features), model.score(data.features))


def feature_set() -> FeatureSet:
    match = {"match": {"body": "{{keywords}}"}}
    return FeatureSet("f", tuple(Feature(name, ("keywords",), match) for name in NAMES))


def plain_engine(model: TreeModel, features: Matrix) -> Any:
    form = plugin_free_trees(model, NAMES)
    return form.score(NAMES, features) - form.shift


def ltr_plugin(model: TreeModel, features: Matrix) -> Any:
    profile = serving_profile("opensearch", "3.8")
    return emulate(export_to_plugin(model, feature_set(), "m", profile), features, profile)


@pytest.mark.parametrize("engine", [plain_engine, ltr_plugin])
def test_curves_as_steps_beside_trees_score_in_an_engine_as_here(
    engine: Any, rng: np.random.Generator
) -> None:
    data = documents()
    stepped = Steps.of(data, 63).forest_of(
        [(linear(0.01, 0.3, 1.0, 0.0), 1.0), (curved(), 1.0)], data
    )
    assert stepped is not None
    trees = TreeModel(NAMES, random_forest(rng, data.features, trees=8))
    model = sum_of_forests([stepped, trees], [1.0, 0.5])
    other = documents(seed=1).features
    other[0] = np.nan
    other[1] = -HIGHEST / 2
    scores = model.score(other)
    np.testing.assert_allclose(engine(model, other), scores, atol=1e-5 * np.ptp(scores))


def test_four_features_of_all_their_steps_are_one_number_in_an_engine() -> None:
    """The features of a sum are asked for once, not once more for each pair."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(800, 4)).astype(np.float32)
    data = ltr.make_dataset(
        features, (features[:, 0] > 0).astype(int), np.repeat(np.arange(80), 10),
        feature_names=list(NAMES),
    )  # fmt: skip
    steps = Steps.of(data, 63)
    assert [len(own) for own in steps.thresholds] == [62] * 4
    model = steps.forest_of([(linear(1.0, 2.0, 3.0, 4.0), 1.0)], data)
    assert model is not None
    assert plugin_free_trees(model, NAMES).size == (4, 4)


def test_boosting_tells_its_model_after_any_number_of_trees() -> None:
    data = documents(queries=60)
    halves = data.select(np.arange(40)), data.select(np.arange(40, 60))
    settings: dict[str, Any] = {"depth": 2, "leaf": 1.0, "trees": 30, "patience": 5}
    run = Run(validation=halves[1], metric="ndcg@10")
    fit = Boosting(**settings).minimise(LambdaRank(), halves[0], run)
    assert fit.after is not None
    # Without validation queries no tree is left out.
    alone = Run(metric="ndcg@10")
    for count in (1, 3, len(fit.history)):
        again = Boosting(**{**settings, "trees": count}).minimise(LambdaRank(), halves[0], alone)
        np.testing.assert_array_equal(
            fit.after(count).score(data.features), again.model.score(data.features)
        )
