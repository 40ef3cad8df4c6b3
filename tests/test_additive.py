"""Additive models: curves that a linear optimizer learned on ramps, still convex and certified."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import owpc_ltr as ltr
from owpc_ltr.arrays import Matrix
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.errors import BadInput, OwpcLtrWarning, Refused, UsageError
from owpc_ltr.features.feature_set import DERIVED, Feature, FeatureSet
from owpc_ltr.formats.plugin_free.form import plugin_free_model, score_shift, store_plugin_free
from owpc_ltr.formats.plugin_free.piecewise_linear import (
    plugin_free_curves,
    read_plugin_free_curves,
)
from owpc_ltr.models.additive import AdditiveModel, Curve
from owpc_ltr.models.feature_use import importances
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.models.score_range import LOWEST_RESCORED, score_interval
from owpc_ltr.training.defaults import KNOTS
from owpc_ltr.training.feature_cost import Costs
from owpc_ltr.training.piecewise_linear import piecewise_linear_columns
from tests.commands import commands_in

NAMES = tuple("abcd")
FEATURES = FeatureSet(
    "letters", tuple(Feature(name, ("k",), {"match": {name: "{{k}}"}}) for name in NAMES)
)
SEEDS = st.integers(0, 2**32 - 1)


def documents(rng: np.random.Generator, count: int = 200) -> Matrix:
    """One feature of each kind: spread, with gaps, mostly zeros, and constant with gaps."""
    features = rng.gamma(2.0, 2.0, (count, 4)).astype(np.float32)
    features[rng.random(count) < 0.3, 1] = np.nan
    features[rng.random(count) < 0.7, 2] = 0
    features[:, 3] = np.where(rng.random(count) < 0.5, np.nan, 1)
    return features


def problem(seed: int = 0, queries: int = 12) -> RankingDataset:
    """A valley in one feature, a step at a gap of another."""
    rng = np.random.default_rng(seed)
    features = documents(rng, 20 * queries)
    utility = np.abs(features[:, 0] - 4) + 3 * np.isnan(features[:, 1])
    labels = (utility > np.median(utility)).astype(np.float32)
    return make_dataset(
        features, labels, np.repeat(np.arange(queries), 20), feature_names=list(NAMES)
    )


def random_model(rng: np.random.Generator) -> AdditiveModel:
    curves = {}
    for name in NAMES[: int(rng.integers(1, 5))]:
        knots = np.unique(np.round(rng.gamma(2.0, 2.0, int(rng.integers(1, 9))), 2))
        values = rng.normal(size=len(knots)) * float(rng.choice([0.01, 1, 3]))
        curves[name] = Curve(knots, values, float(rng.choice([0.0, values[0], rng.normal()])))
    return AdditiveModel(NAMES, curves)


@given(SEEDS)
def test_a_linear_model_of_the_ramps_is_the_curves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = problem(seed % 1000)
    columns = piecewise_linear_columns(data, int(rng.integers(2, 12)))
    expanded = columns.expanded(data)
    assert not np.isnan(expanded.features).any()
    linear = LinearModel(expanded.feature_names, rng.normal(size=expanded.n_features))
    curves = columns.model_of(linear)
    # A float32 ramp is off by half a unit in the last place.
    np.testing.assert_allclose(
        curves.score(data.features), linear.score(expanded.features), atol=1e-5
    )


def test_curves_are_straight_between_knots_and_level_beyond() -> None:
    curve = Curve(np.array([1.0, 3.0]), np.array([2.0, -2.0]), 0.5)
    asked = np.array([-np.inf, 0, 1, 2, 3, 9, np.inf, np.nan])
    assert curve.at(asked).tolist() == [2, 2, 2, 0, -2, -2, -2, 0.5]
    assert curve.ends == (-2.0, 2.0)


@pytest.mark.parametrize(
    ("knots", "values", "what"),
    [
        ([], [], "0 knots"),
        ([1.0], [1.0, 2.0], "1 knots has 2"),
        ([1.0, 1.0], [0.0, 0.0], "do not ascend"),
        ([1.0, np.inf], [0.0, 0.0], "not a finite"),
        ([1.0], [np.nan], "not a finite"),
    ],
)
def test_curves_that_are_none_are_refused(knots: Any, values: Any, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        Curve(np.array(knots), np.array(values))
    with pytest.raises(BadInput, match="'z', which is no feature"):
        AdditiveModel(("a",), {"z": Curve(np.zeros(1), np.zeros(1))})


def test_training_on_ramps_is_certified_and_better_than_a_line_where_there_is_a_valley(
    tmp_path: Path,
) -> None:
    data, held_out = problem(1), problem(2)
    settings = {"C": 1.0}
    model: Any = ltr.train(
        data, settings=settings, piecewise_linear=True, knots=6, validation_share=0, test_share=0
    )
    line: Any = ltr.train(data, settings=settings, validation_share=0, test_share=0)
    assert isinstance(model, AdditiveModel)
    assert model.record["certificate"]["relative_gap"] <= 1e-3
    assert model.record["basis"] == {"name": "ramps", "knots": 6}
    ours, theirs = (mean_precision(each, held_out) for each in (model, line))
    assert ours > theirs + 0.1
    model.save(tmp_path / "m.json")
    again: Any = load_scoring_model(tmp_path / "m.json")
    np.testing.assert_array_equal(again.score(data.features), model.score(data.features))
    assert again.record == model.record
    # Both sides of the valley are higher than its ground.
    curve = model.curves["a"]
    assert curve.values.argmin() not in (0, len(curve.values) - 1)
    # What is known of a gap is in the curve: its own value, below which the others lie.
    assert model.curves["b"].missing > model.curves["b"].values.max()


def mean_precision(model: Any, data: RankingDataset) -> float:
    from owpc_ltr.metrics import parse_metric

    return parse_metric("map").mean(model.score(data.features), data.labels, data.offsets)


def test_constant_and_empty_features_have_no_curve_and_none_at_all_is_refused() -> None:
    data = problem(1)
    features = data.features.copy()
    features[:, 0], features[:, 2] = 7.0, np.nan
    columns = piecewise_linear_columns(replace(data, features=features), KNOTS)
    assert [len(knots) for knots in columns.knots][::2] == [1, 0]
    with pytest.warns(OwpcLtrWarning, match="documents: a, c"):
        model: Any = ltr.train(
            replace(data, features=features),
            settings={"C": 1.0},
            piecewise_linear=True,
            validation_share=0,
            test_share=0,
        )
    assert not {"a", "c"} & set(model.curves)
    features[:] = 1.0
    with pytest.raises(UsageError, match="no feature differs"):
        piecewise_linear_columns(replace(data, features=features), KNOTS)


def test_what_was_never_missing_counts_0_where_it_is_as_in_linear_models() -> None:
    data = problem(1)
    model: Any = ltr.train(
        data, settings={"C": 1.0}, piecewise_linear=True, validation_share=0, test_share=0
    )
    rows = np.zeros((2, 4), np.float32)
    rows[1, 0] = np.nan
    assert model.score(rows)[0] == model.score(rows)[1]
    zero: Any = ltr.train(
        data,
        settings={"C": 1.0},
        piecewise_linear=True,
        missing="zero",
        validation_share=0,
        test_share=0,
    )
    gaps = np.full((1, 4), np.nan, np.float32)
    assert zero.score(gaps)[0] == zero.score(np.zeros((1, 4), np.float32))[0]


def test_curves_are_for_linear_optimizers_and_have_two_knots() -> None:
    data = problem(1)
    with pytest.raises(UsageError, match="2 knots or more"):
        ltr.train(data, piecewise_linear=True, knots=1, validation_share=0, test_share=0)
    with pytest.raises(UsageError, match="kind 'trees'"):
        ltr.train(
            data,
            piecewise_linear=True,
            loss="lambdarank",
            optimizer="boosting",
            settings={"trees": 2},
            validation_share=0,
            test_share=0,
        )


def test_features_that_cost_more_than_they_are_worth_lose_their_curve() -> None:
    costs = Costs(dict.fromkeys(NAMES[2:], 100.0), 1.0)
    model: Any = ltr.train(
        problem(1),
        validation=problem(2),
        settings={"C": 1.0},
        piecewise_linear=True,
        feature_cost=costs,
    )
    assert set(model.curves) <= {"a", "b"}
    assert "a" in model.curves


@given(SEEDS)
def test_no_score_leaves_the_interval(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    interval = score_interval(model)
    assert interval.proven
    scores = model.score(10 * documents(rng))
    assert interval.low <= scores.min()
    assert scores.max() <= interval.high


def test_what_a_feature_does_is_how_far_its_curve_goes() -> None:
    model = random_model(np.random.default_rng(3))
    found = importances(model)
    spans = [facts["span"] for facts in found.values()]
    assert spans == sorted(spans, reverse=True)
    assert found["a"]["missing"] == model.curves["a"].missing
    assert "additive" in model._repr_html_()


@given(SEEDS, st.booleans())
def test_the_form_of_a_plain_engine_scores_as_the_model_plus_its_shift(
    seed: int, never_missing: bool
) -> None:
    rng = np.random.default_rng(seed)
    model, features = random_model(rng), documents(rng)
    if never_missing:
        features = np.nan_to_num(features)
    form = plugin_free_curves(model, NAMES if never_missing else ())
    form = read_plugin_free_curves(json.loads(json.dumps(form.as_dict())), "it")
    scores = form.score(NAMES, features)
    spread = form.interval.high - form.interval.low
    difference = np.abs(scores - form.shift - model.score(features))
    assert difference.max() <= 1e-6 * max(spread, 1e-3)
    assert scores.min() * (1 + 1e-6) >= LOWEST_RESCORED
    assert scores.max() <= form.interval.high


def test_features_that_are_no_queries_are_refused_and_damage_is_told() -> None:
    model = random_model(np.random.default_rng(3))
    stored = store_plugin_free(model, FEATURES, "m")
    assert score_shift(stored) == plugin_free_curves(model).shift
    derived = Feature("a", (), "b + 1", DERIVED)
    with pytest.raises(Refused, match="'a', a derived_expression"):
        store_plugin_free(model, replace(FEATURES, features=(derived, *FEATURES.features[1:])), "m")
    for damage in (
        {"format": 3},
        {"shift": None},
        {"curves": [{"feature": "a", "knots": [1.0], "values": [-1.0], "missing": None}]},
    ):
        with pytest.raises(BadInput, match="the stored model 'm'"):
            plugin_free_model(replace(stored, definition={**stored.definition, **damage}))


def test_a_form_is_read_once_a_model_and_is_never_that_of_another() -> None:
    models = [random_model(np.random.default_rng(seed)) for seed in range(40)]
    stored = [store_plugin_free(model, FEATURES, f"m{seed}") for seed, model in enumerate(models)]
    assert plugin_free_model(stored[0]) is plugin_free_model(stored[0])
    for model, one in zip(models, stored, strict=True):
        form = plugin_free_model(one)
        assert form is not None
        assert form.shift == plugin_free_curves(model).shift
    for model in models:
        # Each goes at once, so that the next may be where it was.
        form = plugin_free_model(store_plugin_free(model, FEATURES, "m"))
        assert form is not None
        assert form.shift == plugin_free_curves(model).shift


def test_the_command_line_trains_and_shows_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from owpc_ltr.data.parquet import save_dataset

    run = commands_in(tmp_path, monkeypatch, capsys)
    save_dataset(problem(1, queries=40), tmp_path / "d.parquet")
    words = ("train", "d.parquet", "--out", "m.json", "--set", "optimizer.C=1")
    code, out, err = run(*words, "--piecewise-linear", "--knots", "5")
    assert code == 0, err
    code, out, err = run("models", "show", "m.json")
    assert "additive" in out
    assert "SPAN" in out
    assert "basis.knots" in out
    code, out, err = run(*words, "--knots", "5")
    assert code == 2
    assert "add --piecewise-linear" in err
