"""Models: additive ones, averages, importance, intervals of scores, and accepted input."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrWarning, average, load_model, save_model
from owpc_ltr.arrays import Matrix
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.engine.deployment.deployment_record import describe_model_file
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import DERIVED, Feature, FeatureSet
from owpc_ltr.formats.plugin_free import (
    CURVES,
    plugin_free_curves,
    plugin_free_model,
    score_shift,
    store_plugin_free,
)
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.formats.xgboost_json import from_raw
from owpc_ltr.host.registry import load
from owpc_ltr.models.analysis import (
    LOWEST_RESCORED,
    UNKNOWN,
    ScoreInterval,
    importances,
    score_interval,
)
from owpc_ltr.models.combined import AverageModel, ReorderingModel
from owpc_ltr.models.linear import (
    AdditiveModel,
    Curve,
    LinearModel,
    Normaliser,
    piecewise_linear_columns,
)
from owpc_ltr.models.model_file import load_scoring_model, model_matrix, with_record
from owpc_ltr.models.networks import NetworkModel
from owpc_ltr.models.trees import Forest, TreeModel
from owpc_ltr.protocols import Model
from owpc_ltr.training.options import KNOTS
from tests.commands import Run
from tests.datasets import train_on_all
from tests.foreign_models import NAMES as FOUR_NAMES
from tests.foreign_models import raw, trained
from tests.small_models import LINEAR, MODELS
from tests.small_models import NAMES as INPUT_NAMES

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
def test_a_linear_model_of_the_segments_is_piecewise_linear(seed: int) -> None:
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
    with pytest.raises(BadInput, match="'z', which is not a feature"):
        AdditiveModel(("a",), {"z": Curve(np.zeros(1), np.zeros(1))})


def test_training_on_segments_is_certified_and_better_than_a_line_where_there_is_a_valley(
    tmp_path: Path,
) -> None:
    data, held_out = problem(1), problem(2)
    settings = {"C": 1.0}
    model: Any = train_on_all(data, settings=settings, piecewise_linear=True, knots=6)
    line: Any = train_on_all(data, settings=settings)
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
    data = replace(data, features=features)
    assert [len(knots) for knots in piecewise_linear_columns(data, KNOTS).knots][::2] == [1, 0]
    with pytest.warns(OwpcLtrWarning, match="documents: a, c"):
        model: Any = train_on_all(data, settings={"C": 1.0}, piecewise_linear=True)
    assert not {"a", "c"} & set(model.curves)
    features[:] = 1.0
    with pytest.raises(UsageError, match="no feature differs"):
        piecewise_linear_columns(data, KNOTS)


def test_what_was_never_missing_counts_0_where_it_is_as_in_linear_models() -> None:
    data = problem(1)
    model: Any = train_on_all(data, settings={"C": 1.0}, piecewise_linear=True)
    rows = np.zeros((2, 4), np.float32)
    rows[1, 0] = np.nan
    assert model.score(rows)[0] == model.score(rows)[1]
    zero: Any = train_on_all(data, settings={"C": 1.0}, piecewise_linear=True, missing="zero")
    gaps = np.full((1, 4), np.nan, np.float32)
    assert zero.score(gaps)[0] == zero.score(np.zeros((1, 4), np.float32))[0]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"knots": 1}, "2 knots or more"),
        ({"loss": "lambdarank", "optimizer": "boosting"}, "kind 'trees'"),
    ],
)
def test_curves_are_for_linear_optimizers_and_have_two_knots(how: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train_on_all(problem(1), piecewise_linear=True, **how)


def test_features_that_are_left_out_lose_their_curve() -> None:
    model: Any = ltr.train(
        problem(1),
        validation=problem(2),
        settings={"C": 1.0},
        piecewise_linear=True,
        max_features=2,
        feature_cost=dict.fromkeys(NAMES[2:], 100.0),
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
    facts_by_feature = importances(model)
    spans = [facts["span"] for facts in facts_by_feature.values()]
    assert spans == sorted(spans, reverse=True)
    assert facts_by_feature["a"]["missing"] == model.curves["a"].missing
    assert "AdditiveModel" in model._repr_html_()


@given(SEEDS, st.booleans())
def test_the_form_of_a_plain_engine_scores_as_the_model_plus_its_shift(
    seed: int, never_missing: bool
) -> None:
    rng = np.random.default_rng(seed)
    model, features = random_model(rng), documents(rng)
    if never_missing:
        features = np.nan_to_num(features)
    written = plugin_free_curves(model, NAMES if never_missing else ()).as_dict()
    form = plugin_free_model(StoredModel("m", CURVES, json.loads(json.dumps(written)), FEATURES))
    assert form is not None
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
    def shift(stored: StoredModel) -> float:
        form = plugin_free_model(stored)
        assert form is not None
        return form.shift

    models = [random_model(np.random.default_rng(seed)) for seed in range(40)]
    shifts = [plugin_free_curves(model).shift for model in models]
    stored = [store_plugin_free(model, FEATURES, f"m{seed}") for seed, model in enumerate(models)]
    assert plugin_free_model(stored[0]) is plugin_free_model(stored[0])
    assert list(map(shift, stored)) == shifts
    # Each goes at once, so that the next may be where it was.
    assert [shift(store_plugin_free(model, FEATURES, "m")) for model in models] == shifts


def test_the_command_line_trains_and_shows_curves(run: Run, tmp_path: Path) -> None:
    from owpc_ltr import save_dataset

    save_dataset(problem(1, queries=40), tmp_path / "d.parquet")
    words = ("train", "d.parquet", "--out", "m.json", "--set", "optimizer.C=1")
    run.output(*words, "--piecewise-linear", "--knots", "5")
    out = run.output("models", "show", "m.json")
    assert "additive" in out
    assert "SPAN" in out
    assert "basis.knots" in out
    assert "add --piecewise-linear" in run.refusal(2, *words, "--knots", "5")


TWO_NAMES = ("a", "b")
X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
ONE = LinearModel(TWO_NAMES, np.array([1.0, -2.0]), {"b": Normaliser("standard", 0.5, 2.0)})
TWO = LinearModel(TWO_NAMES, np.array([0.25, 4.0]))


def network() -> NetworkModel:
    from owpc_ltr import make_dataset
    from owpc_ltr.host.settings import configure
    from owpc_ltr.protocols import Run

    registry = load()
    data = make_dataset(X, np.arange(20) % 2, np.repeat(np.arange(4), 5), feature_names=TWO_NAMES)
    gradient = configure(registry.find("optimizer", "gradient"), {"model": "network", "passes": 2})
    loss = configure(registry.find("loss", "lambdarank"), {})
    model = gradient.minimise(loss, data, Run()).model
    assert isinstance(model, NetworkModel)
    return model


def test_the_mean_of_linear_models_is_linear_and_ranks_as_the_mean_of_their_scores() -> None:
    mean = average([ONE, TWO], weights=[1, 3])
    assert isinstance(mean, LinearModel)
    moved = mean.score(X) - (0.25 * ONE.score(X) + 0.75 * TWO.score(X))
    assert np.ptp(moved) == pytest.approx(0, abs=1e-6)


def test_other_models_are_kept_as_parts_and_averages_are_taken_apart(tmp_path: Path) -> None:
    other = network()
    inner = average([ONE, other])
    assert isinstance(inner, AverageModel)
    assert inner.score(X) == pytest.approx((ONE.score(X) + other.score(X)) / 2)
    save_model(inner, tmp_path / "mean.json")
    again = load_scoring_model(tmp_path / "mean.json")
    assert np.array_equal(again.score(X), inner.score(X))
    outer = average([inner, TWO])
    assert isinstance(outer, AverageModel)
    assert len(outer.parts) == 3
    assert outer.score(X) == pytest.approx((inner.score(X) + TWO.score(X)) / 2)


ODD = "x\x1b[31m\n"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: average([ONE, LinearModel(("a", "c"), np.ones(2))]), "different features"),
        (lambda: average([ONE, LinearModel((ODD,), np.ones(1))]), r"^.*\\x1b\[31m\\n.*$"),
        (lambda: average([ONE, TWO], weights=[1.0]), "as many weights"),
        (lambda: average([ONE, TWO], weights=[1.0, -1.0]), "not negative"),
        (lambda: average([]), "no model"),
        (lambda: Normaliser(ODD, 0.0, 1.0), r"is standard or min_max, not 'x\\x1b.*\\n'$"),
        (
            lambda: LinearModel(("a",), np.ones(1), {ODD: Normaliser("standard", 0.0, 1.0)}),
            r"^a normaliser is for a feature .*: 'x\\x1b.*\\n'$",
        ),
        (lambda: Normaliser("k" * 900, 0.0, 1.0), r"not 'k{48}…'$"),
        (
            lambda: LinearModel(("a",), np.ones(1), {"k" * 900: Normaliser("standard", 0.0, 1.0)}),
            r"not there: 'k{48}…'$",
        ),
    ],
)
def test_what_cannot_be_averaged_or_normalised_is_refused(make: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()


weights = st.lists(st.floats(-10, 10, width=32), min_size=4, max_size=4)


@given(weights=weights, scale=st.floats(0.125, 8))
def test_a_weight_is_what_one_more_of_the_feature_adds_to_the_score(
    weights: list[float], scale: float
) -> None:
    normalisers = {"b": Normaliser("standard", 1.0, scale)}
    model = LinearModel(FOUR_NAMES, np.array(weights), normalisers)
    facts_by_feature = importances(model)
    ones = np.eye(4, dtype=np.float32)
    steps = model.score(ones) - model.score(np.zeros((1, 4), np.float32))
    assert [facts_by_feature[name]["weight"] for name in FOUR_NAMES] == pytest.approx(
        list(steps), abs=1e-6
    )
    sizes = [abs(facts["weight"]) for facts in facts_by_feature.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_splits_gain_and_cover_are_those_that_xgboost_counts(rng: np.random.Generator) -> None:
    booster = trained(rng)
    facts_by_feature = importances(from_raw(raw(booster)))
    splits = booster.get_score(importance_type="weight")
    assert {
        name: facts["splits"] for name, facts in facts_by_feature.items() if facts["splits"]
    } == splits
    for fact in ("gain", "cover"):
        totals: dict[str, Any] = booster.get_score(importance_type=f"total_{fact}")
        whole = sum(totals.values())
        shares = {name: facts[fact] for name, facts in facts_by_feature.items() if fact in facts}
        assert shares == pytest.approx({name: part / whole for name, part in totals.items()})
        assert sum(shares.values()) == pytest.approx(1.0)
    gains = [facts.get("gain", 0.0) for facts in facts_by_feature.values()]
    assert gains == sorted(gains, reverse=True)
    assert all(
        0 <= facts["trees"] <= min(facts["splits"], 8) for facts in facts_by_feature.values()
    )


@pytest.mark.parametrize("broken", ["absent", "no numbers", "too few", "not finite", "all zero"])
def test_what_the_file_does_not_tell_of_gains_is_left_out_and_scores_all_the_same(
    broken: str, rng: np.random.Generator
) -> None:
    booster = trained(rng)
    content = raw(booster)
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        gains = tree.pop("loss_changes")
        if broken != "absent":
            tree["loss_changes"] = {
                "no numbers": ["x"] * len(gains),
                "too few": gains[:1],
                "not finite": [float("nan")] * len(gains),
                "all zero": [0.0] * len(gains),
            }[broken]
    model = from_raw(content)
    assert all(facts.keys() == {"splits", "trees"} for facts in importances(model).values())
    rows = rng.normal(size=(20, 4)).astype(np.float32)
    assert np.array_equal(model.score(rows), from_raw(raw(booster)).score(rows))


def test_an_average_tells_what_each_of_its_parts_does(rng: np.random.Generator) -> None:
    trees = from_raw(raw(trained(rng)))
    linear = LinearModel(FOUR_NAMES, np.array([1.0, -2.0, 0.0, 0.5]))
    facts_by_feature = importances(average([trees, linear]))
    assert facts_by_feature["b"]["part 2: weight"] == -2.0
    assert facts_by_feature["b"]["part 1: splits"] == importances(trees)["b"]["splits"]


def test_a_model_file_is_described_without_its_samples(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    trees = from_raw(raw(trained(rng)))
    kept = with_record(trees, {**trees.record, "seed": 7, "probes": [{"query_id": "q"}]})
    save_model(kept, tmp_path / "m.json")
    content, facts, features = describe_model_file(tmp_path / "m.json")
    assert (facts["type"], facts["seed"], facts["features"]) == ("trees", 7, 4)
    assert "probes" not in content["record"]
    assert features == importances(trees)


THREE_NAMES = ("a", "b", "c")


def forest() -> Forest:
    """Two trees: a < 1 ? −2 : 3, and a single leaf of 0.5."""
    return Forest(
        np.array([0, 3], np.int32),
        np.array([0, -1, -1, -1], np.int32),
        np.array([1, 0, 0, 0], np.float32),
        np.array([1, 0, 0, 0], np.int32),
        np.array([False] * 4),
        np.array([9.0, -2.0, 3.0, 0.5]),
    )


def test_the_interval_of_trees_is_the_sum_of_their_lowest_and_highest_leaves() -> None:
    interval = score_interval(TreeModel(THREE_NAMES, forest(), base=1.0))
    assert interval.proven
    assert (interval.low, interval.high) == pytest.approx((-0.5, 4.5), abs=1e-5)
    assert interval.low <= -0.5
    assert interval.high >= 4.5
    logistic = score_interval(TreeModel(THREE_NAMES, forest(), link="logistic"))
    bounds = [1 / (1 + math.exp(-total)) for total in (-1.5, 3.5)]
    assert [logistic.low, logistic.high] == pytest.approx(bounds, rel=1e-5)


def linear_interval(weights: list[float], *how: Any) -> ScoreInterval:
    return score_interval(LinearModel(THREE_NAMES, np.array(weights)), *how)


def test_a_sum_of_scores_is_proven_by_weights_that_are_not_below_0_alone() -> None:
    interval = linear_interval([1.0, 0.0, 2.0], set(THREE_NAMES))
    assert (interval.proven, interval.high) == (True, math.inf)
    assert interval.low == pytest.approx(0.0)
    assert linear_interval([1.0, 1.0, 1.0], {"a", "b"}) == UNKNOWN
    assert linear_interval([1.0, -1.0, 1.0], set(THREE_NAMES)) == UNKNOWN


def test_a_missing_feature_counts_0_also_where_none_was_seen() -> None:
    seen = np.array([[2.0, 3.0, 0.0], [4.0, 5.0, 0.0]])
    interval = linear_interval([-1.0, 2.0, 0.0], set(THREE_NAMES), seen)
    assert not interval.proven
    assert (interval.low, interval.high) == pytest.approx((-4.0, 10.0), abs=1e-5)


def test_features_that_are_bounded_by_their_kind_prove_a_mixed_model_for_every_document() -> None:
    model = LinearModel(THREE_NAMES, np.array([-1.0, 2.0, -0.5]))
    seen = np.array([[0.0, 0.0, 0.0], [0.1, 0.1, 0.1]])
    interval = score_interval(model, set(THREE_NAMES), seen, {"a": 3.0, "b": math.inf, "c": 8.0})
    assert interval.proven
    assert interval.holds == "for every document"
    assert interval.low == pytest.approx(-7.0, abs=1e-4)
    assert interval.high == math.inf
    # One that is not bounded is enough to prove nothing, whatever was seen.
    half = score_interval(model, set(THREE_NAMES), seen, {"a": 3.0, "c": math.inf})
    assert not half.proven
    assert half.low == pytest.approx(-0.15, abs=1e-4)
    assert half.holds.startswith("within twice what was seen")
    assert UNKNOWN.holds == "not known"


finite = st.floats(-50, 50, width=32)


@given(
    weights=st.lists(finite, min_size=3, max_size=3),
    shift=st.floats(0, 5),
    rows=st.lists(st.lists(st.floats(0, 100, width=32), min_size=3, max_size=3), min_size=1),
)
def test_every_score_is_in_the_interval_also_as_a_float32_sum(
    weights: list[float], shift: float, rows: list[list[float]]
) -> None:
    model = LinearModel(THREE_NAMES, np.array(weights), {"b": Normaliser("standard", shift, 2.0)})
    features = np.array(rows, dtype=np.float32)
    seen = np.vstack([features.min(axis=0), features.max(axis=0)])
    interval = score_interval(model, set(THREE_NAMES), seen)
    folded, intercept = model.folded()
    total = np.full(len(rows), np.float32(intercept))
    for column in range(3):
        total = total + np.float32(folded[column]) * features[:, column]
    for scores in (total, model.score(features)):
        # Normalised one by one or folded, a sum may also lose what is far below its largest term.
        assert scores.min() >= interval.low - 1e-9
        assert scores.max() <= interval.high + 1e-9


def test_an_interval_survives_json() -> None:
    for interval in (UNKNOWN, ScoreInterval(-1.5, math.inf, proven=True)):
        assert ScoreInterval.from_dict(interval.as_dict()) == interval


X_INPUTS = np.array([[0.5, np.nan, 2], [-1, 4, 0.25]], dtype=np.float32)


def kind(model: Model) -> str:
    return model.kind


@pytest.mark.parametrize("model", MODELS, ids=kind)
def test_every_kind_of_model_scores_numbers_of_every_kind(model: Model) -> None:
    expected = model.score(X_INPUTS)
    table = pa.table({name: X_INPUTS[:, column] for column, name in enumerate(INPUT_NAMES)})
    as_they_are = [X_INPUTS, X_INPUTS.astype(np.float64), np.asfortranarray(X_INPUTS)]
    others = [X_INPUTS.tolist(), X_INPUTS.astype(object), table.select(["d", "a<b", "c"])]
    for features in (*as_they_are, *others):
        assert np.allclose(model.score(features), expected, rtol=1e-14, atol=0)
    assert all(model_matrix(model, features) is features for features in as_they_are)
    whole: Any = np.array([[1, 2, 3]])
    assert np.array_equal(model.score(whole), model.score(whole.astype(np.float32)))


@pytest.mark.parametrize("model", MODELS, ids=kind)
@pytest.mark.parametrize(
    ("features", "message"),
    [
        (X_INPUTS[0], r"the 3 features of one document are a row: give rows × columns, \[\[…\]\]"),
        ([1, 2, 3], "the 3 features of one document are a row"),
        (
            X_INPUTS[:, :2],
            "the model scores 3 features, the data has 2: use the data of the feature set",
        ),
        (X_INPUTS[0, :2], "the model scores 3 features, the data has 2"),
        (np.float32(1), "the model scores 3 features, the data has 0"),
        ([["1", "2", "3"]], r"features\[0, 0\] is '1', a str, and must be a number"),
        (np.array([["1", "2", "3"]]), "features must be numbers, and these are <U1"),
    ],
)
def test_what_is_no_matrix_of_the_features_is_refused_in_one_line(
    model: Model, features: Any, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        model.score(features)


@pytest.mark.parametrize("model", [*MODELS, ReorderingModel(LINEAR, "any", None)], ids=kind)
@pytest.mark.parametrize("as_text", [True, False])
def test_every_kind_of_model_saves_itself(model: Any, as_text: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    model.save(str(path) if as_text else path)
    if isinstance(model, ReorderingModel):
        base = load_model(path).base  # type: ignore[union-attr]
        assert np.array_equal(base.score(X_INPUTS), LINEAR.score(X_INPUTS))
    else:
        assert np.array_equal(load_scoring_model(path).score(X_INPUTS), model.score(X_INPUTS))
