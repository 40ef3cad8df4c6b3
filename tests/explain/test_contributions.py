"""Contributions of every kind of model: they add up to the score, and are what they are named."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import factorial
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from hypothesis import given

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import Refused
from owpc_ltr.explanations.contributions import (
    contributions,
    in_words,
    of_network,
    paths,
    shapley_values,
    shares_of,
)
from owpc_ltr.formats.other_trees import from_lightgbm
from owpc_ltr.formats.xgboost_json import from_raw
from owpc_ltr.models.combined import AverageModel
from owpc_ltr.models.trees import DEEPEST, LEAF, Forest, TreeModel
from tests.explain.models import (
    FEW,
    KINDS,
    NAMES,
    SEEDS,
    averaged,
    curves,
    documents,
    linear,
    network,
    trees,
)
from tests.foreign_models import NAMES as XGBOOST_NAMES
from tests.foreign_models import raw
from tests.small_models import random_forest


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@FEW
@given(seed=SEEDS)
def test_contributions_add_up_to_the_score_of_a_thousand_documents(kind: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, rows = kind(rng), documents(rng)
    scores = model.score(rows)
    parts = contributions(model, rows)
    assert parts.amounts.shape == rows.shape
    assert np.abs(parts.scores - scores).max() <= 1e-9 * max(1.0, float(np.ptp(scores)))


def test_contributions_that_lack_one_feature_are_seen_not_to_add_up(
    rng: np.random.Generator,
) -> None:
    """The sum above can fail: without what one feature adds it is off by far more."""
    for kind in KINDS:
        model, rows = kind(rng), documents(rng)
        parts = contributions(model, rows)
        short = parts.scores - parts.amounts[:, 0]
        assert np.abs(short - model.score(rows)).max() > 1e-6 * np.ptp(model.score(rows)), kind


@given(SEEDS)
def test_without_its_largest_contributor_a_linear_score_is_less_by_what_that_was(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, rows = linear(rng), documents(rng, 50, 0.0)
    parts = contributions(model, rows)
    places = np.arange(50), np.abs(parts.amounts).argmax(axis=1)
    removed = rows.copy()
    removed[places] = np.nan
    np.testing.assert_allclose(
        model.score(removed), model.score(rows) - parts.amounts[places], atol=1e-9
    )


@given(SEEDS)
def test_without_its_largest_contributor_a_curve_gives_what_it_gives_to_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, rows = curves(rng), documents(rng, 50, 0.0)
    parts = contributions(model, rows)
    columns = np.abs(parts.amounts).argmax(axis=1)
    removed = rows.copy()
    removed[np.arange(50), columns] = np.nan
    missing = np.array([model.curves[NAMES[c]].missing if NAMES[c] in model.curves else 0.0
                        for c in columns])  # fmt: skip
    expected = model.score(rows) - parts.amounts[np.arange(50), columns] + missing
    np.testing.assert_allclose(model.score(removed), expected, atol=1e-9)


@given(SEEDS)
def test_trees_of_one_feature_each_give_it_its_output_less_their_mean(seed: int) -> None:
    """An additive forest: to replace the largest contributor by all others' values undoes it."""
    rng = np.random.default_rng(seed)
    model = TreeModel(NAMES, random_forest(rng, documents(rng, 50), 8, 4, 1))
    rows = documents(rng, 40)
    parts = contributions(model, rows)
    for row in range(5):
        column = int(np.abs(parts.amounts[row]).argmax())
        others = np.repeat(rows[row : row + 1], len(rows), axis=0)
        others[:, column] = rows[:, column]
        undone = model.score(rows[row : row + 1])[0] - parts.amounts[row, column]
        assert np.isclose(model.score(others).mean(), undone, atol=1e-9)


def expectation(forest: Forest, shares: Vector, row: Vector, known: set[int], node: int) -> float:
    """What a tree gives where some features are known (Lundberg, Erion & Lee 2018, Algorithm 1)."""
    column = int(forest.feature[node])
    if column == LEAF:
        return float(forest.value[node])
    left = int(forest.left[node])
    if column in known:
        x = row[column]
        goes_left = forest.default_left[node] if np.isnan(x) else x < forest.threshold[node]
        return expectation(forest, shares, row, known, left if goes_left else left + 1)
    both = (left, left + 1)
    return sum(float(shares[n]) * expectation(forest, shares, row, known, n) for n in both)


def brute_force(forest: Forest, shares: Vector, row: Vector) -> Vector:
    """The definition: the mean over all orders of what a feature adds to those before it."""
    width = len(row)
    values = np.zeros(width)
    for column in range(width):
        others = [c for c in range(width) if c != column]
        for size in range(width):
            weight = factorial(size) * factorial(width - size - 1) / factorial(width)
            for chosen in combinations(others, size):
                without, plus = set(chosen), {*chosen, column}
                for root in forest.roots.tolist():
                    more = expectation(forest, shares, row, plus, root)
                    values[column] += weight * (
                        more - expectation(forest, shares, row, without, root)
                    )
    return values


@FEW
@given(SEEDS)
def test_values_are_the_mean_over_all_orders_of_features(seed: int) -> None:
    """Few documents, so that they come to some splits not at all."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, documents(rng, 50), 3, 4, 5)
    rows, background = documents(rng, 3), documents(rng, int(rng.integers(1, 8)))
    values, means = shapley_values(forest, rows, background)
    shares = shares_of(forest, background)
    for row, computed in zip(rows, values, strict=True):
        np.testing.assert_allclose(computed, brute_force(forest, shares, row), atol=1e-9)
    np.testing.assert_allclose(means.sum(), forest.score(background).mean(), atol=1e-9)


def test_the_deepest_tree_that_there_is_loses_no_digits() -> None:
    """One path of 64 features, of which the documents leave one each: against whole fractions."""
    deep = DEEPEST
    inner, last = 2 * np.arange(deep), 2 * deep
    feature = np.full(last + 1, LEAF, np.int32)
    left, value = np.zeros(last + 1, np.int32), np.zeros(last + 1)
    feature[inner], left[inner], value[last] = np.arange(deep), inner + 1, 1.0
    flat = np.zeros(last + 1)
    forest = Forest(np.zeros(1, np.int32), feature, flat.astype(np.float32), left, flat > 0, value)
    # Document k is below 0 in feature k alone, and goes left there; the last one comes to the end.
    background = np.where(np.eye(deep + 1, deep) > 0, -1, 1).astype(np.float32)
    values, _ = shapley_values(forest, background[[deep, 7]], background)
    shares = [Fraction(deep - k, deep - k + 1) for k in range(deep)]
    for row, away in ((0, None), (1, 7)):
        own = [int(k != away) for k in range(deep)]
        exact = [float(each) for each in in_fractions(shares, own)]
        # Leaves of 0 add nothing: all comes from the one at the end.
        np.testing.assert_allclose(values[row], exact, rtol=1e-10)


def in_fractions(shares: list[Fraction], own: list[int]) -> list[Fraction]:
    """What a leaf of 1 gives to each feature, by the sums over subsets of each size."""
    sums = [Fraction(1)]
    for share, goes in zip(shares, own, strict=True):
        raised = [Fraction(0), *(goes * each for each in sums)]
        sums = [share * a + b for a, b in zip([*sums, Fraction(0)], raised, strict=True)]
    d = len(shares)
    weights = [Fraction(factorial(s) * factorial(d - s - 1), factorial(d)) for s in range(d)]
    values = []
    for share, goes in zip(shares, own, strict=True):
        # The sums over subsets without this feature: its factor is divided out.
        without = list[Fraction]()
        for each in sums[:-1]:
            without.append((each - goes * (without[-1] if without else 0)) / share)
        weighed = (w * each for w, each in zip(weights, without, strict=True))
        values.append((goes - share) * sum(weighed, Fraction(0)))
    return values


@pytest.mark.parametrize("depth", [1, 3, 6, 10])
def test_values_are_those_of_xgboost_against_the_documents_that_it_was_trained_on(
    rng: np.random.Generator, depth: int
) -> None:
    """Its cover of a node is then the number of documents: each has a second derivative of 1."""
    rows = documents(rng, 400)[:, :4]
    target = np.nan_to_num(rows[:, 0] * rows[:, 1] + rows[:, 2]) + np.isnan(rows[:, 3])
    matrix = xgboost.DMatrix(rows, target, feature_names=list(XGBOOST_NAMES))
    settings = {"max_depth": depth, "nthread": 1, "min_child_weight": 0, "eta": 0.4}
    booster = xgboost.train({"objective": "reg:squarederror", **settings}, matrix, 12)
    model = from_raw(raw(booster))
    theirs = booster.predict(matrix, pred_contribs=True)
    parts = contributions(model, rows)
    spread = float(np.ptp(model.score(rows)))
    assert np.abs(parts.amounts - theirs[:, :-1]).max() <= 3e-6 * spread
    assert np.abs(parts.baseline - theirs[:, -1]).max() <= 3e-6 * spread


def test_values_of_an_imported_forest_are_those_of_lightgbm(rng: np.random.Generator) -> None:
    """It counts documents, too; missing values go their own way in its trees."""
    rows = documents(rng, 400)
    target = np.nan_to_num(rows[:, 0] * rows[:, 1] + rows[:, 2]) + np.isnan(rows[:, 3])
    known = lightgbm.Dataset(rows.astype(np.float64), target)
    parameters = {
        "verbosity": -1,
        "num_threads": 1,
        "min_data_in_leaf": 3,
        "objective": "regression",
    }
    light = lightgbm.train(parameters, known, 20)
    model = from_lightgbm(light.model_to_string())
    theirs = light.predict(rows.astype(np.float64), pred_contrib=True)
    parts = contributions(model, rows)
    spread = float(np.ptp(model.score(rows)))
    assert np.abs(parts.amounts - theirs[:, :-1]).max() <= 1e-6 * spread
    assert np.abs(parts.baseline - theirs[:, -1]).max() <= 1e-6 * spread


@FEW
@given(SEEDS)
def test_trees_that_take_a_missing_value_for_zero_are_explained_alike(seed: int) -> None:
    """As RankLib's and an older engine's: a 0 in its place is explained by the same numbers."""
    rng = np.random.default_rng(seed)
    model, rows = trees(rng).with_missing_as_zero(), documents(rng, 50)
    parts, other = (contributions(model, each) for each in (rows, np.nan_to_num(rows)))
    np.testing.assert_allclose(parts.amounts, other.amounts, atol=1e-12)


def test_another_background_gives_other_values(rng: np.random.Generator) -> None:
    """The comparison with XGBoost can fail: it takes the documents that it was trained on."""
    forest, rows = trees(rng).forest, documents(rng)
    (ours, means), (others, other_means) = (
        shapley_values(forest, rows, background) for background in (rows, rows[:50])
    )
    assert np.abs(ours - others).max() > 1e-2
    scores = means.sum() + ours.sum(axis=1)
    np.testing.assert_allclose(scores, other_means.sum() + others.sum(axis=1), atol=1e-9)


def test_a_feature_that_no_tree_asks_for_adds_nothing(rng: np.random.Generator) -> None:
    forest = random_forest(rng, documents(rng, 50)[:, :3], 10, 5, 3)
    parts = contributions(TreeModel(NAMES, forest), documents(rng))
    assert not parts.amounts[:, 3:].any()
    assert parts.amounts[:, :3].any()


@FEW
@given(SEEDS)
def test_a_document_is_explained_alike_wherever_it_stands(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, rows = averaged(rng), documents(rng, 60)
    order = rng.permutation(60)
    parts, other = contributions(model, rows), contributions(model, rows[order])
    np.testing.assert_allclose(parts.amounts[order], other.amounts, atol=1e-12)


@FEW
@given(SEEDS)
def test_a_network_with_a_linear_output_gets_its_integrated_gradients(seed: int) -> None:
    """Against the integral itself, on the way from 0 to the document."""
    rng = np.random.default_rng(seed)
    model, rows = network(rng), documents(rng, 20, 0.0)
    points, weights = np.polynomial.legendre.leggauss(200)
    gradients = np.zeros(rows.shape)
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        hidden = np.tanh(point * rows @ model.weights.T + model.biases)
        gradients += weight * ((1 - hidden**2) * model.outputs) @ model.weights
    np.testing.assert_allclose(of_network(model, rows).amounts, rows * gradients, atol=1e-8)


@FEW
@given(SEEDS)
def test_the_ways_through_the_heaviest_trees_are_those_of_the_document(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, rows = trees(rng), documents(rng, 30)
    heaviest = paths(model, rows[0], rows, 12)
    outputs = sum(path.output for path in heaviest)
    assert np.isclose(model.base + outputs, model.score(rows[:1])[0])
    weights = [abs(path.output - path.mean_output) for path in heaviest]
    assert weights == sorted(weights, reverse=True)
    for path in heaviest:
        for split in path.splits:
            assert (
                np.isnan(split.value) or (split.value < np.float32(split.threshold)) == split.below
            )
    counted = [int(words.split()[0]) for words in in_words(model, rows[0])]
    asked = [split.feature for path in heaviest for split in path.splits]
    assert counted == [asked.count(name) for name in NAMES]


def test_a_path_of_an_average_counts_by_the_weight_of_its_part(rng: np.random.Generator) -> None:
    parts = trees(rng), trees(rng)
    model, rows = AverageModel(NAMES, parts, np.array([3.0, 1.0])), documents(rng, 30)
    heaviest = paths(model, rows[0], rows, 24)
    expected = float(model.score(rows[:1])[0]) - float(
        model.weights @ [part.base for part in parts]
    )
    assert np.isclose(sum(path.output for path in heaviest), expected)
    assert {path.tree.partition(" ")[2] for path in heaviest} == {"of part 1", "of part 2"}


def test_a_model_of_an_unknown_kind_is_refused_in_one_line() -> None:
    class Other:
        kind = "other"

    with pytest.raises(Refused, match="a ranker of kind 'other' cannot be explained"):
        contributions(Other(), np.zeros((1, 1), np.float32))  # type: ignore[arg-type]
