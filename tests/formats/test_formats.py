"""Models of other libraries and engines: read and written with the same scores."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from owpc_ltr_exports.elastic import to_elastic_body
from sklearn import ensemble, tree

from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats import xgboost_json
from owpc_ltr.formats.ltr_plugin import emulate, export_linear, export_to_plugin
from owpc_ltr.formats.other_trees import from_lightgbm, from_sklearn
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.stored_model import RANKLIB, XGBOOST, ServingProfile
from owpc_ltr.formats.xgboost_json import from_dump, from_raw, to_dump
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.networks import Layer, LogisticNetwork
from owpc_ltr.models.trees import TreeModel
from tests.foreign_models import (
    MIDDLE,
    NAMES,
    NEW,
    OBJECTIVES,
    OLD,
    data,
    predictions,
    raw,
    stored,
    trained,
    zero_model,
)


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {"objective": objective, **base}
            for objective in OBJECTIVES
            for base in ({}, {"base_score": 0.3})
        ),
        {"booster": "dart", "rate_drop": 0.4, "seed": 1},
        {"num_parallel_tree": 3, "subsample": 0.7},
        {"grow_policy": "lossguide", "max_leaves": 9, "tree_method": "hist"},
        {"tree_method": "exact", "eta": 0.1},
        {"gamma": 1.0, "tree_method": "exact"},
        {"max_depth": 0, "max_leaves": 40, "grow_policy": "lossguide"},
    ],
    ids=str,
)
def test_every_objective_and_way_to_grow_trees_scores_as_xgboost_predicts(
    rng: np.random.Generator, settings: dict[str, Any]
) -> None:
    rows, _ = data(rng)
    booster = trained(rng, **settings)
    model = from_raw(raw(booster))
    assert model.score(rows) == pytest.approx(predictions(booster, rows), abs=1e-6)


def test_the_best_iteration_is_what_is_kept(rng: np.random.Generator) -> None:
    rows, labels = data(rng)
    regressor = xgboost.XGBRegressor(
        n_estimators=60, early_stopping_rounds=3, num_parallel_tree=2, n_jobs=1, learning_rate=0.9
    )
    regressor.fit(rows[:200], labels[:200], eval_set=[(rows[200:], labels[200:])], verbose=False)
    content = raw(regressor.get_booster())
    model = from_raw(content, NAMES)
    assert len(model.forest.roots) == 2 * (regressor.best_iteration + 1)
    assert model.score(rows) == pytest.approx(regressor.predict(rows), abs=1e-6)
    everything = from_raw(content, NAMES, slice_best=False)
    assert len(everything.forest.roots) > len(model.forest.roots)


def test_a_dump_read_is_the_model_without_its_base_score(rng: np.random.Generator) -> None:
    booster = trained(rng, base_score=0.7)
    dump = [json.loads(text) for text in booster.get_dump(dump_format="json", with_stats=True)]
    model, whole = from_dump(dump, NAMES), from_raw(raw(booster))
    rows, _ = data(rng)
    assert model.score(rows) + whole.base == pytest.approx(whole.score(rows), abs=1e-12)


def lightgbm_model(rng: np.random.Generator, **settings: Any) -> tuple[Any, Any]:
    rows, labels = data(rng)
    rows[:, 3] = np.where(rng.random(400) < 0.5, 0, rows[:, 3])
    settings = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1, **settings}
    group = [20] * 20 if "rank" in settings["objective"] else None
    train = lightgbm.Dataset(rows, labels, group=group, feature_name=list(NAMES))
    edges = np.array([0, -0.0, 1e-35, -1e-35, 1e-36, 1.1e-35, -1.1e-35, 1e-45], np.float32)
    rows = np.vstack([rows, rng.choice(edges, size=(200, 4))])
    return lightgbm.train({"min_data_in_leaf": 3, **settings}, train, 12), rows


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"zero_as_missing": True},
        {"zero_as_missing": True, "num_leaves": 60, "min_data_in_leaf": 2},
        {"use_missing": False},
        {"objective": "rank_xendcg", "seed": 3},
        {"objective": "regression"},
        {"objective": "huber"},
        {"objective": "binary"},
        {"objective": "binary", "sigmoid": 0.7},
        {"objective": "cross_entropy"},
        {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
        {"objective": "regression", "boosting": "dart", "drop_rate": 0.3},
        {"min_data_in_leaf": 1000},
    ],
    ids=str,
)
def test_lightgbm_scores_as_it_predicts(rng: np.random.Generator, settings: dict[str, Any]) -> None:
    booster, rows = lightgbm_model(rng, **settings)
    model = from_lightgbm(booster.model_to_string())
    assert model.feature_names == NAMES
    assert model.score(rows) == pytest.approx(booster.predict(rows), abs=1e-9)


def test_a_model_of_lightgbm_that_contradicts_itself_is_refused(rng: np.random.Generator) -> None:
    text = lightgbm_model(rng)[0].model_to_string()
    trees = text.count("Tree=")
    short = text[: text.rindex("Tree=")] + text[text.index("end of trees") :]
    far = re.sub(r"(split_feature=)\d+", rf"\g<1>{2**32}", text)
    for other, message in (
        (short, f"{trees - 1} trees, and its tree_sizes are of {trees}"),
        (far, "'split_feature' is beyond 32 bits"),
    ):
        with pytest.raises(BadInput, match=message):
            from_lightgbm(other)


@pytest.mark.parametrize("bound", ["inf", "-inf", "1e308"])
@pytest.mark.parametrize(
    "settings", [{}, {"zero_as_missing": True}, {"use_missing": False}], ids=str
)
def test_a_bound_of_lightgbm_may_be_infinite(
    settings: dict[str, Any], bound: str, rng: np.random.Generator
) -> None:
    """It writes one where a split only tells missing values from all others."""
    booster, rows = lightgbm_model(rng, **settings)
    lines = booster.model_to_string().split("\n")
    spread = [re.sub(r"^(threshold=)\S+", rf"\g<1>{bound}", line) for line in lines]
    text = "\n".join(line for line in spread if not line.startswith("tree_sizes"))
    assert f"threshold={bound} " in text
    again = lightgbm.Booster(model_str=text)
    assert again.predict(rows) != pytest.approx(booster.predict(rows), abs=1e-9)
    assert from_lightgbm(text).score(rows) == pytest.approx(again.predict(rows), abs=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "multiclass", "num_class": 2},
        {"objective": "poisson"},
        {"objective": "regression", "linear_tree": True},
        {"objective": "regression", "min_data_per_group": 1, "cat_smooth": 0},
        {"objective": "regression", "reg_sqrt": True},
    ],
    ids=str,
)
def test_lightgbm_that_no_engine_scores_is_refused(
    rng: np.random.Generator, settings: dict[str, Any]
) -> None:
    rows, labels = data(rng, 0)
    rows[:, 3] = np.arange(400) % 7
    target = labels + (rows[:, 3] % 2)
    categories = [3] if "cat_smooth" in settings else []
    train = lightgbm.Dataset(
        rows.astype(float), np.minimum(target, 1), categorical_feature=categories
    )
    booster = lightgbm.train({"verbosity": -1, "num_threads": 1, **settings}, train, 3)
    with pytest.raises(BadInput, match=r"train|categorical|linear"):
        from_lightgbm(booster.model_to_string())


@pytest.mark.parametrize(
    ("make", "gaps"),
    [
        (lambda: tree.DecisionTreeRegressor(max_depth=5), True),
        (lambda: ensemble.RandomForestRegressor(7, max_depth=5, n_jobs=1), True),
        (lambda: ensemble.HistGradientBoostingRegressor(max_iter=8), True),
        (lambda: ensemble.HistGradientBoostingRegressor(max_iter=8, loss="absolute_error"), True),
        (lambda: ensemble.HistGradientBoostingClassifier(max_iter=8), True),
        (lambda: ensemble.ExtraTreesRegressor(7, max_depth=5, n_jobs=1), False),
        (lambda: ensemble.GradientBoostingRegressor(n_estimators=8), False),
        (lambda: ensemble.GradientBoostingRegressor(n_estimators=8, init="zero"), False),
        (lambda: ensemble.GradientBoostingClassifier(n_estimators=8), False),
    ],
)
def test_scikit_learn_scores_as_it_predicts(
    rng: np.random.Generator, make: Callable[[], Any], gaps: bool
) -> None:
    rows, labels = data(rng) if gaps else data(rng, 0)
    estimator = make().fit(rows, labels)
    classifies = hasattr(estimator, "predict_proba")
    wanted = estimator.predict_proba(rows)[:, 1] if classifies else estimator.predict(rows)
    scores = from_sklearn(estimator, NAMES, None if gaps else "as-trained").score(rows)
    assert scores == pytest.approx(wanted, abs=1e-9)


def test_scikit_learn_that_no_engine_scores_is_refused(rng: np.random.Generator) -> None:
    rows, labels = data(rng, 0)
    several = tree.DecisionTreeRegressor().fit(rows, np.column_stack([labels, labels]))
    poisson = ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=2).fit(rows, labels)
    for estimator, message in (
        (several, "several outputs"),
        (poisson, "'poisson' has a link"),
        (tree.DecisionTreeRegressor(), "not fitted"),
        (object(), "no converter for 'object'"),
    ):
        with pytest.raises(BadInput, match=message):
            from_sklearn(estimator, NAMES)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("learner", "gradient_booster", "name"), "gblinear", "only gbtree and dart"),
        (("learner", "learner_model_param", "num_class"), "3", "num_class"),
        (("learner", "learner_model_param", "num_target"), "2", "num_target"),
        (("learner", "learner_model_param", "base_score"), "[1E0,2E0]", "not one number"),
        (("learner", "learner_model_param", "base_score"), "nan", "not one number"),
        (("learner", "objective", "name"), "multi:softmax", "not supported by engines"),
        (("learner", "objective", "name"), "count:poisson", "not supported by engines"),
        (("learner", "feature_types"), ["float", "c", "float", "float"], "categorical"),
        (("learner", "feature_names"), ["a", "b"], "splits on feature number"),
        (("learner", "feature_names"), ["a", "a", "c", "d"], "two features of one name"),
        (("learner", "attributes"), {"best_iteration": "x"}, "best_iteration"),
        (("learner", "attributes"), {"best_iteration": "8"}, "8 trees, and its best_iteration .*"),
        (("learner",), [], "not an object"),
        (("version",), [], "version"),
    ],
)
def test_raw_models_that_cannot_be_repaired_are_refused(
    rng: np.random.Generator, path: tuple[str, ...], value: object, message: str
) -> None:
    content = raw(trained(rng))
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(BadInput, match=message):
        from_raw(content)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("split_type", [1], "categorical"),
        ("left_children", [5], "node 5 is not among|one child"),
        ("split_indices", [-1], "negative number"),
        ("split_conditions", ["1"], "not only numbers"),
        ("split_conditions", [1e39], "not a finite float32"),
        ("default_left", [0.5], "not only 32-bit integers"),
        ("tree_param", {"size_leaf_vector": "3"}, "vectors as leaves"),
        ("parents", [0, 0], "1 nodes and 2 parents"),
        ("id", 4, "says that it is tree 4"),
    ],
)
def test_raw_trees_that_cannot_be_repaired_are_refused(key: str, value: Any, message: str) -> None:
    none = [0]
    one_leaf = {
        "left_children": [-1],
        "right_children": [-1],
        "split_indices": none,
        "default_left": none,
        "split_conditions": none,
        "split_type": none,
    }
    content = {
        "learner": {
            "feature_names": ["a"],
            "gradient_booster": {"name": "gbtree", "model": {"trees": [one_leaf]}},
            "learner_model_param": {"base_score": "5E-1"},
            "objective": {"name": "rank:ndcg"},
        },
        "version": [3, 0, 0],
    }
    assert from_raw(content).base == 0.5
    one_leaf[key] = value
    if key in {"split_indices", "left_children"}:
        one_leaf["left_children"] = one_leaf["right_children"] = [5]
    with pytest.raises(BadInput, match=message):
        from_raw(content)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("iteration_indptr", [1, 2, 3], "do not run from 0 to its 8 trees"),
        ("iteration_indptr", [0, 9], "do not run from 0 to its 8 trees"),
        ("tree_info", [0, 1], "several outputs"),
        ("tree_info", [0], "8 trees and 1 of 'tree_info'"),
        ("trees", [], "0 trees and 8 of"),
        ("gbtree_model_param", {"num_trees": "9"}, "8 trees, and its num_trees is 9"),
        ("gbtree_model_param", {"num_trees": 8}, "num_trees of the XGBoost model is 8"),
    ],
)
def test_raw_models_that_contradict_themselves_are_refused(
    rng: np.random.Generator, key: str, value: Any, message: str
) -> None:
    content = raw(trained(rng))
    content["learner"]["gradient_booster"]["model"][key] = value
    with pytest.raises(BadInput, match=message):
        from_raw(content)


def test_a_node_that_names_another_parent_is_refused(rng: np.random.Generator) -> None:
    content = raw(trained(rng))
    tree = content["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["parents"][tree["left_children"][0]] = 3
    with pytest.raises(BadInput, match="names another parent"):
        from_raw(content)


def test_what_the_plugin_says_of_missing_values_is_read_from_a_raw_model_too(
    rng: np.random.Generator,
) -> None:
    written = raw(trained(rng))
    model = from_raw(written)
    rows = np.full((3, len(NAMES)), np.nan, np.float32)
    zeros = model.with_missing_as_zero()
    assert (zeros.score(rows) != model.score(rows)).any()
    assert (from_raw({**written, "missing_as_zero": True}).score(rows) == zeros.score(rows)).all()
    with pytest.raises(BadInput, match="not true or false"):
        from_raw({**written, "missing_as_zero": 1})


def test_a_split_on_a_feature_that_is_far_away_counts_nothing(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its importances would take 17 GB."""

    def count(*_: Any) -> None:
        raise MemoryError

    content = raw(trained(rng))
    tree = content["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["split_indices"][0] = 2**31 - 1
    monkeypatch.setattr(xgboost_json, "recorded_importances", count)
    with pytest.raises(BadInput, match="feature number 2147483647"):
        from_raw(content)


@pytest.mark.parametrize("profile", [OLD, NEW], ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_is_exported_scores_as_the_model(
    rng: np.random.Generator, profile: ServingProfile, objective: str
) -> None:
    rows, _ = data(rng)
    model = zero_model(rng, objective=objective, base_score=0.3)
    more = ("x", *reversed(NAMES), "y")  # a feature set in another order
    wide = np.column_stack([rows[:, 0], rows[:, ::-1], rows[:, 0]])
    exports: list[tuple[str, object]] = [(XGBOOST, to_dump(model, more, profile))]
    if model.link == "identity":
        exports.append((RANKLIB, to_ranklib(model, more, profile)))
    for model_type, definition in exports:
        scores = emulate(stored(model_type, definition, more), wide, profile)
        assert scores == pytest.approx(model.score(rows), abs=1e-6)


def test_a_model_of_missing_values_goes_to_engines_that_know_them(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    booster = trained(rng, base_score=0.5)
    model = from_raw(raw(booster))
    scores = emulate(stored(XGBOOST, to_dump(model, NAMES, NEW)), rows, NEW)
    assert scores == pytest.approx(predictions(booster, rows), abs=1e-6)
    for profile in (OLD, MIDDLE):
        with pytest.raises(Refused, match="send a missing feature elsewhere"):
            to_dump(model, NAMES, profile)
        # Features that match every document are safe anywhere.
        full = np.nan_to_num(rows)
        definition = to_dump(model, NAMES, profile, never_missing=NAMES)
        scores = emulate(stored(XGBOOST, definition), full, profile)
        assert scores == pytest.approx(predictions(booster, full), abs=1e-6)


def test_between_3_2_and_3_7_a_model_of_zeros_goes_as_ranklib_or_flagged(
    rng: np.random.Generator,
) -> None:
    rows, _ = data(rng)
    model = zero_model(rng)
    flagged = replace(MIDDLE, missing_as_zero=True)
    definition = to_dump(model, NAMES, flagged)
    assert definition["missing_as_zero"] is True
    assert "missing_as_zero" not in to_dump(model, NAMES, NEW)
    for form, profile in (
        (stored(RANKLIB, to_ranklib(model, NAMES, MIDDLE)), MIDDLE),
        (stored(XGBOOST, definition), flagged),
    ):
        assert emulate(form, rows, profile) == pytest.approx(model.score(rows), abs=1e-6)


def test_what_is_written_reads_back_as_the_same_trees(rng: np.random.Generator) -> None:
    model = replace(zero_model(rng), link="identity", base=0.0)
    single = model.forest.value.astype(np.float32).astype(np.float64)
    model = replace(model, forest=replace(model.forest, value=single))
    wanted = model.as_dict()
    assert from_dump(to_dump(model, NAMES, NEW), NAMES).as_dict() == wanted
    again = from_ranklib(to_ranklib(model, NAMES, NEW), NAMES)
    assert isinstance(again, TreeModel)
    assert again.as_dict() == wanted


def test_networks_go_through_ranklib(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    hidden = Layer(rng.normal(size=(3, 4)), rng.normal(size=3))
    network = LogisticNetwork(NAMES, (hidden, Layer(rng.normal(size=(1, 3)), rng.normal(size=1))))
    definition = to_ranklib(network, NAMES, OLD)
    scores = emulate(stored(RANKLIB, definition), rows, OLD)
    assert scores == pytest.approx(network.score(rows), abs=1e-6)
    again = from_ranklib(definition, NAMES)
    assert isinstance(again, LogisticNetwork)
    assert again.as_dict() == network.as_dict()
    content = json.loads(json.dumps(network.as_dict()))
    assert LogisticNetwork.from_dict(content, NAMES, {}).as_dict() == network.as_dict()


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1e-60), (0.0, 1e60), (1e60, 1.0)])
@pytest.mark.parametrize("kind", ["standard", "min_max"])
def test_a_normaliser_that_no_float32_holds_is_refused(
    kind: str, shift: float, scale: float
) -> None:
    model = LinearModel(("a",), np.array([1e-30]), {"a": Normaliser(kind, shift, scale)})
    features = FeatureSet("f", (Feature("a", (), {"match_all": {}}),))
    with pytest.raises(Refused, match=r"the normaliser of 'a' .* scale the feature"):
        export_linear(model, features, "m")


def test_elasticsearchs_body_takes_the_feature_sets_queries(rng: np.random.Generator) -> None:
    features = tuple(Feature(name, (), {"match": {name: "{{q}}"}}) for name in NAMES)
    body = to_elastic_body(zero_model(rng), FeatureSet("f", features))
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    assert extractors[1]["query_extractor"]["query"] == {"match": {"b": "{{q}}"}}
    script = Feature("s", (), "1 + a", "derived_expression")
    with pytest.raises(Refused, match="'s' is not a mustache query"):
        to_elastic_body(zero_model(rng), FeatureSet("f", (*features, script)))
    with pytest.raises(Refused, match="rescore chain"):
        to_elastic_body(LinearModel(NAMES, np.ones(4)), FeatureSet("f", features))


def test_what_an_engine_cannot_do_is_refused_before_it_is_asked(rng: np.random.Generator) -> None:
    model = zero_model(rng)
    with pytest.raises(Refused, match="needs the feature 'd'"):
        to_dump(model, NAMES[:3], NEW)
    with pytest.raises(Refused, match="RankLib has no logistic output"):
        to_ranklib(replace(model, link="logistic"), NAMES, NEW)
    with pytest.raises(Refused, match="as model/ranklib"):
        to_dump(model, NAMES, MIDDLE)


def test_the_first_format_that_scores_a_model_exactly_is_chosen(rng: np.random.Generator) -> None:
    zeros, native = zero_model(rng), from_raw(raw(trained(rng)))
    features = FeatureSet("f", tuple(Feature(n, (), {"match": {n: "x"}}) for n in NAMES))
    for model, profile, wanted in (
        *((zeros, OLD, XGBOOST), (zeros, MIDDLE, RANKLIB), (zeros, NEW, XGBOOST)),
        (native, NEW, XGBOOST),
    ):
        assert export_to_plugin(model, features, "m", profile).type == wanted
    with pytest.raises(Refused, match="elsewhere than opensearch 3"):
        export_to_plugin(native, features, "m", MIDDLE)
